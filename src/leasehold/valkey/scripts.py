"""The Lua scripts: package data, one file per verb, known to the server by their SHA.

A script's header names its keys and arguments in order; a test compares it with the declaration here and
with the first lines of the script. Functions that several scripts need live in ``lua/shared`` and are put
in front of those whose header says ``Uses``.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources

_LUA = resources.files("leasehold.valkey") / "lua"


@dataclass(frozen=True, slots=True)
class Script:
    """One verb, as text and as the SHA that the server knows it by."""

    name: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    suffixes: tuple[bytes, ...]
    source: bytes
    sha: bytes


def load(name: str, *, keys: tuple[str, ...], arguments: tuple[str, ...]) -> Script:
    """The script ``lua/NAME.lua`` together with the shared functions it uses."""
    own = (_LUA / f"{name}.lua").read_text(encoding="utf-8")
    uses = re.search(r"^-- Uses: (.+)$", own, re.MULTILINE)
    parts = [part.strip() for part in uses[1].split(",")] if uses else []
    shared = [(_LUA / "shared" / f"{part}.lua").read_text(encoding="utf-8") for part in parts]
    source = "\n".join(_without_comments(text) for text in [*shared, own]).encode()
    sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    suffixes = tuple(b"" if key == "lock" else b":" + key.encode() for key in keys)
    return Script(name, keys, arguments, suffixes, source, sha)


def _without_comments(text: str) -> str:
    """Only the code: the server keeps every byte of every script it has loaded."""
    return "\n".join(
        line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("--")
    )


ACQUIRE = load(
    "acquire",
    keys=("lock", "fence", "queue", "readers"),
    arguments=("token", "ttl_ms", "floor", "now_ms", "holder"),
)
RENEW = load("renew", keys=("lock", "fence", "taken"), arguments=("token", "own_fence", "ttl_ms"))
RELEASE = load("release", keys=("lock", "taken"), arguments=("token", "own_fence"))
TAKE = load(
    "take",
    keys=("lock", "fence", "taken"),
    arguments=("token", "ttl_ms", "floor", "now_ms", "holder", "expect_fence"),
)
INSPECT = load("inspect", keys=("lock", "fence", "queue"), arguments=())

ALL = (ACQUIRE, RENEW, RELEASE, TAKE, INSPECT)
