"""Limits the attempts of a session to lock files, with the ``limits`` library: so many in any window.

Releasing and renewing are never counted: a session over its limit must be able to release what it holds.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from leasehold.core.observer import RateLimitChecked
from leasehold.errors import InvalidRequest, RateLimited, StoreUnavailable
from leasehold.extras import requires_extra
from leasehold.files.sessions.outage_log import OutageLog
from leasehold.valkey.transport.sentinel import SentinelGroup
from leasehold.valkey.transport.store_url import parse as parse_store_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.engine import Engine
    from leasehold.core.observer import Verb
    from leasehold.files.settings import FileSettings
    from leasehold.valkey.transport.endpoint import Endpoint

# URL schemes, and the names that the limits library has for them.
_SCHEMES = {
    "redis": "redis",
    "valkey": "redis",
    "rediss": "rediss",
    "valkeys": "rediss",
    "unix": "redis+unix",
    "redis+sentinel": "redis+sentinel",
}


class RateLimits:
    """Counts the attempts of each session, in this process or for all processes in a store."""

    def __init__(self, settings: FileSettings, engine: Engine[Any]) -> None:
        self._engine = engine
        self._where = "" if settings.rate_limit_url is None else _address_of(settings.rate_limit_url)
        # A separate one: the store of the locks may be up while this one is down, and the other way round.
        self._outage = OutageLog(f"the store of rate limits at {self._where}", store=self._where)
        self._count: Callable[[str], float | None] | None = None
        self._clear: Callable[[str], None] | None = None
        if settings.rate_limit is not None:
            self._create_counters(settings.rate_limit, settings, engine.timeout)

    async def check(self, session_id: str, verb: Verb) -> None:
        """Count one attempt; `RateLimited` if there were too many, `StoreUnavailable` if that is not known."""
        if self._count is None:
            return
        retry_after = await self._run(self._count, session_id)
        if (observer := self._engine.observers.observer) is not None:
            observer.hear(RateLimitChecked(verb, retry_after is None, self._where))
        if retry_after is not None:
            raise RateLimited(
                f"session {session_id!r} has reached its rate limit; try again in {retry_after:.1f} s. Renewing and "
                "releasing are not limited",
                retry_after=retry_after,
            )

    async def clear(self, session_id: str) -> None:
        """Reset the session's count."""
        if self._clear is not None:
            await self._run(self._clear, session_id)

    async def _run(self, work: Callable[[str], Any], session_id: str) -> Any:
        if not self._where:
            return work(session_id)
        return await self._outage.watch(self._engine.concurrency.run_blocking(lambda: work(session_id)))

    def _create_counters(self, amount: int, settings: FileSettings, timeout: float) -> None:
        with requires_extra("a rate limit", "files"):
            from limits import RateLimitItemPerSecond  # noqa: PLC0415 - only where there is a limit
            from limits.strategies import MovingWindowRateLimiter  # noqa: PLC0415 - see above
        # The library counts in whole seconds.
        item = RateLimitItemPerSecond(amount, math.ceil(settings.rate_window), namespace="leasehold")
        storage = _open_storage(settings.rate_limit_url, timeout)
        strategy = MovingWindowRateLimiter(storage)
        where = self._where

        def count(session_id: str) -> float | None:
            """None if one more attempt is allowed, otherwise the seconds until it will be."""
            try:
                if strategy.hit(item, "file", session_id):
                    return None
                reset_at = strategy.get_window_stats(item, "file", session_id).reset_time
            except storage.base_exceptions as error:
                raise _store_unavailable(error, where) from error
            return max(0.0, reset_at - time.time())

        def clear(session_id: str) -> None:
            try:
                strategy.clear(item, "file", session_id)
            except storage.base_exceptions as error:
                raise _store_unavailable(error, where) from error

        self._count, self._clear = count, clear


def _open_storage(url: str | None, timeout: float) -> Any:
    from limits.storage import MemoryStorage, storage_from_string  # noqa: PLC0415 - see above

    if url is None:
        return MemoryStorage()
    scheme, separator, rest = url.partition("://")
    known = _SCHEMES.get(scheme)
    if not separator or known is None:
        raise InvalidRequest(f"rate_limit_url begins with one of {', '.join(_SCHEMES)}, followed by ://")
    if (group := _sentinels_in(url)) is not None:
        return _open_sentinel_storage(group, timeout)
    try:
        return storage_from_string(
            f"{known}://{rest}", socket_timeout=timeout, socket_connect_timeout=timeout
        )
    except ValueError:  # its text may quote the URL, and with it a password
        raise _malformed_url() from None


def _open_sentinel_storage(group: SentinelGroup, timeout: float) -> Any:
    from limits.storage import RedisSentinelStorage  # noqa: PLC0415 - see above

    timeouts = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    server, sentinel = group.server, group.sentinels[0]
    return RedisSentinelStorage(
        f"redis+sentinel://{','.join(map(str, group.sentinels))}/{group.service}",
        # A replica is behind: an attempt that was just counted would be missing.
        use_replicas=False,
        sentinel_kwargs={**timeouts, **_login_of(sentinel)},
        db=server.db,
        **timeouts,
        **{key: value for key, value in _login_of(server).items() if value is not None},
    )


def _login_of(endpoint: Endpoint) -> dict[str, Any]:
    return {"username": endpoint.username, "password": endpoint.password}


def _sentinels_in(url: str) -> SentinelGroup | None:
    if not url.startswith("redis+sentinel:"):
        return None
    group = parse_store_url(url)
    assert isinstance(group, SentinelGroup)
    return group


def _address_of(url: str) -> str:
    """The host and port, the socket, or the sentinels and their service, without the credentials."""
    if (group := _sentinels_in(url)) is not None:
        return str(group)
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except ValueError:
        raise _malformed_url() from None
    return f"unix://{unquote(parts.path)}" if parts.scheme == "unix" else host


def _malformed_url() -> InvalidRequest:
    return InvalidRequest(
        "the host, the port or the database in rate_limit_url is not valid; special characters in a password are "
        "written as %XX"
    )


def _store_unavailable(error: BaseException, where: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the store of rate limits at {where} cannot be reached ({type(error).__name__})", store=where
    )
