"""Tracks the sockets of this worker by user, and closes those whose login has ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasehold.documents.live.messages import CloseCode
from leasehold.documents.live.permission_recheck import PermissionRecheck
from leasehold.documents.live.worker_notices import RightsChanged
from leasehold.errors import StoreError
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency
from leasehold.runtime.periodic import every
from leasehold.runtime.subscription import keep_subscribed

if TYPE_CHECKING:
    from collections.abc import Collection

    from leasehold.documents.access_control import PermissionCheck
    from leasehold.documents.live.limits import SocketLimits
    from leasehold.documents.live.socket import Socket
    from leasehold.documents.live.worker_notices import Notice, WorkerNotices

_log = logging.getLogger("leasehold.documents")

# Notices may be lost without a sign, so ended logins are looked up once in a while.
_CHECK_EVERY = 30.0
# Where pub/sub is not available.
_DEAF_CHECK_EVERY = 5.0


class Presence:
    """The sockets by user. Closes them when their login ends, and re-checks them when permissions change."""

    def __init__(self, *, permissions: PermissionCheck, notices: WorkerNotices, limits: SocketLimits) -> None:
        self.connecting: set[Socket] = set()
        """Sockets that are not authenticated yet."""
        self.recheck = PermissionRecheck(permissions, self.of)
        self._notices = notices
        self._limits = limits
        self._sockets: dict[str, set[Socket]] = {}
        self._tasks = AsyncioConcurrency()
        self._is_open = False

    def start(self) -> None:
        """Listen to the notices of other workers."""
        self._is_open = True
        self._tasks.spawn(
            keep_subscribed(
                lambda: self._notices.listen(self.on_notice, self._resume),
                self._resume,
                deaf_every=_DEAF_CHECK_EVERY,
                to="notices of other workers",
            )
        )
        self._tasks.spawn(
            every(lambda: _CHECK_EVERY, self._check_logins, "ended logins could not be looked up")
        )

    async def close(self) -> None:
        """Close every socket."""
        self._is_open = False
        for socket in (*self.connecting, *self.of(None)):
            socket.close(CloseCode.GOING_AWAY)
        await self._tasks.close()
        await self.recheck.close()

    def of(self, user_id: str | None) -> Collection[Socket]:
        """The user's sockets, or with None all."""
        if user_id is not None:
            return self._sockets.get(user_id, ())
        return [socket for sockets in self._sockets.values() for socket in sockets]

    def has_place_for(self, address: str) -> bool:
        """One more socket from ``address`` may connect. A single address cannot take all places."""
        limits = self._limits
        return (
            len(self.connecting) < limits.unauthenticated
            and sum(socket.address == address for socket in self.connecting)
            < limits.unauthenticated_per_address
        )

    def register(self, socket: Socket) -> bool:
        """Add the socket to its user's; False if the user has too many."""
        self.connecting.discard(socket)
        sockets = self._sockets.get(socket.editor.user_id, set())
        if len(sockets) >= self._limits.sockets_per_user:
            return False
        self._sockets.setdefault(socket.editor.user_id, sockets).add(socket)
        return True

    def unregister(self, socket: Socket) -> None:
        """Remove the socket from every list."""
        self.connecting.discard(socket)
        user_id = socket.editor.user_id
        sockets = self._sockets.get(user_id, set())
        sockets.discard(socket)
        if not sockets:
            self._sockets.pop(user_id, None)

    async def has_ended(self, socket: Socket) -> bool:
        """The login of a registered socket ended before it was registered."""
        (has_ended,) = await self._notices.have_ended([socket.admission])
        return has_ended

    def on_notice(self, notice: Notice) -> None:
        """Re-check or close the sockets that a notice is about."""
        if isinstance(notice, RightsChanged):
            self.recheck.change(notice.user_id)
            return
        for socket in tuple(self.of(notice.user_id)):
            if notice.includes(socket.admission):
                socket.close(CloseCode.NOT_SIGNED_IN)

    def _resume(self) -> None:
        """Check everything, because a notice may have been missed."""
        if not self._is_open:
            return  # a subscription outlives its subscriber
        self.recheck.change(None)
        self._tasks.spawn(self._check_after_gap())

    async def _check_after_gap(self) -> None:
        try:
            await self._check_logins()
        except StoreError as error:
            _log.warning("ended logins could not be looked up: %s", error)  # the next check finds them

    async def _check_logins(self) -> None:
        sockets = self.of(None)
        ended = await self._notices.have_ended([socket.admission for socket in sockets])
        for socket, has_ended in zip(sockets, ended, strict=True):
            if has_ended:
                socket.close(CloseCode.NOT_SIGNED_IN)
