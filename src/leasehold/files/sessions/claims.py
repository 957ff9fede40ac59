"""Claims of a session on locks: their tokens and holders, and how entries map to locks."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.core.replies import Owner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.core.leases.lease import LeaseState
    from leasehold.core.replies import Mode
    from leasehold.errors import Holder
    from leasehold.files.sessions.credentials import Secret
    from leasehold.files.sessions.entries import Access, Entry

# A holder may take 2048 bytes as JSON, and there is more in it than the path.
_MAX_PATH_BYTES = 1200


@dataclass(frozen=True, slots=True)
class SessionIdentity:
    """The claimant of a lock: the session, one of its openings, and the process."""

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

    def possible_tokens(self, entry: Entry, name: str) -> list[str]:
        """All tokens that may have a lease on the lock, the most likely first."""
        # The turns between those have failed, and their leases were released then.
        turns = [entry.settled, *range(max(entry.settled, entry.turn - 16) + 1, entry.turn + 1)]
        return [self.secret.token(entry.field, turn, name) for turn in turns]

    def holder(self, entry: Entry, name: str) -> Holder:
        """The holder that others see. The lock of the inode of a file with several links is marked as such."""
        shown: dict[str, Any] = {
            "session": self.session_id,
            "epoch": self.epoch,
            "mode": entry.mode,
            "path": shorten_path(entry.path),
            "by": self.by,
        }
        place = entry.names.index(name)
        if entry.purpose is not None:
            shown["purpose"] = entry.purpose
        if place < len(entry.paths):
            shown["path"] = shorten_path(entry.paths[place])
        else:
            shown["link"] = True
        return shown


def lock_mode(access: Access) -> Mode:
    """The mode of the locks behind a file that is accessed so."""
    return "exclusive" if access == "write" else "shared"


def mark_held(entries: Iterable[Entry], leases: Iterable[LeaseState], access: Access) -> list[Entry]:
    """The entries as they are once these leases hold their files."""
    fences = {lease.name: lease.fence for lease in leases}
    return [
        entry.but(state="held", fence=fences[entry.names[0]], settled=entry.turn, mode=access)
        for entry in entries
    ]


def lock_names(entries: Sequence[Entry]) -> list[str]:
    """All locks behind the entries."""
    return [name for entry in entries for name in entry.names]


def shorten_path(path: str) -> str:
    """A path that fits into a holder: the end of a very long one, which says more than its beginning."""
    while len(json.dumps(path)) > _MAX_PATH_BYTES:
        path = "…" + path[max(2, len(path) // 8) :]
    return path
