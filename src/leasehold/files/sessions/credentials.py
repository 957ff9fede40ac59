"""Credentials of a session: its id, which is public, and its secret, which acts for it.

The secret never leaves the process. The store has a digest of it, which identifies the session. The tokens of the
session's leases are derived from it: a restarted process can compute them from the history in the store, and a reader
of the history without the secret cannot.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import Any

from leasehold.errors import InvalidRequest

_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_SECRET = re.compile(r"[\x21-\x7e]{32,256}")
_TOKEN_DIGITS = 32


def check_session_id(session_id: Any) -> str:
    """Return ``session_id`` if it is a valid one."""
    if not isinstance(session_id, str) or _SESSION_ID.fullmatch(session_id) is None:
        raise InvalidRequest("a session id is 1 to 128 of the letters a-z and A-Z, digits, - and _")
    return session_id


class Secret:
    """Acts for a session. It appears in no log and no traceback."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "<Secret>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a session's secret cannot be pickled or copied")

    @classmethod
    def new(cls) -> Secret:
        """A random secret of 256 bits."""
        return cls(secrets.token_hex(32))

    @classmethod
    def given(cls, value: Any) -> Secret:
        """A secret that the caller has kept. The error does not repeat it."""
        if not isinstance(value, str) or _SECRET.fullmatch(value) is None:
            raise InvalidRequest("a session's secret is 32 to 256 printable ASCII characters without spaces")
        return cls(value)

    def reveal(self) -> str:
        """The secret itself, for its owner."""
        return self._value

    def digest(self) -> str:
        """The digest that the store has. A plain hash is enough: 128 random bits cannot be found by trying."""
        return hashlib.sha256(self._value.encode()).hexdigest()

    def matches(self, digest: str) -> bool:
        """True if the digest is that of this secret; compared in constant time."""
        return hmac.compare_digest(self.digest(), digest)

    def token(self, field: str, turn: int, name: str) -> str:
        """The token of the lease on the lock ``name`` behind the entry ``field``, in its ``turn``-th turn."""
        words = f"leasehold file lease\0{field}\0{turn}\0{name}"
        return hmac.new(self._value.encode(), words.encode(), "sha256").hexdigest()[:_TOKEN_DIGITS]
