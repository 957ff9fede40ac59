"""The brokers that deliver again, each with its own way of saying so."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any

import nats
from faststream import BaseMiddleware
from faststream.nats import JStream, NatsBroker
from faststream.rabbit import RabbitBroker, RabbitQueue
from faststream.redis import RedisBroker, StreamSub

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers import Server

    from leasehold.operations.faststream import LockMiddleware


class Wire:
    """A broker with one handler under a `LockMiddleware`, and how many messages it has not done with."""

    def __init__(self) -> None:
        self.place = f"lh-{secrets.token_hex(4)}"
        self.broker: Any = None
        self.settled: set[str] = set()
        """The messages that are acknowledged now or next, each by its correlation id: the message id of Redis is another one
        with each delivery."""

    @property
    def settling(self) -> type[BaseMiddleware]:
        """The outermost middleware, which sees how each message ends."""
        settled = self.settled

        class Settling(BaseMiddleware):
            async def consume_scope(self, call_next: Any, msg: Any) -> Any:
                result = await call_next(msg)
                settled.add(msg.correlation_id)
                return result

        return Settling

    def build(self, middleware: LockMiddleware, handler: Callable[..., Any]) -> None:
        raise NotImplementedError

    async def publish(self, body: Any) -> None:
        raise NotImplementedError

    async def left(self) -> int:
        """Messages not acknowledged; of RabbitMQ's, those under way are counted only when the broker has been stopped."""
        raise NotImplementedError


class RedisWire(Wire):
    """Redis Streams: one subscriber for what is new, one that claims what was given back."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def build(self, middleware: LockMiddleware, handler: Callable[..., Any]) -> None:
        self.broker = RedisBroker(self._server.url, middlewares=[self.settling, middleware], logger=None)
        fresh = StreamSub(self.place, group="workers", consumer="a", polling_interval=20)
        again = StreamSub(self.place, group="workers", consumer="b", polling_interval=20, min_idle_time=300)
        self.broker.subscriber(stream=again)(self.broker.subscriber(stream=fresh)(handler))

    async def publish(self, body: Any) -> None:
        await self.broker.publish(body, stream=self.place)

    async def left(self) -> int:
        return await asyncio.to_thread(self._left)

    def _left(self) -> int:
        with self._server.admin() as client:
            (group,) = client.xinfo_groups(self.place)
        return group["pending"] + group["lag"]


class RabbitWire(Wire):
    """RabbitMQ: a nack puts the message back into the queue."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def build(self, middleware: LockMiddleware, handler: Callable[..., Any]) -> None:
        self.broker = RabbitBroker(self._url, middlewares=[self.settling, middleware], logger=None)
        self.broker.subscriber(RabbitQueue(self.place))(handler)

    async def publish(self, body: Any) -> None:
        await self.broker.publish(body, queue=self.place)

    async def left(self) -> int:
        async with RabbitBroker(self._url, logger=None) as looking:
            queue = await looking.declare_queue(RabbitQueue(self.place))
            return queue.declaration_result.message_count or 0


class NatsWire(Wire):
    """NATS JetStream: the server waits before it delivers again."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def build(self, middleware: LockMiddleware, handler: Callable[..., Any]) -> None:
        self.broker = NatsBroker(self._url, middlewares=[self.settling, middleware], logger=None)
        stream = JStream(f"S{self.place}")
        pulling = self.broker.subscriber(self.place, stream=stream, durable="workers", pull_sub=True)
        pulling(handler)

    async def publish(self, body: Any) -> None:
        await self.broker.publish(body, self.place, stream=f"S{self.place}")

    async def left(self) -> int:
        client = await nats.connect(self._url)
        try:
            info = await client.jetstream().consumer_info(f"S{self.place}", "workers")
            return (info.num_ack_pending or 0) + (info.num_pending or 0)
        finally:
            await client.close()
