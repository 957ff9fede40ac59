"""Locks over a redis-py client that the application already has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from leasehold import blocking, client
from leasehold.errors import Holder, InvalidRequest
from leasehold.runtime import clock
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency

if TYPE_CHECKING:
    import redis
    import redis.asyncio


@overload
def from_client(
    existing: redis.asyncio.Redis,
    *,
    holder: Holder | None = None,
    namespace: str = "lock",
    timeout: float = 2,
    retry_interval: float = 0.05,
) -> client.Client: ...
@overload
def from_client(
    existing: redis.Redis,
    *,
    holder: Holder | None = None,
    namespace: str = "lock",
    timeout: float = 2,
    retry_interval: float = 0.05,
) -> blocking.Client: ...
def from_client(
    existing: Any,
    *,
    holder: Holder | None = None,
    namespace: str = "lock",
    timeout: float = 2,
    retry_interval: float = 0.05,
) -> client.Client | blocking.Client:
    """Return an asynchronous client over a ``redis.asyncio.Redis``, a blocking one over a ``redis.Redis``.

    ``decode_responses`` may be on or off. The existing client keeps its own timeouts, is not closed, and the eviction
    policy of its server is not checked. Its reconnects are not visible, so every grant reads the server's clock: a
    little slower than `leasehold.connect`, and several times slower with many tasks, because redis-py uses a
    connection for each command under way.
    """
    # Imported here: redis-py takes half a second to import, which other programs should not spend.
    import redis  # noqa: PLC0415 - see above
    import redis.asyncio  # noqa: PLC0415 - see above

    from leasehold.valkey.transport import redis_py  # noqa: PLC0415 - see above

    if isinstance(existing, redis.asyncio.Redis):
        return client.Client(
            redis_py.AsyncRedisPyTransport(existing, clock=clock.now),
            concurrency=AsyncioConcurrency(),
            holder=holder,
            namespace=namespace,
            timeout=timeout,
            retry_interval=retry_interval,
        )
    if isinstance(existing, redis.Redis):
        return blocking.Client(
            redis_py.BlockingRedisPyTransport(existing, clock=clock.now),
            holder=holder,
            namespace=namespace,
            timeout=timeout,
            retry_interval=retry_interval,
        )
    raise InvalidRequest(
        f"from_client takes a redis.asyncio.Redis or a redis.Redis, not {type(existing).__module__}.{type(existing).__name__}"
    )
