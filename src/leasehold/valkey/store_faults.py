"""What a store does when it fails, in few words: safe for logs and for labels."""

from __future__ import annotations

import errno
import ssl
from dataclasses import dataclass
from typing import Literal

from leasehold.errors import StoreError, StoreUnavailable
from leasehold.valkey.transport.error_mapping import CODES

# A chain of causes has no more links than this, unless somebody made it a circle.
_DEEP = 8


@dataclass(frozen=True, slots=True)
class StoreFault:
    """One failure. ``code`` is the server's own word, the system's, ``TIMEOUT``, ``TLS`` or ``OTHER``.

    Never a message: a server may repeat in it what it was sent, a password included.
    """

    kind: Literal["unavailable", "refused"]
    code: str


def fault_of(error: BaseException | None) -> StoreFault | None:
    """What went wrong with the store, if that is what ``error`` is about."""
    if not isinstance(error, StoreError):
        return None
    return StoreFault("unavailable" if isinstance(error, StoreUnavailable) else "refused", _code_of(error))


def _code_of(error: BaseException) -> str:
    cause: BaseException | None = error
    found = ""
    for _ in range(_DEEP):
        if cause is None:
            break
        found = _own_code(cause) or found  # the deepest cause knows best
        cause = cause.__cause__ or cause.__context__
    return found or "OTHER"


def _own_code(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return "TLS"
    if isinstance(error, TimeoutError):
        return "TIMEOUT"
    if isinstance(error, OSError):
        return errno.errorcode.get(error.errno or 0, "CLOSED")
    if isinstance(error, EOFError):
        return "CLOSED"
    if isinstance(error, StoreError):
        return ""
    word = str(error).partition(" ")[0]
    return word if word in CODES else ""
