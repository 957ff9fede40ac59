"""Public view of a file's holders, without tokens."""

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
    """One holder of a file. ``session`` is None for a room of people."""

    session: str | None
    mode: Access
    purpose: str | None
    since: float
    remaining: float
    fence: int
    holder: Holder

    @property
    def is_room(self) -> bool:
        """True if people edit it together."""
        return is_room(self.holder)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file's holders and the number of waiters at the time of the reply. Contains no tokens."""

    path: str
    sha256: str
    mode: Access | None
    holds: tuple[HeldBy, ...]
    waiters: int

    @property
    def is_held(self) -> bool:
        """True if it was held."""
        return bool(self.holds)


def file_info(lock: LockInfo, path: str | None = None) -> FileInfo | None:
    """The file behind a lock; None for the second lock of a file, or a lock that is not a file's."""
    known = path
    for hold in lock.holds:
        if not isinstance(hold.holder, dict) or "link" in hold.holder:
            return None
        known = known or hold.holder.get("path")
    if known is None:
        return None
    mode: Access | None = None if lock.mode is None else "write" if lock.mode == "exclusive" else "read"
    return FileInfo(
        known,
        lock.name,
        mode,
        tuple(_held_by(hold, mode or "read") for hold in lock.holds),
        lock.waiters,
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
