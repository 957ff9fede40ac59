"""History entries of a session's files, from which a restarted process can restore its locks."""

from __future__ import annotations

import dataclasses
import json
import secrets
from dataclasses import dataclass, replace
from typing import Any, Literal

Access = Literal["read", "write"]
"""The access that a file is locked for."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file that the session holds, or has requested.

    Written as ``asked`` *before* the lock is requested, and as ``held`` before the session gets it: the session and its
    locks live in different slots of a cluster, so no one step can change both. A crash in between leaves an entry
    without a lock, which is harmless, and never a lock without an entry. In the same way the entry is removed after
    the lock has been released.

    ``names`` are the locks behind the file: that of ``path``, those of ``links``, which are other paths of the same file
    that were acquired with it, and that of the inode if it has several. One file is one entry, so its locks are held,
    restored and released together. The token of each is derived from the session's secret, ``field`` and a turn. Each
    restore begins a new turn, so that the process before loses the lease at the same moment; ``turn`` is the last that
    was begun and ``settled`` the last that is known to have got the lease, so a lease that is alive has one of these. A
    turn is begun by comparing the stored entry, and stamped: two processes that begin at once must not get one token.
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
    """Members that a later version has added; they are written back."""
    text: str | None = dataclasses.field(default=None, compare=False, repr=False)
    """The entry as it was read, literally: a later version may encode the same differently."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All paths under which the file was acquired; the lock of each has the same index in ``names``."""
        return (self.path, *self.links)

    def but(self, **changes: Any) -> Entry:
        """A copy with some members changed."""
        return replace(self, text=None, **changes)

    def next_turn(self, *, epoch: int) -> Entry:
        """A copy with a new turn, which is unique to this process once the copy is stored in the place of this one."""
        return self.but(turn=self.turn + 1, epoch=epoch, stamp=secrets.token_hex(8))

    def encode(self) -> str:
        """The entry as the store keeps it. It contains no secret."""
        if self.text is not None:
            return self.text
        known = {name: value for name in _ENCODED if (value := getattr(self, name)) is not None}
        return json.dumps({**self.unknown, **known}, ensure_ascii=True, separators=(",", ":"))


_ENCODED = [each.name for each in dataclasses.fields(Entry) if each.name not in {"field", "unknown", "text"}]


def decode_entry(field: str, text: str) -> Entry:
    """Reverse `Entry.encode`."""
    known: dict[str, Any] = json.loads(text)
    unknown = {name: known.pop(name) for name in list(known) if name not in _ENCODED}
    for name in ("names", "links"):
        known[name] = tuple(known.get(name, ()))
    return Entry(field=field, unknown=unknown, text=text, **known)
