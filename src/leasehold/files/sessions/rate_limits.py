"""How often a session may try to lock something, by the ``limits`` library: so many times in any window.

Giving back and renewing are never counted: whoever asks too often must be able to let go of what it has.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from leasehold.core.observer import RateLimitChecked
from leasehold.errors import InvalidRequest, RateLimited, StoreUnavailable
from leasehold.files.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.observer import Observers, Verb
    from leasehold.files.settings import FileSettings
    from leasehold.files.worlds import World

# As the library of limits names them.
_SCHEMES = {
    "redis": "redis",
    "valkey": "redis",
    "rediss": "rediss",
    "valkeys": "rediss",
    "unix": "redis+unix",
}


class RateLimits:
    """Counts the tries of each session, in this process or for all of them in a store."""

    def __init__(self, settings: FileSettings, world: World, lookout: Observers, *, timeout: float) -> None:
        self._world = world
        self._lookout = lookout
        self._where = "" if settings.rate_limit_url is None else _address(settings.rate_limit_url)
        # Of its own: the store of the locks may be well while this one is away, and the other way round.
        self._outage = Outage(f"the store of rate limits at {self._where}", store=self._where)
        self._count: Callable[[str], float | None] | None = None
        self._clear: Callable[[str], None] | None = None
        if settings.rate_limit is not None:
            self._set_up(settings.rate_limit, settings, timeout)

    async def check(self, session_id: str, verb: Verb) -> None:
        """Count one try; `RateLimited` if there have been too many, `StoreUnavailable` if that cannot be known."""
        if self._count is None:
            return
        retry_after = await self._do(self._count, session_id)
        if self._lookout.observer is not None:
            self._lookout.observer.hear(RateLimitChecked(verb, retry_after is None, self._where))
        if retry_after is not None:
            raise RateLimited(
                f"session {session_id!r} asks for too many locks; it may go on in {retry_after:.1f} s, and can "
                "always renew and release",
                retry_after=retry_after,
            )

    async def clear(self, session_id: str) -> None:
        """Forget what the session has asked for."""
        if self._clear is not None:
            await self._do(self._clear, session_id)

    async def _do(self, work: Callable[[str], Any], session_id: str) -> Any:
        if not self._where:
            return work(session_id)
        return await self._outage.watch(self._world.aside(lambda: work(session_id)))

    def _set_up(self, amount: int, settings: FileSettings, timeout: float) -> None:
        try:
            from limits import RateLimitItemPerSecond  # noqa: PLC0415 - only where there is a limit
            from limits.strategies import MovingWindowRateLimiter  # noqa: PLC0415 - see above
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(
                f"a rate limit needs {missing.name}: pip install 'leasehold[files]'", name=missing.name
            ) from missing
        # The library counts in whole seconds.
        item = RateLimitItemPerSecond(amount, math.ceil(settings.rate_window), namespace="leasehold")
        storage = _storage(settings.rate_limit_url, timeout)
        strategy = MovingWindowRateLimiter(storage)
        where = self._where

        def count(session_id: str) -> float | None:
            """None if one more is allowed, otherwise the seconds until it will be."""
            try:
                if strategy.hit(item, "file", session_id):
                    return None
                reset_at = strategy.get_window_stats(item, "file", session_id).reset_time
            except storage.base_exceptions as error:
                raise _unavailable(error, where) from error
            return max(0.0, reset_at - time.time())

        def clear(session_id: str) -> None:
            try:
                strategy.clear(item, "file", session_id)
            except storage.base_exceptions as error:
                raise _unavailable(error, where) from error

        self._count, self._clear = count, clear


def _storage(url: str | None, timeout: float) -> Any:
    from limits.storage import MemoryStorage, storage_from_string  # noqa: PLC0415 - see above

    if url is None:
        return MemoryStorage()
    scheme, separator, rest = url.partition("://")
    known = _SCHEMES.get(scheme)
    if not separator or known is None:
        raise InvalidRequest(f"rate_limit_url begins with one of {', '.join(_SCHEMES)}, followed by ://")
    try:
        return storage_from_string(
            f"{known}://{rest}", socket_timeout=timeout, socket_connect_timeout=timeout
        )
    except ValueError:  # it may repeat a part of the URL, and a password may be anywhere in that
        raise _malformed() from None


def _address(url: str) -> str:
    """Where the URL leads, without who goes there."""
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except ValueError:
        raise _malformed() from None
    return f"unix://{unquote(parts.path)}" if parts.scheme == "unix" else host


def _malformed() -> InvalidRequest:
    return InvalidRequest(
        "the host, the port or the database in rate_limit_url is not valid; special characters in a password are "
        "written as %XX"
    )


def _unavailable(error: BaseException, where: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the store of rate limits at {where} cannot be reached ({type(error).__name__})", store=where
    )
