"""Transports over a redis-py client of the application.

Its reconnects are invisible here, so the scripts read the server's clock on every grant. So are its retries:
repeating a command with the same token gets the same reply, and a release is remembered for a while.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from redis import exceptions
from redis.client import NEVER_DECODE

from leasehold.valkey import notifications
from leasehold.valkey.transport import codec, error_mapping
from leasehold.valkey.transport.server_clock import ServerClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

    import redis
    import redis.asyncio

    from leasehold.errors import StoreError
    from leasehold.valkey.commands import Command
    from leasehold.valkey.transport.endpoint import Endpoint
    from leasehold.valkey.transport.protocols import Call, Reply, Word

# Keys of other programs need not be text, even if decode_responses is set.
_UNDECODED = {NEVER_DECODE: True}

# redis-py removes the code from these messages; the store needs it.
_CODES: dict[type[exceptions.ResponseError], str] = {
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.ExecAbortError: "EXECABORT",
}


class _RedisPyTransport:
    """Shared by both transports: there is no handshake of ours, so nothing is known about the server."""

    floor = None
    deletes_if_equal = False
    may_ask_twice = True
    keeps_order = False
    min_replicas = 0
    finds_primary = False
    sentinels = ()
    server = None
    redirect = None

    def __init__(
        self, client: redis.Redis | redis.asyncio.Redis, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client: Any = client  # redis-py's own types are partly unknown
        self.channel = notifications.new_channel()
        # Read from the first reply that says "too late": there is no handshake of ours.
        self.server_clock = ServerClock(clock)

    def listen(self, handle: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        """Do nothing: a subscription would need a connection of the client to itself."""

    def now_ms(self) -> int:
        """This machine's clock: it is only for display, and the server's is not known."""
        return int(time.time() * 1000)

    def reset(self) -> None:
        """Do nothing: there is no floor that could be out of date."""

    async def close(self) -> None:
        """Leave the client open: it belongs to the application."""

    async def ask_other(self, server: Endpoint, commands: Sequence[tuple[Word, ...]]) -> Sequence[Reply]:
        """Not possible: only the application knows how to log in."""
        raise NotImplementedError

    def after_fork(self) -> None:
        """Leave the connections to redis-py, which handles forks."""
        self.channel = notifications.new_channel()

    @property
    def connection(self) -> Self:
        """Always open."""
        return self

    async def get_connection(self, name: str | None = None) -> Self:  # noqa: ARG002 - one server keeps all
        """Always open."""
        return self

    def part_of(self, name: str) -> object:  # noqa: ARG002 - one server keeps all
        """See `Transport`."""
        return None

    def is_one_step(self, names: Sequence[str]) -> bool:  # noqa: ARG002 - one server keeps all
        """See `Transport`."""
        return True

    async def run(self, command: Command, name: str, arguments: tuple[Word, ...]) -> Reply:
        """The reply to one command on a lock."""
        return await self.call(*command.words(name, arguments))

    async def call(self, *words: Word) -> Reply:
        """The reply to any other command."""
        raise NotImplementedError


class AsyncRedisPyTransport(_RedisPyTransport):
    """Implements `PubSubTransport` and `Connection` over a ``redis.asyncio.Redis``."""

    async def subscribe(
        self,
        channel: str,  # noqa: ARG002 - as the protocol has it
        handle: Callable[[bytes], None],  # noqa: ARG002 - as the protocol has it
        on_resumed: Callable[[], None],  # noqa: ARG002 - as the protocol has it
    ) -> bool:
        """Not possible, as a subscription would need a connection of the client to itself."""
        return False

    async def call(self, *words: Word) -> Reply:
        """The reply to any other command."""
        try:
            return _as_bytes(await self._client.execute_command(*codec.text_of(words), **_UNDECODED))
        except exceptions.RedisError as error:
            return _as_reply(error)

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """The replies to many commands on locks, in one pipeline."""
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for command, name, arguments in calls:
                    pipeline.execute_command(*command.words(name, arguments))
                return [_as_bytes(reply) for reply in await pipeline.execute(raise_on_error=False)]
        except exceptions.RedisError as error:
            return [_as_reply(error)] * len(calls)


class BlockingRedisPyTransport(_RedisPyTransport):
    """Implements `Transport` and `Connection` over a ``redis.Redis``."""

    async def call(self, *words: Word) -> Reply:
        """The reply to any other command."""
        try:
            return _as_bytes(self._client.execute_command(*codec.text_of(words), **_UNDECODED))
        except exceptions.RedisError as error:
            return _as_reply(error)

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """The replies to many commands on locks, in one pipeline."""
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for command, name, arguments in calls:
                    pipeline.execute_command(*command.words(name, arguments))
                return [_as_bytes(reply) for reply in pipeline.execute(raise_on_error=False)]
        except exceptions.RedisError as error:
            return [_as_reply(error)] * len(calls)


def _as_bytes(reply: Any) -> Reply:
    """The reply as our own connections return it, for any ``decode_responses``."""
    if isinstance(reply, str):
        return reply.encode()
    if isinstance(reply, list | tuple):  # redis-py returns a tuple for SCAN
        return [_as_bytes(item) for item in cast("Sequence[Any]", reply)]
    if isinstance(reply, exceptions.RedisError):
        return _as_reply(reply)
    return reply


def _as_reply(error: exceptions.RedisError) -> StoreError | codec.ReplyError:
    """A driver's exception as the error reply it stands for, or as the error of Leasehold."""
    if isinstance(error, exceptions.AuthenticationError):
        code = "NOAUTH" if "required" in str(error) else "WRONGPASS"
        return error_mapping.from_reply(f"{code} {error}", error)
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return error_mapping.no_reply(f"redis-py got no answer: {error}", error)
    code = _CODES.get(type(error)) if isinstance(error, exceptions.ResponseError) else None
    reply = codec.ReplyError(f"{code} {error}" if code else str(error))
    reply.__cause__ = error
    return reply
