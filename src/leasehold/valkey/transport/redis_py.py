"""Wires over somebody else's redis-py client.

Its reconnects cannot be seen from here, so the scripts read the server's clock on every grant. Nor can its
retries: asking again with the same token gets the same answer, and a release is remembered for a while.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from redis import exceptions
from redis.client import NEVER_DECODE

from leasehold.valkey import notifications
from leasehold.valkey.transport import codec, error_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis
    import redis.asyncio

    from leasehold.errors import StoreError
    from leasehold.valkey.commands import Verb
    from leasehold.valkey.transport.protocols import Call, Reply, Word

# Keys of others need not be text, whatever decode_responses says.
_AS_IT_IS = {NEVER_DECODE: True}

# redis-py takes the code off these messages; the store wants it back.
_CODES: dict[type[exceptions.ResponseError], str] = {
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.NoPermissionError: "NOPERM",
}


class _Borrowed:
    """What both kinds have in common: no handshake of ours, so nothing is known about the server."""

    floor = None
    deletes_if_equal = False
    may_ask_twice = True
    keeps_order = False

    def __init__(self) -> None:
        self.channel = notifications.new_channel()

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """Nothing is heard: a subscription would need a connection of the client to itself."""

    def now_ms(self) -> int:
        """This machine's clock: it is only for showing, and the server's is not known."""
        return int(time.time() * 1000)

    def start_over(self) -> None:
        """Nothing to do: there is no floor that could be out of date."""

    async def close(self) -> None:
        """Leave the client open: it belongs to somebody else."""

    def after_fork(self) -> None:
        """Leave the connections to redis-py, which sees to them."""
        self.channel = notifications.new_channel()


class AsyncBorrowed(_Borrowed):
    """Implements `Wire` and `Session` over a ``redis.asyncio.Redis``."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        super().__init__()
        self._client: Any = client  # redis-py's own types are partly unknown

    @property
    def session(self) -> AsyncBorrowed:
        """Always at hand."""
        return self

    async def open_session(self) -> AsyncBorrowed:
        """Always open."""
        return self

    async def subscribe(
        self,
        channel: str,  # noqa: ARG002 - as the protocol has it
        hear: Callable[[bytes], None],  # noqa: ARG002 - as the protocol has it
        resumed: Callable[[], None],  # noqa: ARG002 - as the protocol has it
    ) -> bool:
        """Nothing is heard, as a subscription would need a connection of the client to itself."""
        return False

    async def run(self, verb: Verb, name: str, arguments: tuple[Word, ...]) -> Reply:
        """The reply to one script."""
        return await self.call(*verb.words(name, arguments))

    async def call(self, *words: Word) -> Reply:
        """The reply to any other command."""
        try:
            return _as_bytes(await self._client.execute_command(*words, **_AS_IT_IS))
        except exceptions.RedisError as error:
            return _as_reply(error)

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """The replies to many scripts, in one pipeline."""
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for verb, name, arguments in calls:
                    pipeline.execute_command(*verb.words(name, arguments))
                return [_as_bytes(reply) for reply in await pipeline.execute(raise_on_error=False)]
        except exceptions.RedisError as error:
            return [_as_reply(error)] * len(calls)


class BlockingBorrowed(_Borrowed):
    """Implements `Wire` and `Session` over a ``redis.Redis``."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__()
        self._client: Any = client  # redis-py's own types are partly unknown

    @property
    def session(self) -> BlockingBorrowed:
        """Always at hand."""
        return self

    async def open_session(self) -> BlockingBorrowed:
        """Always open."""
        return self

    async def run(self, verb: Verb, name: str, arguments: tuple[Word, ...]) -> Reply:
        """The reply to one script."""
        return await self.call(*verb.words(name, arguments))

    async def call(self, *words: Word) -> Reply:
        """The reply to any other command."""
        try:
            return _as_bytes(self._client.execute_command(*words, **_AS_IT_IS))
        except exceptions.RedisError as error:
            return _as_reply(error)

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """The replies to many scripts, in one pipeline."""
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for verb, name, arguments in calls:
                    pipeline.execute_command(*verb.words(name, arguments))
                return [_as_bytes(reply) for reply in pipeline.execute(raise_on_error=False)]
        except exceptions.RedisError as error:
            return [_as_reply(error)] * len(calls)


def _as_bytes(reply: Any) -> Reply:
    """The reply as our own connections give it, whatever ``decode_responses`` is set to."""
    if isinstance(reply, str):
        return reply.encode()
    if isinstance(reply, list | tuple):  # redis-py makes a tuple of what SCAN answers
        return [_as_bytes(item) for item in cast("Sequence[Any]", reply)]
    if isinstance(reply, exceptions.RedisError):
        return _as_reply(reply)
    return reply


def _as_reply(error: exceptions.RedisError) -> StoreError | codec.ReplyError:
    """A driver's exception as the reply it stands for, or as the error that it is."""
    if isinstance(error, exceptions.AuthenticationError):
        return error_mapping.from_reply(f"WRONGPASS {error}", error)
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return error_mapping.silent(f"redis-py got no answer: {error}", error)
    code = _CODES.get(type(error)) if isinstance(error, exceptions.ResponseError) else None
    reply = codec.ReplyError(f"{code} {error}" if code else str(error))
    reply.__cause__ = error
    return reply
