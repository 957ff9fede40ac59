"""Setups of the brokers that redeliver messages: Redis Streams, RabbitMQ, NATS JetStream."""

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


class BrokerSetup:
    """A broker with one handler under a `LockMiddleware`, and the number of messages it has left."""

    def __init__(self) -> None:
        self.place = f"lh-{secrets.token_hex(4)}"
        self.broker: Any = None
        self.acknowledged: set[str] = set()
        """The messages whose handler has finished, so that they are acknowledged now or next. By their correlation ids, because
        Redis has another message id with each delivery."""

    @property
    def record_acknowledged(self) -> type[BaseMiddleware]:
        """The outermost middleware, which sees the end of each message."""
        acknowledged = self.acknowledged

        class RecordAcknowledged(BaseMiddleware):
            async def consume_scope(self, call_next: Any, msg: Any) -> Any:
                result = await call_next(msg)
                acknowledged.add(msg.correlation_id)
                return result

        return RecordAcknowledged

    def build(self, middleware: LockMiddleware, handler: Callable[..., Any]) -> None:
        raise NotImplementedError

    async def publish(self, body: Any) -> None:
        raise NotImplementedError

    async def left(self) -> int:
        """The unacknowledged messages; RabbitMQ counts those in progress only after the broker has been stopped."""
        raise NotImplementedError


class RedisSetup(BrokerSetup):
    """Redis Streams: one subscriber for new messages, one that claims returned ones."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def build(self, middleware: LockMiddleware, handler: Callable[..., Any]) -> None:
        self.broker = RedisBroker(
            self._server.url, middlewares=[self.record_acknowledged, middleware], logger=None
        )
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


class RabbitSetup(BrokerSetup):
    """RabbitMQ: a nack puts the message back into the queue."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def build(self, middleware: LockMiddleware, handler: Callable[..., Any]) -> None:
        self.broker = RabbitBroker(self._url, middlewares=[self.record_acknowledged, middleware], logger=None)
        self.broker.subscriber(RabbitQueue(self.place))(handler)

    async def publish(self, body: Any) -> None:
        await self.broker.publish(body, queue=self.place)

    async def left(self) -> int:
        async with RabbitBroker(self._url, logger=None) as looking:
            queue = await looking.declare_queue(RabbitQueue(self.place))
            return queue.declaration_result.message_count or 0


class NatsSetup(BrokerSetup):
    """NATS JetStream: the server waits before it redelivers."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    def build(self, middleware: LockMiddleware, handler: Callable[..., Any]) -> None:
        self.broker = NatsBroker(self._url, middlewares=[self.record_acknowledged, middleware], logger=None)
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
