"""Proof that a request with a session's cookie was made by our own page.

A page of somebody else can have a browser send the cookie, but it cannot read this token, so it cannot repeat it in
a header. It belongs to the session rather than to one refresh token: another tab may refresh at any moment, and what
this tab read from its cookie just now must still be right.
"""

from __future__ import annotations

import hmac

from leasehold.errors import NotAllowed


class CsrfTokens:
    """Makes and checks them; nothing is kept."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, refresh_token: str) -> str:
        """The one that goes with the session of this refresh token."""
        session_id = refresh_token.partition(".")[0]
        return hmac.new(self._key, session_id.encode(errors="replace"), "sha256").hexdigest()

    def check(self, *, refresh_token: str, cookie: str | None, header: str | None) -> None:
        """`NotAllowed` unless cookie and header both are the one that goes with the refresh token."""
        expected = self.of(refresh_token).encode()
        are_right = [
            hmac.compare_digest(expected, (given or "").encode(errors="replace"))
            for given in (cookie, header)
        ]
        if not all(are_right):
            raise NotAllowed("the X-CSRF-Token header must repeat the leasehold_csrf cookie")
