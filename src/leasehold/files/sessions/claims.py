"""What a session asks for: files, the locks behind them, and what is written down and shown about each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.core.replies import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from leasehold.core.lease import LeaseState
    from leasehold.core.replies import Mode
    from leasehold.errors import Holder
    from leasehold.files.sessions.credentials import Secret
    from leasehold.files.sessions.entries import Access, Entry

# A holder may take 2048 bytes as JSON, and there is more in it than the path.
_PATH_BYTES = 1200


@dataclass(frozen=True, slots=True)
class Identity:
    """Who claims: the session, which of its openings, and the process."""

    session_id: str
    secret: Secret
    epoch: int
    by: str

    def own(self, entries: Iterable[Entry]) -> dict[str, Owner]:
        """The token and the holder of each lock behind the entries, in their present turn."""
        return {
            name: Owner(self.secret.token(entry.field, entry.turn, name), self.holder(entry, name))
            for entry in entries
            for name in entry.names
        }

    def tokens(self, entry: Entry, name: str) -> list[str]:
        """Every token that may have a lease on the lock, if any has, the most likely first."""
        # All others have failed, and were taken back then.
        turns = [entry.settled, *range(max(entry.settled, entry.turn - 16) + 1, entry.turn + 1)]
        return [self.secret.token(entry.field, turn, name) for turn in turns]

    def holder(self, entry: Entry, name: str) -> Holder:
        """What others see. The lock of the inode of a file with several links is marked as such."""
        shown: dict[str, Any] = {
            "session": self.session_id,
            "epoch": self.epoch,
            "mode": entry.mode,
            "path": shorten(entry.path),
            "by": self.by,
        }
        place = entry.names.index(name)
        if entry.purpose is not None:
            shown["purpose"] = entry.purpose
        if place < len(entry.paths):
            shown["path"] = shorten(entry.paths[place])
        else:
            shown["link"] = True
        return shown


def mode_of(access: Access) -> Mode:
    """How a lock is asked for."""
    return "exclusive" if access == "write" else "shared"


def settled(entry: Entry, leases: Mapping[str, LeaseState], *, mode: Access) -> Entry:
    """The entry now that the session has the file."""
    fence = leases[entry.names[0]].fence
    return entry.but(state="held", fence=fence, settled=entry.turn, mode=mode)


def names_of(entries: Sequence[Entry]) -> list[str]:
    """All locks behind the entries."""
    return [name for entry in entries for name in entry.names]


def shorten(path: str) -> str:
    """A path that fits into a record: the end of a very long one, which says more than its beginning."""
    while len(json.dumps(path)) > _PATH_BYTES:
        path = "…" + path[max(2, len(path) // 8) :]
    return path
