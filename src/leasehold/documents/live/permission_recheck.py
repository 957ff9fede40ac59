"""Re-checks who may watch which document after permissions have changed."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from leasehold.core.backoff import Backoff
from leasehold.documents.live.messages import CloseCode
from leasehold.errors import NotAllowed, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from leasehold.documents.access_control import PermissionCheck
    from leasehold.documents.live.socket import Socket

_log = logging.getLogger("leasehold.documents")

_RETRY = Backoff(first=0.1, cap=2)
_TRIES = 6


class PermissionRecheck:
    """Closes rooms that a socket may no longer watch. ``sockets_of`` returns a user's sockets, or with None all."""

    def __init__(
        self, permissions: PermissionCheck, sockets_of: Callable[[str | None], Collection[Socket]]
    ) -> None:
        self._permissions = permissions
        self._sockets_of = sockets_of
        self._changed: dict[str | None, None] = {}
        self._checking: asyncio.Task[None] | None = None
        self.changes = 0
        """Counts the changes: a permission that was checked before the latest must be checked again."""

    def change(self, user_id: str | None) -> None:
        """Check again every room of the user, or with None of all users."""
        self.changes += 1
        self._changed[user_id] = None
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check(), name="leasehold-rights")

    async def close(self) -> None:
        """End all checks."""
        self._changed.clear()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})

    async def _check(self) -> None:
        try:
            while self._changed:
                user_id = next(iter(self._changed))
                del self._changed[user_id]
                known: dict[tuple[str, str], str | None] = {}
                for socket in tuple(self._sockets_of(user_id)):
                    for document_id in tuple(socket.rooms):
                        which = (socket.editor.user_id, document_id)
                        if which not in known:
                            known[which] = await self._refusal(*which)
                        if known[which] is not None:
                            self._close_room(socket, document_id, known[which] or "")
        finally:
            self._checking = None

    async def _refusal(self, user_id: str, document_id: str) -> str | None:
        """The code of the refusal; None if it is permitted, empty if the policy did not answer."""
        for tries in range(1, _TRIES + 1):
            try:
                await self._permissions.check(user_id, document_id, "viewer")
            except (NotAllowed, NotFound) as refusal:
                return refusal.code
            except Exception:  # noqa: BLE001 - the host application's own
                _log.exception("the access policy failed for document %r", document_id)
                await asyncio.sleep(_RETRY.pause(tries, random.random()))  # noqa: S311 - not a secret
            else:
                return None
        return ""

    def _close_room(self, socket: Socket, document_id: str, code: str) -> None:
        if code:
            socket.close_room(document_id, code)
        else:
            # The permission may be unchanged, so the client should reconnect and ask.
            socket.close(CloseCode.GOING_AWAY)
