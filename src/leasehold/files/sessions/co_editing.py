"""Holds a file for people who edit it together (a room); sessions get the reason ``room_busy``."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core.leases.lease import LeaseState
from leasehold.core.multi_lock import acquire_in_turn, release_each, release_in_background
from leasehold.core.replies import Owner
from leasehold.errors import InvalidRequest, LockBusy
from leasehold.files.sessions.claims import shorten_path
from leasehold.files.sessions.conflicts import busy_error
from leasehold.files.sessions.entries import Entry
from leasehold.files.sessions.held_file import FileVerbs

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.files.sessions.context import Path, SessionContext
    from leasehold.files.sessions.held_file import HeldFile

L = TypeVar("L", bound=LeaseState)
H = TypeVar("H", bound="HeldFile[Any]")
_MAX_HOLDER = 200


class CoEditing(Generic[L, H]):
    """One room over one file. It has no session, no history and no rate limit: it ends with its opener."""

    def __init__(self, context: SessionContext[L], holder: Any, make_lease: Callable[..., H]) -> None:
        if not isinstance(holder, str) or not holder.isprintable() or not 0 < len(holder) <= _MAX_HOLDER:
            raise InvalidRequest(f"a room's holder is 1 to {_MAX_HOLDER} printable characters")
        self._context = context
        self._holder = holder
        self._make_lease = make_lease

    async def open(self, path: Path, ttl: float | None, wait: float | None) -> H:
        """The file, held by the room."""
        context = self._context
        allowed, trimmed = context.trim_ttl(ttl)
        file = await context.identify(path)
        engine = context.engine
        entry = Entry("", file.path, file.lock_names, "write", "held", allowed, context.now(), 0)
        shown: dict[str, Any] = {"room": self._holder, "mode": "write", "path": shorten_path(file.path)}
        own = {
            name: Owner(secrets.token_hex(16), shown if name == file.sha256 else {**shown, "link": True})
            for name in file.lock_names
        }
        work = acquire_in_turn(
            engine, file.lock_names, allowed, wait, engine.clock.now(), "exclusive", None, True, owners=own
        )
        try:
            leases = await context.watch_outage(work)
        except LockBusy as busy:
            raise busy_error(busy, file.path, session=None, wait=wait) from busy
        try:
            verbs = FileVerbs(self._release, _upgrade, context.trim_ttl)
            return self._make_lease(engine, leases, verbs, entry, trimmed=trimmed)
        except BaseException:  # from a signal handler
            release_in_background(engine, leases)
            raise

    async def _release(self, hold: HeldFile[Any]) -> None:
        await self._context.watch_outage(release_each(self._context.engine, list(hold)))


async def _upgrade(hold: HeldFile[Any], wait: float | None) -> None:
    """Do nothing: a room holds its file for writing."""
