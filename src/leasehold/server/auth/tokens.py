"""Access tokens: signed, short-lived, and cheap to check again."""

from __future__ import annotations

import time
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt

from leasehold.documents.ports import Principal
from leasehold.errors import NotSignedIn

if TYPE_CHECKING:
    from collections.abc import Callable

ISSUER = "leasehold"
AUDIENCE = "leasehold-api"

# The server's choice alone: what a token says of itself is not asked.
_ALGORITHM = "HS256"
_CLAIMS = ("iss", "aud", "exp", "iat", "sub", "sid", "name")

# Clocks of two machines differ a little, and a token made by one must be good at the other at once.
_SKEW = 30
_LONGEST = 4096
_REMEMBERED = 4096


class AccessToken(NamedTuple):
    """A token and how many seconds it is good for."""

    text: str
    expires_in: int


class Tokens:
    """Makes and checks access tokens. Whether a session has been ended since is not known here."""

    def __init__(self, key: bytes, *, seconds: int = 900, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._seconds = seconds
        self._clock = clock
        # By digest, so that no token lies in memory longer than its request.
        self._known: OrderedDict[bytes, Principal] = OrderedDict()

    def issue(self, *, user_id: str, user_name: str, session_id: str, at: float) -> AccessToken:
        """A token for the user, whose session was known to be alive at that instant (Unix seconds)."""
        now = int(at)
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + self._seconds,
            "sub": user_id,
            "sid": session_id,
            "name": user_name,
        }
        return AccessToken(jwt.encode(claims, self._key, _ALGORITHM), self._seconds)

    def verify(self, token: str) -> Principal:
        """Who the token speaks for; `NotSignedIn` if it is not ours, or has expired."""
        if len(token) > _LONGEST:
            raise NotSignedIn("the access token is not valid")
        digest = sha256(token.encode(errors="replace")).digest()
        principal = self._known.get(digest)
        if principal is None:
            principal = self._decode(token)
            self._remember(digest, principal)
        if self._clock() >= principal.expires_at:
            raise NotSignedIn("the access token has expired")
        return principal

    def session_of(self, token: str) -> str:
        """The id of the session that the token was made for, also if it has expired; `NotSignedIn` if it is not ours."""
        if len(token) > _LONGEST:
            raise NotSignedIn("the access token is not valid")
        return self._decode(token, may_be_over=True).session_id

    def _decode(self, token: str, *, may_be_over: bool = False) -> Principal:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key,
                algorithms=[_ALGORITHM],
                issuer=ISSUER,
                audience=AUDIENCE,
                leeway=_SKEW,
                options={"require": list(_CLAIMS), "verify_exp": not may_be_over},
            )
        except (jwt.PyJWTError, UnicodeError, ValueError, RecursionError):
            # Without the cause, which quotes parts of the token.
            raise NotSignedIn("the access token is not valid") from None
        return Principal(
            user_id=claims["sub"],
            user_name=claims["name"],
            expires_at=float(claims["exp"]),
            session_id=claims["sid"],
        )

    def _remember(self, digest: bytes, principal: Principal) -> None:
        self._known[digest] = principal
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
