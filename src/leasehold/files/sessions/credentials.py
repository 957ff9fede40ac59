"""Who a session is: its id, which everybody may know, and its secret, which acts for it.

The secret never leaves the process. The store has a digest of it, by which it knows the session again. The tokens of the
session's leases are derived from it: a process that was started anew can work them out from what is written down
in the store, and whoever only reads the store's history cannot.
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
    """``session_id`` itself if it can be one."""
    if not isinstance(session_id, str) or _SESSION_ID.fullmatch(session_id) is None:
        raise InvalidRequest("a session id is 1 to 128 of the letters a-z and A-Z, digits, - and _")
    return session_id


class Secret:
    """What acts for a session. It is never shown: not in a log, not in a traceback, not by accident."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "<Secret>"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a session's secret does not travel")

    @classmethod
    def new(cls) -> Secret:
        """A random one, of 256 bits."""
        return cls(secrets.token_hex(32))

    @classmethod
    def given(cls, value: Any) -> Secret:
        """One that the caller has kept. It is not repeated in the complaint."""
        if not isinstance(value, str) or _SECRET.fullmatch(value) is None:
            raise InvalidRequest("a session's secret is 32 to 256 printable ASCII characters without spaces")
        return cls(value)

    def reveal(self) -> str:
        """The secret itself, for its owner."""
        return self._value

    def digest(self) -> str:
        """What the store knows it by. A plain hash will do: nobody finds 128 random bits by trying."""
        return hashlib.sha256(self._value.encode()).hexdigest()

    def is_of(self, digest: str) -> bool:
        """Whether the digest is this secret's, compared in constant time."""
        return hmac.compare_digest(self.digest(), digest)

    def token(self, field: str, turn: int, name: str) -> str:
        """The token of the lease on the lock ``name`` that is written down as ``field``, in its ``turn``-th life."""
        words = f"leasehold file lease\0{field}\0{turn}\0{name}"
        return hmac.new(self._value.encode(), words.encode(), "sha256").hexdigest()[:_TOKEN_DIGITS]
