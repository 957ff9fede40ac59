"""Wires over somebody else's redis-py client.

Its reconnects cannot be seen from here, so the scripts read the server's clock on every grant. Its retries
do no harm: asking again with the same token gets the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import hiredis
from redis import exceptions

from leasehold.valkey import faults

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis
    import redis.asyncio

    from leasehold.errors import StoreError
    from leasehold.valkey.wire import Reply, Word

# redis-py takes the code off these messages; the store wants it back.
_CODES: dict[type[exceptions.ResponseError], str] = {
    exceptions.NoScriptError: "NOSCRIPT",
    exceptions.ReadOnlyError: "READONLY",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.NoPermissionError: "NOPERM",
}


class _Borrowed:
    """What both kinds have in common: no handshake of ours, so nothing is known about the server."""

    facts = None
    floor = None

    def now_ms(self) -> str:
        """Unknown."""
        return ""

    async def close(self) -> None:
        """Leave the client open: it belongs to somebody else."""

    def after_fork(self) -> None:
        """Leave that to redis-py, which does it."""


class AsyncBorrowed(_Borrowed):
    """Implements `Wire` and `Session` over a ``redis.asyncio.Redis``."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client: Any = client  # redis-py's own types are partly unknown

    @property
    def session(self) -> AsyncBorrowed:
        """Always at hand."""
        return self

    async def open_session(self) -> AsyncBorrowed:
        """Always open."""
        return self

    async def call(self, words: Sequence[Word]) -> Reply:
        """The reply to one command."""
        try:
            return _as_bytes(await self._client.execute_command(*words))
        except exceptions.RedisError as error:
            return _as_reply(error)

    async def call_many(self, commands: Sequence[Sequence[Word]]) -> Sequence[Reply]:
        """The replies to many commands, in one pipeline."""
        try:
            async with self._client.pipeline(transaction=False) as pipeline:
                for words in commands:
                    pipeline.execute_command(*words)
                return [_as_bytes(reply) for reply in await pipeline.execute(raise_on_error=False)]
        except exceptions.RedisError as error:
            return [_as_reply(error)] * len(commands)


class BlockingBorrowed(_Borrowed):
    """Implements `Wire` and `Session` over a ``redis.Redis``."""

    def __init__(self, client: redis.Redis) -> None:
        self._client: Any = client  # redis-py's own types are partly unknown

    @property
    def session(self) -> BlockingBorrowed:
        """Always at hand."""
        return self

    async def open_session(self) -> BlockingBorrowed:
        """Always open."""
        return self

    async def call(self, words: Sequence[Word]) -> Reply:
        """The reply to one command."""
        try:
            return _as_bytes(self._client.execute_command(*words))
        except exceptions.RedisError as error:
            return _as_reply(error)

    async def call_many(self, commands: Sequence[Sequence[Word]]) -> Sequence[Reply]:
        """The replies to many commands, in one pipeline."""
        try:
            with self._client.pipeline(transaction=False) as pipeline:
                for words in commands:
                    pipeline.execute_command(*words)
                return [_as_bytes(reply) for reply in pipeline.execute(raise_on_error=False)]
        except exceptions.RedisError as error:
            return [_as_reply(error)] * len(commands)


def _as_bytes(reply: Any) -> Reply:
    """The reply as our own connections give it, whatever ``decode_responses`` is set to."""
    if isinstance(reply, str):
        return reply.encode()
    if isinstance(reply, list):
        return [_as_bytes(item) for item in cast("list[Any]", reply)]
    if isinstance(reply, exceptions.RedisError):
        return _as_reply(reply)
    return reply


def _as_reply(error: exceptions.RedisError) -> StoreError | hiredis.ReplyError:
    """A driver's exception as the reply it stands for, or as the error that it is."""
    if isinstance(error, exceptions.AuthenticationError):
        return faults.from_reply(f"WRONGPASS {error}", error)
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return faults.silent(f"redis-py got no answer: {error}", error)
    code = _CODES.get(type(error)) if isinstance(error, exceptions.ResponseError) else None
    reply = hiredis.ReplyError(f"{code} {error}" if code else str(error))
    reply.__cause__ = error
    return reply
