"""Who holds a file, as anybody may see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.files.sessions.conflicts import is_room

if TYPE_CHECKING:
    from leasehold.core.replies import Hold, LockInfo
    from leasehold.errors import Holder
    from leasehold.files.sessions.entries import Access


@dataclass(frozen=True, slots=True)
class HeldBy:
    """One who holds a file. ``session`` is None for a room of people."""

    session: str | None
    mode: Access
    purpose: str | None
    since: float
    remaining: float
    fence: int
    holder: Holder

    @property
    def is_room(self) -> bool:
        """Whether people edit it together."""
        return is_room(self.holder)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as it stood when the store answered: who holds it, and how many wait. Tokens are never part of it."""

    path: str
    sha256: str
    mode: Access | None
    holds: tuple[HeldBy, ...]
    waiters: int

    @property
    def is_held(self) -> bool:
        """Whether anybody held it."""
        return bool(self.holds)


def info_of(lock: LockInfo, path: str | None = None) -> FileInfo | None:
    """What is known of the file behind a lock; None if it is the second lock of one, or not a file's at all."""
    known = path
    for hold in lock.holds:
        if not isinstance(hold.holder, dict) or "link" in hold.holder:
            return None
        known = known or hold.holder.get("path")
    if known is None:
        return None
    mode: Access | None = None if lock.mode is None else "write" if lock.mode == "exclusive" else "read"
    return FileInfo(
        known, lock.name, mode, tuple(_held_by(hold, mode or "read") for hold in lock.holds), lock.waiters
    )


def _held_by(hold: Hold, mode: Access) -> HeldBy:
    holder = hold.holder if isinstance(hold.holder, dict) else {}
    return HeldBy(
        holder.get("session"),
        mode,
        holder.get("purpose"),
        hold.held_since,
        hold.remaining,
        hold.fence,
        hold.holder,
    )
