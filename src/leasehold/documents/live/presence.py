"""Who is connected to this worker, for as long as they may be."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from leasehold.documents.live.messages import CloseCode
from leasehold.documents.live.permission_recheck import Rights
from leasehold.documents.live.worker_notices import RightsChanged
from leasehold.errors import StoreError
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency
from leasehold.runtime.periodic import every

if TYPE_CHECKING:
    from collections.abc import Collection

    from leasehold.documents.access_control import Gate
    from leasehold.documents.live.limits import SocketLimits
    from leasehold.documents.live.socket import Socket
    from leasehold.documents.live.worker_notices import Notice, Notices

_log = logging.getLogger("leasehold")

# Notices may get lost without a sign, so ended sign-ins are looked for once in a while.
_CHECK_EVERY = 30.0
# Where nothing can be heard at all.
_DEAF_CHECK_EVERY = 5.0
_RETRY_EVERY = 0.5


class Attendance:
    """The sockets by user. Those whose sign-in ends are sent away, and those whose rights change are asked again."""

    def __init__(self, *, gate: Gate, notices: Notices, limits: SocketLimits) -> None:
        self.connecting: set[Socket] = set()
        """Those who have not said yet who they are."""
        self.rights = Rights(gate, self.of)
        self._notices = notices
        self._limits = limits
        self._sockets: dict[str, set[Socket]] = {}
        self._tasks = AsyncioConcurrency()
        self._is_deaf = False
        self._is_open = False

    def start(self) -> None:
        """Listen to what other workers say, from now on."""
        self._is_open = True
        self._tasks.spawn(self._listen())
        self._tasks.spawn(
            every(
                lambda: _DEAF_CHECK_EVERY if self._is_deaf else _CHECK_EVERY,
                self._check,
                "which sign-ins have ended is not known",
            )
        )

    async def close(self) -> None:
        """Send everybody away."""
        self._is_open = False
        for socket in (*self.connecting, *self.of(None)):
            socket.close(CloseCode.GOING_AWAY)
        await self._tasks.close()
        await self.rights.close()

    def of(self, user_id: str | None) -> Collection[Socket]:
        """The user's sockets, or with None all."""
        if user_id is not None:
            return self._sockets.get(user_id, ())
        return [socket for sockets in self._sockets.values() for socket in sockets]

    def register(self, socket: Socket) -> bool:
        """Count the socket among its user's; False if there are too many."""
        self.connecting.discard(socket)
        sockets = self._sockets.get(socket.editor.user_id, set())
        if len(sockets) >= self._limits.sockets_per_user:
            return False
        self._sockets.setdefault(socket.editor.user_id, sockets).add(socket)
        return True

    def unregister(self, socket: Socket) -> None:
        """Forget the socket, in whichever list it is."""
        self.connecting.discard(socket)
        user_id = socket.editor.user_id
        sockets = self._sockets.get(user_id, set())
        sockets.discard(socket)
        if not sockets:
            self._sockets.pop(user_id, None)

    async def has_ended(self, socket: Socket) -> bool:
        """Whether the sign-in of a socket that is registered had been ended before it was."""
        (has_ended,) = await self._notices.have_ended([socket.admission])
        return has_ended

    def hear(self, notice: Notice) -> None:
        """Rights have changed, or sign-ins have ended."""
        if isinstance(notice, RightsChanged):
            self.rights.change(notice.user_id)
            return
        for socket in tuple(self.of(notice.user_id)):
            if notice.includes(socket.admission):
                socket.close(CloseCode.NOT_SIGNED_IN)

    async def _listen(self) -> None:
        while True:
            try:
                self._is_deaf = not await self._notices.listen(self.hear, self._resume)
            except StoreError as error:
                _log.warning("what other workers say cannot be heard yet: %s", error)
                await asyncio.sleep(_RETRY_EVERY)
            else:
                return self._resume()  # something may have been said before

    def _resume(self) -> None:
        """Something may have been missed."""
        if not self._is_open:
            return  # a wire goes on telling
        self.rights.change(None)
        self._tasks.spawn(self._check_after_gap())

    async def _check_after_gap(self) -> None:
        try:
            await self._check_sign_ins()
        except StoreError as error:
            _log.warning("which sign-ins have ended is not known: %s", error)  # the next check tells

    async def _check(self) -> None:
        if self._is_deaf:
            self.rights.change(None)
        await self._check_sign_ins()

    async def _check_sign_ins(self) -> None:
        sockets = self.of(None)
        ended = await self._notices.have_ended([socket.admission for socket in sockets])
        for socket, has_ended in zip(sockets, ended, strict=True):
            if has_ended:
                socket.close(CloseCode.NOT_SIGNED_IN)
