"""Passwords: hashed with Argon2id, away from the event loop, a few at a time."""

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


class Passwords:
    """Hashes and checks passwords in threads of its own.

    Each takes tens of milliseconds of a processor and megabytes of memory, on purpose. So ``at_once`` bounds what
    a crowd of sign-ins can take, and ``waiting`` how long its queue gets: `RateLimited` beyond that.
    """

    def __init__(self, hasher: PasswordHasher, *, at_once: int = 2, waiting: int = 64) -> None:
        self._hasher = hasher
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="passwords")
        self._room = at_once + waiting
        # Checked instead, where there is no such user. Nobody knows the password, not even we.
        self._nobody: Future[str] = self._threads.submit(hasher.hash, secrets.token_hex())

    async def hash(self, password: str) -> str:
        """What to keep of a password."""
        return await self._run(lambda: self._hasher.hash(_as_bytes(password)))

    async def verify(self, password: str, password_hash: str | None) -> bool:
        """Whether it is the password of this hash. Without one it is not, and it takes as long to find out."""
        return await self._run(lambda: self._is_right(password, password_hash))

    def is_outdated(self, password_hash: str) -> bool:
        """Whether it was made with other costs than today's, so that it should be made anew."""
        return self._hasher.check_needs_rehash(password_hash)

    def close(self) -> None:
        """End the threads, as soon as what they do now is done."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _is_right(self, password: str, password_hash: str | None) -> bool:
        against = self._nobody.result() if password_hash is None else password_hash
        try:
            self._hasher.verify(against, _as_bytes(password))
        except (VerificationError, InvalidHashError):
            return False
        return password_hash is not None

    async def _run(self, work: Callable[[], R]) -> R:
        if self._room <= 0:
            raise RateLimited("too many people sign in at once", retry_after=2)
        self._room -= 1
        future = self._threads.submit(work)
        # Given back when the thread is done, not when the caller has gone: it is threads that are scarce.
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: _tell(loop, self._make_room))
        return await asyncio.wrap_future(future)

    def _make_room(self) -> None:
        self._room += 1


def _tell(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)


def _as_bytes(password: str) -> bytes:
    # Keyboards differ in how they write an accented letter, and one person may have several.
    return unicodedata.normalize("NFC", password).encode()
