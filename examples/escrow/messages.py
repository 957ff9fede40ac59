"""Commands between processes: a stream with a consumer group. Each is delivered at least once, to any worker."""

from __future__ import annotations

import json
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis.asyncio
from redis.exceptions import ResponseError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GROUP = "workers"
CLAIM_AFTER_MS = 3000
"""A message that is unacknowledged for this long is delivered to another worker."""


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    body: dict[str, str]

    @property
    def kind(self) -> str:
        return self.body.get("kind", "")

    @property
    def fields(self) -> dict[str, Any]:
        """The arguments of the command. Parsed on use, so that a malformed message fails alone."""
        return json.loads(self.body["fields"])


class Queue:
    def __init__(self, client: redis.asyncio.Redis, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._aside = f"{stream}:aside"
        self._claim_at = 0.0

    async def prepare(self) -> None:
        try:
            await self._client.xgroup_create(self._stream, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise

    async def publish(self, kind: str, fields: dict[str, Any]) -> None:
        await self._client.xadd(self._stream, {"kind": kind, "fields": json.dumps(fields)})

    async def receive(self, consumer: str, *, wait: float = 0.2) -> list[Message]:
        """The next message or, at intervals, one that its receiver has not acknowledged; empty if there is none."""
        if time.monotonic() >= self._claim_at:
            reply = await self._client.xautoclaim(
                self._stream, GROUP, consumer, min_idle_time=CLAIM_AFTER_MS, count=1
            )
            if claimed := _read(reply[1]):
                return claimed
            self._claim_at = time.monotonic() + 0.5
        replies = await self._client.xreadgroup(
            GROUP, consumer, {self._stream: ">"}, count=1, block=int(wait * 1000)
        )
        return [message for _, entries in replies or () for message in _read(entries)]

    async def acknowledge(self, message: Message) -> None:
        await self._client.xack(self._stream, GROUP, message.id)

    async def put_aside(self, message: Message, why: str) -> None:
        """Acknowledge a message that cannot be processed, and keep it in a stream for inspection."""
        async with self._client.pipeline(transaction=True) as both:
            both.xadd(self._aside, {**message.body, "id": message.id, "why": why})
            both.xack(self._stream, GROUP, message.id)
            await both.execute()

    async def count_aside(self) -> int:
        return await self._client.xlen(self._aside)

    async def backlog(self) -> int:
        """The number of messages that are not acknowledged, delivered or not."""
        groups = await self._client.xinfo_groups(self._stream)
        return sum(int(group["pending"]) + int(group["lag"] or 0) for group in groups)

    async def remove(self) -> None:
        await self._client.delete(self._stream, self._aside)


def _read(entries: Any) -> list[Message]:
    return [Message(ident, body) for ident, body in entries]


@asynccontextmanager
async def open_queue(store_url: str, namespace: str) -> AsyncIterator[Queue]:
    client = redis.asyncio.from_url(store_url, decode_responses=True, protocol=2)
    try:
        queue = Queue(client, f"{namespace}:escrow:commands")
        await queue.prepare()
        yield queue
    finally:
        await client.aclose()
