"""The limit of a hand-over: release passes the lock to the next in a list and notifies it, over bare hiredis.

No checks, no fence, no handling of dead waiters.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from urllib.parse import urlsplit

import hiredis

from bench import limit
from bench.hand_over.holds import Hold, Schedule

ASK = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) then return 1 end
redis.call('RPUSH', KEYS[2], ARGV[1])
return 0
"""
PASS_ON = """
local next = redis.call('LPOP', KEYS[2])
if not next then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], next, 'PX', 30000)
return redis.call('PUBLISH', string.match(next, '^[^/]+'), next)
"""
KEYS = "2", "{deal:1}", "{deal:1}:queue"


TakeTurns = Callable[[int, Schedule], Awaitable[list[Hold]]]


class PushConnection(limit.LimitConnection):
    """Also receives the messages published to its channel."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        super().__init__()
        self._hear = hear

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not False:
            if not isinstance(reply, hiredis.PushNotification):
                self._awaited.popleft().set_result(reply)
            elif reply[0] == b"message":
                self._hear(reply[2])

    async def subscribe(self, channel: str) -> None:
        hello = self.request("HELLO", "3")
        # In the same write, but not a request: its reply is a push.
        self._outgoing.append(hiredis.pack_command(("SUBSCRIBE", channel)))
        await hello


@asynccontextmanager
async def opening(url: str) -> AsyncIterator[TakeTurns]:
    """Connect, and yield the loop of one waiter."""
    address = urlsplit(url)
    loop = asyncio.get_running_loop()
    channel = f"process-{os.getpid()}"
    granted: dict[bytes, asyncio.Future[None]] = {}

    def hear(waiter: bytes) -> None:
        granted[waiter].set_result(None)

    _, connection = await loop.create_connection(lambda: PushConnection(hear), address.hostname, address.port)
    await connection.subscribe(channel)
    ask, pass_on = [await connection.request("SCRIPT", "LOAD", script) for script in (ASK, PASS_ON)]

    async def take_turns(waiter: int, schedule: Schedule) -> list[Hold]:
        holds: list[Hold] = []
        name = f"{channel}/{waiter}".encode()
        while monotonic() < schedule.ends_at:
            grant = granted[name] = loop.create_future()
            if await connection.request("EVALSHA", ask, *KEYS, name) == 0:
                await grant
            acquired_at = monotonic()
            await asyncio.sleep(0)
            releases_at = monotonic()
            await connection.request("EVALSHA", pass_on, *KEYS)
            holds.append(Hold(waiter, acquired_at, releases_at, acquired_at))
        return holds

    try:
        yield take_turns
    finally:
        connection.close()
