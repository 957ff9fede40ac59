"""CSRF tokens: proof that a request with a login's cookie was made by our own page.

Another site can make the browser send the cookie, but it cannot read this token, so it cannot repeat it in a header.
The token belongs to the login rather than to one refresh token: another tab may refresh at any moment, and the value
that this tab has just read from its cookie must still be valid.
"""

from __future__ import annotations

import hmac

from leasehold.errors import NotAllowed


class CsrfTokens:
    """Computes and checks CSRF tokens without storing them."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, refresh_token: str) -> str:
        """The CSRF token of the login of this refresh token."""
        login_id = refresh_token.partition(".")[0]
        return hmac.new(self._key, login_id.encode(errors="replace"), "sha256").hexdigest()

    def check(self, *, refresh_token: str, cookie: str | None, header: str | None) -> None:
        """`NotAllowed` unless both the cookie and the header have the refresh token's CSRF token."""
        expected = self.of(refresh_token).encode()
        are_right = [
            hmac.compare_digest(expected, (given or "").encode(errors="replace"))
            for given in (cookie, header)
        ]
        if not all(are_right):
            raise NotAllowed("the X-CSRF-Token header must repeat the leasehold_csrf cookie")
