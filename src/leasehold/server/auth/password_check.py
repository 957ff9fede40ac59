"""Compares passwords, and limits the wrong ones of each account."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from leasehold.errors import RateLimited

if TYPE_CHECKING:
    from leasehold.server.auth.passwords import Passwords
    from leasehold.server.db.models import UserRow
    from leasehold.server.http.rate_limiter import RateLimiter

_log = logging.getLogger("leasehold.server")


class PasswordCheck:
    """Counts each attempt before the comparison, so that concurrent ones are limited too."""

    def __init__(self, passwords: Passwords, rate_limiter: RateLimiter) -> None:
        self._passwords = passwords
        self._rate_limiter = rate_limiter

    async def is_right(
        self, user: UserRow | None, password: str, *, account: str, counted_for: str, address: str
    ) -> bool:
        """True if it is the user's password; False for no user, after the same time.

        `RateLimited` after too many wrong ones of ``counted_for``, whether this one is right or not.
        """
        try:
            self._rate_limiter.spend("password", counted_for)
        except RateLimited:
            _log.warning("too many wrong passwords for the account %a: refused %a", account, address)
            raise
        try:
            is_right = await self._passwords.verify(password, user.password_hash if user else None)
        except RateLimited:
            self._rate_limiter.give_back("password", counted_for)
            raise
        if is_right:
            self._rate_limiter.give_back("password", counted_for)
        else:
            # Escaped: a proxy may forward whatever a client calls its address.
            _log.warning("wrong password for the account %a from %a", account, address)
        return is_right
