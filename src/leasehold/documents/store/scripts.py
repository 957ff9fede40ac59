"""The Lua scripts of documents: one file per verb, see `leasehold.valkey.scripts`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.valkey import scripts

if TYPE_CHECKING:
    from leasehold.valkey.scripts import Script

_LUA = Path(__file__).with_name("lua")
_DOCUMENT = ("lock", "fence", "held_until", "history")
"""The keys of a document: who holds it, the counter of grants, when the hold ends, and who held it before."""


def _load(name: str, *arguments: str) -> Script:
    return scripts.load(name, keys=_DOCUMENT, arguments=arguments, folder=_LUA)


ACQUIRE = _load("acquire", "ask", "user", "name", "tab", "ttl_ms", "floor", "move")
HEARTBEAT = _load("heartbeat", "idle_ms", "user", "tab", "ttl_ms")
RELEASE = _load("release", "own_fence", "user", "tab", "reason", "saved")
TAKE = _load("take", "ask", "user", "name", "tab", "ttl_ms", "floor", "save_ms", "expect_fence")
CLAIM = _load("claim", "ask", "ttl_ms")
WITHDRAW = _load("withdraw", "ask")
INSPECT = _load("inspect")
HISTORY = _load("history", "limit")

ALL = (ACQUIRE, HEARTBEAT, RELEASE, TAKE, CLAIM, WITHDRAW, INSPECT, HISTORY)
