"""What is written down about a session's locks, so that a process that is started anew can take them back."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Access = Literal["read", "write"]
"""What a file is locked for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file that the session holds, or has asked for.

    Written as ``asked`` *before* the store is asked for the lock, and as ``held`` before the session is told that it has it:
    the session and its locks live in different slots of a cluster, so no one step can change both. A crash in between
    leaves an entry without a lock, which is harmless, and never a lock without an entry. In the same way it goes
    after the lock has been given back.

    ``names`` are the locks behind the file. The token of each follows from the session's secret, ``field`` and a turn. Each
    restore begins a new turn, so that the process before loses the lease in the same moment; ``turn`` is the last that
    was begun and ``settled`` the last that is known to have got it, so a lease that is alive has one of these. Who begins
    a turn compares what was there before, and stamps it: two who begin at once must not get the same token.
    """

    field: str
    path: str
    names: tuple[str, ...]
    mode: Access
    state: Literal["asked", "held"]
    ttl: float
    since: float
    epoch: int
    fence: int | None = None
    purpose: str | None = None
    turn: int = 0
    settled: int = 0
    stamp: str = ""

    def next_turn(self, *, epoch: int) -> Entry:
        """The entry with a turn that nobody else has begun, once it is written down in the place of this one."""
        return replace(self, turn=self.turn + 1, epoch=epoch, stamp=secrets.token_hex(8))

    def encode(self) -> str:
        """As the store keeps it. There is nothing secret in it."""
        known: dict[str, Any] = {key: value for key, value in asdict(self).items() if value is not None}
        del known["field"]
        return json.dumps(known, ensure_ascii=True, separators=(",", ":"))


def read_entry(field: str, text: str) -> Entry:
    """What `Entry.encode` wrote."""
    known: dict[str, Any] = json.loads(text)
    known["names"] = tuple(known["names"])
    # What a later version writes besides is passed over.
    return Entry(field=field, **{name: value for name, value in known.items() if name in Entry.__slots__})
