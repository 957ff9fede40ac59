"""Guards keys on Valkey or Redis: a key refuses an older fence than it has seen. For redis-py clients, sync or async.

The newest fence is stored beside the value, in a separate key in the same slot: ``balance:{42}:guard`` for
``balance:{42}``, ``guard:{balance}`` for ``balance``. The value is a plain string that any client can read; a write
without the guard is not refused.

The stored fence expires 2 days after its last use by default, and never before a value with a ttl does. A holder
that sleeps longer than that, while the key is unused, is no longer refused; ``remember`` sets another time. The
value has the given ttl, or none, as with SET.

Each call is one script, so one atomic step: after `StoreRefused` nothing was changed, after `StoreUnavailable` the
outcome is unknown. Writing again with the same fence is always allowed.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from leasehold.core.sync_runner import run_sync
from leasehold.core.validation import check_duration
from leasehold.core.validity import to_ms
from leasehold.errors import InvalidRequest, StaleFence, StoreError
from leasehold.operations.guards.presented_fence import present_fence
from leasehold.valkey import scripts
from leasehold.valkey.transport import error_mapping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    import redis
    import redis.asyncio

    from leasehold.core.leases.lease import LeaseState
    from leasehold.core.replies import Mode
    from leasehold.valkey.scripts import Script
    from leasehold.valkey.transport.redis_py import AsyncRedisPyTransport, BlockingRedisPyTransport

    Wire = AsyncRedisPyTransport | BlockingRedisPyTransport

T = TypeVar("T")

REMEMBER = 2 * 86400.0
"""Seconds for which a fence is remembered after its last use, as long as the lock's own counter."""

_LUA = Path(__file__).with_name("lua")
_KEYS = ("value", "guard")
GUARDED_SET = scripts.load(
    "guarded_set",
    keys=_KEYS,
    arguments=("fence", "mode", "nonce", "content", "ttl_ms", "keep_ms"),
    folder=_LUA,
)
GUARDED_GET = scripts.load("guarded_get", keys=_KEYS, arguments=("fence", "mode", "keep_ms"), folder=_LUA)
ALL = (GUARDED_SET, GUARDED_GET)


@overload
def guarded_set(
    client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
    key: str | bytes,
    value: str | bytes | float,
    fence: int | LeaseState,
    *,
    ttl: float | None = None,
    mode: Mode | None = None,
    remember: float = REMEMBER,
) -> Awaitable[None]: ...
@overload
def guarded_set(
    client: redis.Redis | redis.RedisCluster,
    key: str | bytes,
    value: str | bytes | float,
    fence: int | LeaseState,
    *,
    ttl: float | None = None,
    mode: Mode | None = None,
    remember: float = REMEMBER,
) -> None: ...
def guarded_set(
    client: Any,
    key: str | bytes,
    value: str | bytes | float,
    fence: int | LeaseState,
    *,
    ttl: float | None = None,
    mode: Mode | None = None,
    remember: float = REMEMBER,
) -> Awaitable[None] | None:
    """Write ``value`` to ``key``, for ``ttl`` seconds or for good, unless the key has seen a newer fence.

    On return the value is written and the fence registered. ``fence`` is a lease or its number; a lease that has
    ended raises `LeaseLost`. With ``mode="shared"`` (or a shared lease) the fence is compared but not registered.
    Raises `StaleFence` if the key has seen a newer one: nothing was changed.
    """

    def write(wire: Wire) -> Coroutine[Any, Any, None]:
        return _set(wire, key, value, fence, ttl, mode, remember)

    return _run(client, write)


@overload
def guarded_get(
    client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
    key: str | bytes,
    fence: int | LeaseState,
    *,
    mode: Mode | None = None,
    remember: float = REMEMBER,
) -> Awaitable[Any]: ...
@overload
def guarded_get(
    client: redis.Redis | redis.RedisCluster,
    key: str | bytes,
    fence: int | LeaseState,
    *,
    mode: Mode | None = None,
    remember: float = REMEMBER,
) -> Any: ...
def guarded_get(
    client: Any,
    key: str | bytes,
    fence: int | LeaseState,
    *,
    mode: Mode | None = None,
    remember: float = REMEMBER,
) -> Any:
    """The value of ``key``, or None, read after the fence has been registered there.

    From then on `guarded_set` refuses older fences, so the value is still current when this holder writes. The value
    is text or bytes, as the client decodes it. Raises what `guarded_set` raises.
    """

    async def read(wire: Wire) -> Any:
        content = await _get(wire, key, fence, mode, remember)
        return None if content is None else client.get_encoder().decode(content)

    return _run(client, read)


def guard_key(key: str | bytes) -> bytes:
    """The key that stores the fence of ``key``, in the same slot of a cluster."""
    if not isinstance(key, str | bytes) or not key:  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a key is text or bytes and not empty, not {key!r}")
    name = key.encode() if isinstance(key, str) else key
    opening = name.find(b"{")
    closing = name.find(b"}", opening + 1)
    if opening >= 0 and closing > opening + 1:
        return name + b":guard"  # the text between the braces determines the slot of both keys
    if b"}" in name:
        raise InvalidRequest(f"{key!r} has a }} but no {{tag}}, so no second key can be placed in its slot")
    # A prefix: with a suffix, "balance" would share the guard of "{balance}".
    return b"guard:{" + name + b"}"


async def _set(
    wire: Wire,
    key: str | bytes,
    value: str | bytes | float,
    fence: int | LeaseState,
    ttl: float | None,
    mode: Mode | None,
    remember: float,
) -> None:
    if not isinstance(value, str | bytes | int | float) or isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a value is text, bytes or a number, not {type(value).__name__}")
    ttl_ms = 0 if ttl is None else _ms(ttl, "ttl")
    # Identifies this write if the driver repeats it.
    nonce = secrets.token_hex(8)
    await _call_script(wire, GUARDED_SET, key, fence, mode, nonce, value, ttl_ms, _ms(remember, "remember"))


async def _get(
    wire: Wire, key: str | bytes, fence: int | LeaseState, mode: Mode | None, remember: float
) -> bytes | None:
    return (await _call_script(wire, GUARDED_GET, key, fence, mode, _ms(remember, "remember")))[2]


async def _call_script(
    wire: Wire, script: Script, key: str | bytes, fence: int | LeaseState, mode: Mode | None, *arguments: Any
) -> Any:
    guard = guard_key(key)
    number, registers = present_fence(fence, mode)
    words = (2, key, guard, number, "exclusive" if registers else "shared", *arguments)
    reply = await wire.call("EVALSHA", script.sha, *words)
    if isinstance(reply, Exception) and str(reply).startswith("NOSCRIPT"):
        reply = await wire.call("EVAL", script.source, *words)
    if isinstance(reply, StoreError):
        raise reply
    if isinstance(reply, Exception):
        raise error_mapping.from_reply(str(reply), reply)
    if not reply[0]:
        raise StaleFence(seen=int(reply[1]), given=number)
    return reply


def _run(client: Any, work: Callable[[Wire], Coroutine[Any, Any, T]]) -> T | Awaitable[T]:
    """Run ``work`` on the client: an awaitable for an async client, finished on return for a blocking one."""
    # Imported here: redis-py takes half a second to import, and a caller that has a client has imported it already.
    import redis  # noqa: PLC0415 - see above
    import redis.asyncio  # noqa: PLC0415 - see above

    from leasehold.valkey.transport import redis_py  # noqa: PLC0415 - see above

    existing: Any = None if hasattr(client, "execute") else client  # a pipeline replies only later
    if isinstance(existing, redis.asyncio.Redis | redis.asyncio.RedisCluster):
        return work(redis_py.AsyncRedisPyTransport(client))
    if isinstance(existing, redis.Redis | redis.RedisCluster):
        return run_sync(work(redis_py.BlockingRedisPyTransport(client)))
    kind = f"{type(client).__module__}.{type(client).__name__}"
    raise InvalidRequest(f"a guard needs a redis.asyncio.Redis or a redis.Redis, not {kind}")


def _ms(seconds: float, what: str) -> int:
    return to_ms(check_duration(seconds, what))
