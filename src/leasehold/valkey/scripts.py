"""The Lua scripts: package data, one file per verb, known to the server by their SHA.

A script's header names its keys and arguments in order; a test compares it with the declaration here and
with the first lines of the script. Functions that several scripts need live in ``lua/shared`` and are put
in the place of the line ``-- Uses: NAME, …``. What stands before that line runs without them, which is
what makes the common path of ``acquire`` fast.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_LUA = Path(__file__).with_name("lua")
_USES = re.compile(r"^-- Uses: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, eq=False)
class Script:
    """One verb, as text and as the SHA that the server knows it by."""

    name: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    source: bytes
    sha: bytes


def load(name: str, *, keys: tuple[str, ...], arguments: tuple[str, ...], folder: Path = _LUA) -> Script:
    """The script ``lua/NAME.lua`` together with the shared functions it uses: of its own folder, or of ours."""

    def read(path: str) -> str:
        own = folder / f"{path}.lua"
        return (own if own.is_file() else _LUA / f"{path}.lua").read_text(encoding="utf-8")

    text = _USES.sub(
        lambda uses: "\n".join(read(f"shared/{part.strip()}") for part in uses[1].split(",")), read(name)
    )
    # Without comments: the server keeps every byte of every script it has loaded.
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")]
    source = "\n".join(lines).encode()
    sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    return Script(name, keys, arguments, source, sha)


LOCK_KEYS = ("lock", "fence", "queue", "readers", "people")
"""The keys of a lock: its record, the counter of grants, who waits, who reads, and what is known of them."""

ACQUIRE = load("acquire", keys=LOCK_KEYS, arguments=("record", "ttl_ms", "floor", "wait_ms", "live_ms"))
# "…" stands for repetition: as many locks as there are.
ACQUIRE_ALL = load("acquire_all", keys=("lock", "fence", "…"), arguments=("record", "ttl_ms", "floor", "…"))
LOOK = load("look", keys=LOCK_KEYS, arguments=("tokens", "channel", "live_ms"))
RENEW = load("renew", keys=(*LOCK_KEYS, "taken"), arguments=("token", "own_fence", "ttl_ms"))
RELEASE = load("release", keys=LOCK_KEYS, arguments=("token",))
RELEASE_ONCE = load("release_once", keys=(*LOCK_KEYS, "released"), arguments=("token", "remember_ms"))
TAKE = load("take", keys=(*LOCK_KEYS, "taken"), arguments=("record", "ttl_ms", "floor", "expect_fence"))
FINISH = load("finish", keys=(*LOCK_KEYS, "result"), arguments=("token", "value", "ttl_ms"))
FIRST_TIME = load("first_time", keys=("result",), arguments=("mark", "ttl_ms"))
INSPECT = load("inspect", keys=LOCK_KEYS, arguments=())

ALL = (ACQUIRE, ACQUIRE_ALL, LOOK, RENEW, RELEASE, RELEASE_ONCE, TAKE, FINISH, FIRST_TIME, INSPECT)
