"""The keys of a lock, from its name.

All keys of one lock share a hash tag, ``lock:{NAME}``, ``lock:{NAME}:fence`` and so on, so that they live
in one slot of a Cluster. A name may contain anything but NUL; characters that would break the tag or a terminal are
written as ``%XX``, and so is ``%`` itself, so that two names never share a key.
"""

from __future__ import annotations

import re

from leasehold.errors import InvalidRequest

_UNSAFE = re.compile(r"[%{}\x00-\x1f\x7f-\x9f]")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")
_NAMESPACE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def escape(name: str) -> str:
    """``name`` in the form that stands between the braces of a key."""
    if _UNSAFE.search(name) is None:
        return name
    return _UNSAFE.sub(lambda unsafe: f"%{ord(unsafe[0]):02X}", name)


def unescape(tag: str) -> str:
    """The name from which `escape` made ``tag``."""
    return _ESCAPED.sub(lambda escaped: chr(int(escaped[1], 16)), tag)


def check_namespace(namespace: str) -> str:
    """``namespace`` itself if it is valid."""
    if not (isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace)):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a namespace is 1 to 64 letters, digits and any of _ . : -, not {namespace!r}")
    return namespace


def key_of(namespace: str, name: str) -> bytes:
    """The key of the lock's record; the other keys add a suffix."""
    return f"{namespace}:{{{escape(name)}}}".encode()


def name_of(namespace: str, key: bytes) -> str | None:
    """The name of the lock whose record is at ``key``; None if it is not a lock of ours."""
    try:
        return unescape(key[len(namespace) + 2 : -1].decode())
    except UnicodeDecodeError:
        return None


def pattern_of(namespace: str, pattern: str) -> bytes:
    """The SCAN pattern for names that match the glob ``pattern``; only a lock's record ends in "}"."""
    return f"{namespace}:{{{escape(pattern)}}}".encode()
