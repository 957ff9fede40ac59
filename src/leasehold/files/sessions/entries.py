"""What is written down about a session's locks, so that a process that is started anew can take them back."""

from __future__ import annotations

import dataclasses
import json
import secrets
from dataclasses import dataclass, replace
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

    ``names`` are the locks behind the file: that of ``path``, those of ``links``, which are other paths of the same file
    that were asked for with it, and that of the inode if it has several. One file is one entry, so its locks are had,
    restored and given back together. The token of each follows from the session's secret, ``field`` and a turn. Each
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
    links: tuple[str, ...] = ()
    unknown: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any], compare=False, repr=False)
    """What a later version has written besides; it is written back."""
    text: str | None = dataclasses.field(default=None, compare=False, repr=False)
    """The entry as it was read, word for word: a later version may spell the same differently."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All names of the file that were asked for; the lock of each stands at the same place in ``names``."""
        return (self.path, *self.links)

    def but(self, **changes: Any) -> Entry:
        """The entry with some of it changed."""
        return replace(self, text=None, **changes)

    def next_turn(self, *, epoch: int) -> Entry:
        """The entry with a turn that nobody else has begun, once it is written down in the place of this one."""
        return self.but(turn=self.turn + 1, epoch=epoch, stamp=secrets.token_hex(8))

    def encode(self) -> str:
        """As the store keeps it. There is nothing secret in it."""
        if self.text is not None:
            return self.text
        known = {name: value for name in _WRITTEN if (value := getattr(self, name)) is not None}
        return json.dumps({**self.unknown, **known}, ensure_ascii=True, separators=(",", ":"))


_WRITTEN = [each.name for each in dataclasses.fields(Entry) if each.name not in {"field", "unknown", "text"}]


def read_entry(field: str, text: str) -> Entry:
    """What `Entry.encode` wrote."""
    known: dict[str, Any] = json.loads(text)
    unknown = {name: known.pop(name) for name in list(known) if name not in _WRITTEN}
    for name in ("names", "links"):
        known[name] = tuple(known.get(name, ()))
    return Entry(field=field, unknown=unknown, text=text, **known)
