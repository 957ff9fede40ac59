"""Access tokens: signed, short-lived JSON Web Tokens, with a cache of verified ones."""

from __future__ import annotations

import math
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

# Fixed by the server: the token's own header is not trusted.
_ALGORITHM = "HS256"
_CLAIMS = ("iss", "aud", "exp", "iat", "sub", "sid", "name")

# Clocks of two machines differ a little, and a token of one must be valid at the other at once.
_SKEW = 30
_MAX_LENGTH = 4096
_CACHED = 4096


class AccessToken(NamedTuple):
    """A token, and the seconds for which it is valid."""

    text: str
    expires_in: int


class Tokens:
    """Issues and verifies access tokens. The end of a login is not checked here."""

    def __init__(self, key: bytes, *, seconds: int = 900, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._seconds = seconds
        self._clock = clock
        # By digest, so that no token stays in memory longer than its request.
        self._verified: OrderedDict[bytes, Principal] = OrderedDict()

    def issue(
        self, *, user_id: str, user_name: str, login_id: str, at: float, until: float = math.inf
    ) -> AccessToken:
        """Issue a token for the user, whose login was known to be alive at that instant (Unix seconds).

        It is valid ``until`` the login expires at the latest: the end of an expired login is not recorded.
        """
        now = int(at)
        expires_at = int(min(now + self._seconds, until))
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": now,
            "exp": expires_at,
            "sub": user_id,
            "sid": login_id,
            "name": user_name,
        }
        return AccessToken(jwt.encode(claims, self._key, _ALGORITHM), expires_at - now)

    def verify(self, token: str) -> Principal:
        """The user of the token; `NotSignedIn` if it is not ours, or has expired."""
        if len(token) > _MAX_LENGTH:
            raise NotSignedIn("the access token is not valid")
        digest = sha256(token.encode(errors="replace")).digest()
        principal = self._verified.get(digest)
        if principal is None:
            principal = self._decode(token)
            self._cache(digest, principal)
        if self._clock() >= principal.expires_at:
            raise NotSignedIn("the access token has expired")
        return principal

    def login_of(self, token: str) -> str:
        """The id of the token's login, also of an expired token; `NotSignedIn` if it is not ours."""
        if len(token) > _MAX_LENGTH:
            raise NotSignedIn("the access token is not valid")
        return self._decode(token, may_be_expired=True).session_id

    def _decode(self, token: str, *, may_be_expired: bool = False) -> Principal:
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                self._key,
                algorithms=[_ALGORITHM],
                issuer=ISSUER,
                audience=AUDIENCE,
                leeway=_SKEW,
                options={"require": list(_CLAIMS), "verify_exp": not may_be_expired},
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

    def _cache(self, digest: bytes, principal: Principal) -> None:
        self._verified[digest] = principal
        if len(self._verified) > _CACHED:
            self._verified.popitem(last=False)
