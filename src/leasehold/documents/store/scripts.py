"""The Lua scripts of document locks, tickets and ended logins: one file each, see `leasehold.valkey.scripts`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leasehold.valkey import scripts

if TYPE_CHECKING:
    from leasehold.valkey.scripts import Effect, Script

_LUA = Path(__file__).with_name("lua")
_DOCUMENT = ("lock", "fence", "held_until", "history")
"""The keys of a document: the hold, the counter of grants, when the hold ends, and the history of holds."""


def _load(name: str, *arguments: str, keys: tuple[str, ...] = _DOCUMENT, effect: Effect = "other") -> Script:
    return scripts.load(name, keys=keys, arguments=arguments, effect=effect, folder=_LUA)


ACQUIRE = _load("acquire", "ask", "user", "name", "tab", "ttl_ms", "floor", "move", effect="grant")
HEARTBEAT = _load("heartbeat", "idle_ms", "user", "tab", "ttl_ms", effect="grant")
RELEASE = _load("release", "own_fence", "user", "tab", "reason", "saved")
TAKE = _load(
    "take", "ask", "user", "name", "tab", "ttl_ms", "floor", "save_ms", "expect_fence", effect="grant"
)
CLAIM = _load("claim", "ask", "ttl_ms", effect="grant")
WITHDRAW = _load("withdraw", "ask", effect="undo")
INSPECT = _load("inspect")
HISTORY = _load("history", "limit")
ISSUE_TICKET = _load("issue_ticket", "principal", "ttl_ms", keys=("ticket",))
USE_TICKET = _load("use_ticket", keys=("ticket",))
END_SESSIONS = _load("end_sessions", "session", "user", "keep_ms", keys=("ended",))
HAS_ENDED = _load("has_ended", "session", "since_ms", keys=("ended",))

ALL = (
    *(ACQUIRE, HEARTBEAT, RELEASE, TAKE, CLAIM, WITHDRAW, INSPECT, HISTORY),
    *(ISSUE_TICKET, USE_TICKET, END_SESSIONS, HAS_ENDED),
)
