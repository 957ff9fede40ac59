"""The Lua scripts of sockets, see `leasehold.valkey.scripts`."""

from __future__ import annotations

from pathlib import Path

from leasehold.valkey import scripts

_LUA = Path(__file__).with_name("lua")

ISSUE_TICKET = scripts.load("issue_ticket", keys=("ticket",), arguments=("principal", "ttl_ms"), folder=_LUA)
USE_TICKET = scripts.load("use_ticket", keys=("ticket",), arguments=(), folder=_LUA)
END_SESSIONS = scripts.load(
    "end_sessions", keys=("ended",), arguments=("session", "user", "keep_ms"), folder=_LUA
)
HAS_ENDED = scripts.load("has_ended", keys=("ended",), arguments=("session", "since_ms"), folder=_LUA)

ALL = (ISSUE_TICKET, USE_TICKET, END_SESSIONS, HAS_ENDED)
