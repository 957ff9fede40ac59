"""Browsers that have signed in to an account before: they have a limit of wrong passwords of their own.

Without it, a client that guesses passwords would keep the account's owner from signing in.
"""

from __future__ import annotations

import hmac
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.server.db.models import UserRow


class KnownDevices:
    """Issues and checks the cookies of such browsers without storing them. A new password makes them invalid."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def issue(self, user: UserRow, cookie: str | None = None) -> str:
        """The cookie of a browser that has just signed in as the user, with ``cookie`` from before."""
        return self._cookie(self.id_of(cookie, user) or secrets.token_hex(16), user)

    def id_of(self, cookie: str | None, user: UserRow | None) -> str | None:
        """The id of the browser; None if it has not signed in to this account with its present password."""
        if cookie is None or user is None:
            return None
        device = cookie.partition(".")[0]
        expected = self._cookie(device, user).encode()
        return device if hmac.compare_digest(expected, cookie.encode(errors="replace")) else None

    def _cookie(self, device: str, user: UserRow) -> str:
        signed = "\0".join((device, user.id, user.password_hash)).encode(errors="replace")
        return f"{device}.{hmac.new(self._key, signed, 'sha256').hexdigest()}"
