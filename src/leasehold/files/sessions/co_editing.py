"""Rooms: people who edit a file together hold it as one, and sessions are told so."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core.lease import LeaseState
from leasehold.core.multi_lock import acquire_in_turn, release_each
from leasehold.core.replies import Owner
from leasehold.errors import InvalidRequest, LockBusy
from leasehold.files.sessions.claims import shorten
from leasehold.files.sessions.conflicts import refusal
from leasehold.files.sessions.entries import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.files.sessions.context import Office, Path
    from leasehold.files.sessions.held_file import FileHold

L = TypeVar("L", bound=LeaseState)
H = TypeVar("H", bound="FileHold[Any]")
_HOLDER_AT_MOST = 200


class Room(Generic[L, H]):
    """One room over one file. It has no session, no history and no limit: it ends with its opener."""

    def __init__(self, office: Office[L], holder: Any, make_hold: Callable[..., H]) -> None:
        if not isinstance(holder, str) or not holder.isprintable() or not 0 < len(holder) <= _HOLDER_AT_MOST:
            raise InvalidRequest(f"a room's holder is 1 to {_HOLDER_AT_MOST} printable characters")
        self._office = office
        self._holder = holder
        self._make_hold = make_hold

    async def open(self, path: Path, ttl: float | None, wait: float | None) -> H:
        """The file, held by the room."""
        allowed, trimmed = self.trim(ttl)
        file = await self._office.identify(path)
        engine = self._office.engine
        entry = Entry("", file.path, file.lock_names, "write", "held", allowed, self._office.now(), 0)
        shown: dict[str, Any] = {"room": self._holder, "mode": "write", "path": shorten(file.path)}
        own = {
            name: Owner(secrets.token_hex(16), shown if name == file.sha256 else {**shown, "link": True})
            for name in file.lock_names
        }
        work = acquire_in_turn(
            engine, file.lock_names, allowed, wait, engine.clock.now(), "exclusive", None, True, owners=own
        )
        try:
            leases = await self._office.watch(work)
        except LockBusy as busy:
            raise refusal(busy, file.path, session=None, wait=wait) from busy
        return self._make_hold(engine, leases, self, entry, trimmed=trimmed)

    async def give_back(self, hold: H) -> None:
        """Close the room."""
        await self._office.watch(release_each(self._office.engine, list(hold)))

    async def upgrade(self, hold: H, wait: float | None) -> None:
        """A room may write anyway."""

    def trim(self, ttl: float | None) -> tuple[float, bool]:
        """As for sessions."""
        return self._office.trim(ttl)
