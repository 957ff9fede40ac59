"""Lua scripts of file locks and sessions, one file per verb; see `leasehold.valkey.scripts`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.valkey import scripts

if TYPE_CHECKING:
    from leasehold.valkey.scripts import Effect, Script

_LUA = Path(__file__).with_name("lua")
_SESSION = ("session", "history")
"""The keys of a session: the digest of its secret, and its entries."""


def _load(name: str, keys: tuple[str, ...], *arguments: str, effect: Effect = "other") -> Script:
    return scripts.load(name, keys=keys, arguments=arguments, effect=effect, folder=_LUA)


OPEN_SESSION = _load("open_session", _SESSION, "digest", "ttl_ms")
CHANGE_ENTRIES = _load("change_entries", _SESSION, "digest", "ttl_ms", "history_ms", "changes")
READ_ENTRIES = _load("read_entries", _SESSION, "digest", "ttl_ms", "history_ms")
RESUME = _load(
    "resume", scripts.LOCK_KEYS, "token", "old_tokens", "channel", "ticket", "ttl_ms", effect="grant"
)
UPGRADE = _load(
    "upgrade",
    (*scripts.LOCK_KEYS, "upgrade"),
    *("record", "reader", "ttl_ms", "floor", "wait_ms", "live_ms", "not_after_ms"),
    effect="grant",
)

ALL = (OPEN_SESSION, CHANGE_ENTRIES, READ_ENTRIES, RESUME, UPGRADE)
