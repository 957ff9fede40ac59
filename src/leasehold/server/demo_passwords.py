"""Passwords that everybody knows, and that are therefore good in demo mode only."""

from __future__ import annotations

from leasehold.server.auth.passwords import Passwords

MARK = "demo$"
"""Before the hash of such a password. Without the demo it is not a hash, and so nobody's password is right."""


class DemoPasswords(Passwords):
    """Knows the marked hashes too."""

    async def verify(self, password: str, password_hash: str | None) -> bool:
        """See `Passwords.verify`."""
        return await super().verify(password, password_hash.removeprefix(MARK) if password_hash else None)

    def is_outdated(self, password_hash: str) -> bool:
        """Never for a marked one: made anew it would lose its mark, and be good for ever."""
        return not password_hash.startswith(MARK) and super().is_outdated(password_hash)
