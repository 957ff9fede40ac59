"""The Lua scripts: package data, one file per operation, known to the server by their SHA.

A script's header names its keys and arguments in order; a test compares it with the declaration here and
with the first lines of the script. Functions that several scripts share are in ``lua/shared`` and replace the
line ``-- Uses: NAME, …``. The code before that line runs without creating them, which keeps the common path of
``acquire`` fast.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_LUA = Path(__file__).with_name("lua")
_USES = re.compile(r"^-- Uses: (.+)$", re.MULTILINE)


Effect = Literal["grant", "undo", "other"]
"""The effect on leases: ``grant`` grants or extends one, ``undo`` ends what a request in doubt may have granted.

Where a store URL has min_replicas, a grant counts only once replicas have acknowledged it. The server counts those that
have all that this connection has written. So a script that grants writes something also when it is repeated: the
repetition may come over another connection.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """One script: its source, the SHA by which the server knows it, and its effect."""

    name: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    source: bytes
    sha: bytes
    effect: Effect


def load(
    name: str,
    *,
    keys: tuple[str, ...],
    arguments: tuple[str, ...],
    effect: Effect = "other",
    folder: Path = _LUA,
) -> Script:
    """The script ``lua/NAME.lua`` with the shared functions it uses: from its own folder, or from ours."""

    def read(path: str) -> str:
        own = folder / f"{path}.lua"
        return (own if own.is_file() else _LUA / f"{path}.lua").read_text(encoding="utf-8")

    text = _USES.sub(
        lambda uses: "\n".join(read(f"shared/{part.strip()}") for part in uses[1].split(",")), read(name)
    )
    # Without comments: the server keeps every byte of every loaded script.
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    source = "\n".join(lines).encode()
    sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    return Script(name, keys, arguments, source, sha, effect)


LOCK_KEYS = ("lock", "fence", "queue", "readers", "people")
"""The keys of a lock: its record, the counter of grants, the queue, the readers, and the hash of both."""

ACQUIRE = load(
    "acquire", keys=LOCK_KEYS, arguments=("record", "ttl_ms", "floor", "wait_ms", "live_ms"), effect="grant"
)
# "…" stands for repetition: once for each lock.
ACQUIRE_ALL = load(
    "acquire_all",
    keys=("lock", "fence", "…"),
    arguments=("record", "ttl_ms", "floor", "not_after_ms", "…"),
    effect="grant",
)
LOOK = load("look", keys=LOCK_KEYS, arguments=("tokens", "channel", "live_ms"))
RENEW = load("renew", keys=(*LOCK_KEYS, "taken"), arguments=("token", "own_fence", "ttl_ms"), effect="grant")
SHORTEN = load(
    "shorten",
    keys=(*LOCK_KEYS, "taken"),
    arguments=("token", "own_fence", "ttl_ms", "not_after_ms"),
    effect="grant",
)
CHECK = load("check", keys=(*LOCK_KEYS, "taken"), arguments=("token", "own_fence"))
RELEASE = load("release", keys=LOCK_KEYS, arguments=("token",))
RELEASE_ONCE = load("release_once", keys=(*LOCK_KEYS, "released"), arguments=("token", "remember_ms"))
TAKE = load(
    "take",
    keys=(*LOCK_KEYS, "taken"),
    arguments=("record", "ttl_ms", "floor", "expect_fence", "not_after_ms"),
    effect="grant",
)
FINISH = load("finish", keys=(*LOCK_KEYS, "result"), arguments=("token", "value", "ttl_ms"), effect="grant")
FIRST_TIME = load("first_time", keys=("result",), arguments=("mark", "ttl_ms"), effect="grant")
UNMARK = load("unmark", keys=("result",), arguments=("mark",), effect="undo")
INSPECT = load("inspect", keys=LOCK_KEYS, arguments=())

ALL = (
    ACQUIRE,
    ACQUIRE_ALL,
    LOOK,
    RENEW,
    SHORTEN,
    CHECK,
    RELEASE,
    RELEASE_ONCE,
    TAKE,
    FINISH,
    FIRST_TIME,
    UNMARK,
    INSPECT,
)
