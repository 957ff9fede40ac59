"""Password hashing with Argon2id, in a few threads beside the event loop."""

from __future__ import annotations

import asyncio
import secrets
import unicodedata
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from argon2.exceptions import InvalidHashError, VerificationError

from leasehold.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Callable

    from argon2 import PasswordHasher

R = TypeVar("R")

DEMO_MARK = "demo$"
"""Stands before the hashes of demo passwords. Without the demo that is no hash, so no password matches it."""


class Passwords:
    """Hashes and verifies passwords in threads of its own.

    Each hash takes tens of milliseconds of CPU time and megabytes of memory, on purpose. So ``at_once`` bounds the
    resources that many logins can take, and ``waiting`` the length of their queue: `RateLimited` beyond that.
    """

    def __init__(self, hasher: PasswordHasher, *, at_once: int = 2, waiting: int = 64) -> None:
        self._hasher = hasher
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="passwords")
        self._free = at_once + waiting
        # Verified instead for an unknown user, so that it takes as long. The password is random and not kept.
        self._unknown_user: Future[str] = self._threads.submit(hasher.hash, secrets.token_hex())

    async def hash(self, password: str) -> str:
        """The hash to store for a password."""
        return await self._run(lambda: self._hasher.hash(_as_bytes(password)))

    async def verify(self, password: str, password_hash: str | None) -> bool:
        """True if the password has this hash. Without a hash it is False, after the same time."""
        return await self._run(lambda: self._is_right(password, password_hash))

    def is_outdated(self, password_hash: str) -> bool:
        """True if the hash was made with other costs than the current ones, and should be replaced."""
        return self._hasher.check_needs_rehash(password_hash)

    def like(self, old_hash: str, new_hash: str) -> str:
        """``new_hash``, with the mark of a demo password if ``old_hash`` has it."""
        return DEMO_MARK + new_hash if old_hash.startswith(DEMO_MARK) else new_hash

    def close(self) -> None:
        """End the threads after their current work."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _is_right(self, password: str, password_hash: str | None) -> bool:
        against = self._unknown_user.result() if password_hash is None else password_hash
        try:
            self._hasher.verify(against, _as_bytes(password))
        except (VerificationError, InvalidHashError):
            return False
        return password_hash is not None

    async def _run(self, work: Callable[[], R]) -> R:
        if self._free <= 0:
            raise RateLimited("too many concurrent logins: try again in 2 seconds", retry_after=2)
        self._free -= 1
        future = self._threads.submit(work)
        # Freed when the thread is done, not when the caller is cancelled, because threads are the scarce resource.
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: _call_soon(loop, self._free_one))
        return await asyncio.wrap_future(future)

    def _free_one(self) -> None:
        self._free += 1


class DemoPasswords(Passwords):
    """Accepts the marked hashes too. Everybody knows these passwords, so they work in demo mode only."""

    async def verify(self, password: str, password_hash: str | None) -> bool:
        """See `Passwords.verify`."""
        return await super().verify(
            password, password_hash.removeprefix(DEMO_MARK) if password_hash else None
        )

    def is_outdated(self, password_hash: str) -> bool:
        """False for a marked one: a new hash would lose the mark, and work without the demo."""
        return not password_hash.startswith(DEMO_MARK) and super().is_outdated(password_hash)


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)


def _as_bytes(password: str) -> bytes:
    # Keyboards encode accented letters differently, and one person may use several keyboards.
    return unicodedata.normalize("NFC", password).encode()
