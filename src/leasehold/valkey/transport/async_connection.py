"""One multiplexed asyncio connection, from its opening until it breaks.

Every command of one turn of the event loop leaves in one write; replies are matched to requests in order;
pushes come out of band. No caller owns the connection while it waits: one that is cancelled or times out
leaves its slot in the queue, and the reply that arrives for it is dropped.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, cast

from leasehold.errors import InvalidRequest
from leasehold.valkey.transport import codec, error_mapping
from leasehold.valkey.transport.server_clock import ServerClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from leasehold.valkey.commands import Command
    from leasehold.valkey.transport.handshake import ServerFacts
    from leasehold.valkey.transport.protocols import Call, Reply, Word

# Unsent bytes from which on callers have to wait. A turn of a thousand tasks is a quarter of it.
_HIGH_WATER = 1 << 20
_MARKER = b"leasehold"


class _Slot(Protocol):
    """The destination of a reply. Futures are slots."""

    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: Any, /) -> None: ...


class AsyncConnection(asyncio.Protocol):
    """Implements `leasehold.valkey.transport.protocols.Connection`."""

    def __init__(
        self,
        name: str,
        *,
        timeout: float,
        clock: Callable[[], float],
        on_push: Callable[[Reply], None],
        on_lost: Callable[[AsyncConnection], None],
    ) -> None:
        self.floor: int | None = None
        self.deletes_if_equal = False
        self.may_ask_twice = False
        self.name = name
        self._timeout = timeout
        self._clock = clock
        self._on_push = on_push
        self.on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._new_future = self._loop.create_future
        self._transport: asyncio.Transport | None = None
        self._reader = codec.new_reader()
        self._unsent: list[bytes] = []
        self._pending: deque[_Slot] = deque()
        # One entry per turn of the loop: how many requests there had been by its end, and its deadline.
        self._turns: deque[tuple[int, float]] = deque()
        self._answered = 0
        self._writable_again: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._received_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._lost_because: tuple[str, BaseException | None] | None = None
        self.server_clock = ServerClock(clock)
        self._turn_ms = 0

    def set_server_facts(self, facts: ServerFacts) -> None:
        """Use the server's clock, as read just now."""
        self.floor = facts.floor
        self.deletes_if_equal = facts.deletes_if_equal
        self.server_clock.read(facts.time_us / 1000)

    def now_ms(self) -> int:
        """The server's clock, approximately; the same for all requests of one turn."""
        if not self._unsent:
            self._turn_ms = int((self.server_clock.offset + self._clock()) * 1000)
        return self._turn_ms

    def run(self, command: Command, name: str, arguments: tuple[Word, ...]) -> Awaitable[Reply]:
        """The reply to one command on a lock."""
        if self._writable_again is not None or self._lost_because is not None:
            return self._request(command.pack(name, arguments))
        # The same as `_request`, written out: every lock passes here twice.
        unsent = self._unsent
        if not unsent:
            self._begin_turn()
        unsent.append(command.pack(name, arguments))
        future: asyncio.Future[Reply] = self._new_future()
        self._pending.append(future)
        return future

    async def run_many(self, calls: Sequence[Call]) -> Sequence[Reply]:
        """The replies to many commands on locks, sent in one piece."""
        return await self.request_many([call.command.pack(call.name, call.arguments) for call in calls])

    def call(self, *words: Word) -> Awaitable[Reply]:
        """The reply to any other command."""
        return self._request(codec.pack(words))

    async def call_many(self, commands: Sequence[tuple[Word, ...]]) -> Sequence[Reply]:
        """The replies to many other commands, sent in one piece."""
        return await self.request_many([codec.pack(words) for words in commands])

    async def subscribe(self, channel: str) -> BaseException | None:
        """Subscribe to ``channel``; returns the server's refusal, if it refuses.

        A subscription is confirmed out of band, by a push, and refused in band, by an error. The reply to
        a command behind it shows which it was, and so whether to expect one or two replies.
        """
        await self.wait_until_writable()
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._send(codec.pack(("SUBSCRIBE", channel)), _SubscribeSlot(self._skip_reply, future))
        self._send(codec.pack(("PING", _MARKER)), _UnusedSlot())
        reply = await future
        if reply == _MARKER:
            return None
        if not isinstance(reply, Exception):
            raise error_mapping.no_reply(f"{self.name} sent an unexpected reply")
        return reply

    def _skip_reply(self) -> None:
        """Drop the next slot: its reply has arrived already."""
        self._pending.popleft()
        self._answered += 1

    @property
    def is_lost(self) -> bool:
        """The connection has broken."""
        return self._lost_because is not None

    def close(self, reason: str) -> None:
        """Break the connection now. Pending requests fail: their outcome is unknown."""
        self._break(f"{self.name}: {reason}")

    def detach(self) -> None:
        """In a forked child: drop the parent's connection without sending anything on it."""
        self._lost_because = ("the connection belongs to the parent process", None)
        self._pending.clear()
        self._unsent.clear()
        socket = None if self._transport is None else self._transport.get_extra_info("socket")
        if socket is not None:
            # The descriptor keeps its number, because the event loop's objects still refer to it, but not the
            # connection: otherwise the server would not notice the end of the parent.
            devnull = os.open(os.devnull, os.O_RDWR)
            os.dup2(devnull, socket.fileno())
            os.close(devnull)
        self._transport = None

    # Callbacks of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the asyncio transport."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER)

    def data_received(self, data: bytes) -> None:
        """Give every complete reply to the first pending slot."""
        self._received_at = self._loop.time()
        gets, pending, nothing, push = self._reader.gets, self._pending, codec.NOTHING, codec.Push
        next_slot, answered = pending.popleft, 0
        try:
            self._reader.feed(data)
            while (reply := gets()) is not nothing:
                if type(reply) is push:
                    self._on_push(reply)
                elif pending:
                    slot = next_slot()
                    answered += 1
                    if not slot.done():
                        slot.set_result(reply)
                else:
                    raise codec.ProtocolError("a reply without a request")
        except codec.ProtocolError as error:
            self._break(f"{self.name} does not speak the Redis protocol: {error}", error)
        self._count_answered(answered)

    def _count_answered(self, answered: int) -> None:
        self._answered += answered
        turns = self._turns
        while turns and turns[0][0] <= self._answered:
            turns.popleft()

    def eof_received(self) -> None:
        """Close, as the server has."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail every pending request."""
        self._break(f"the connection to {self.name} was lost", exc or EOFError("closed by the server"))

    def pause_writing(self) -> None:
        """Make callers wait: the server reads more slowly than we write."""
        if self._writable_again is None:
            self._writable_again = self._loop.create_future()

    def resume_writing(self) -> None:
        """Let callers continue."""
        if self._writable_again is not None:
            self._writable_again.set_result(None)
            self._writable_again = None

    # Requests, turns and deadlines

    def _request(self, packed: bytes) -> Awaitable[Reply]:
        if self._writable_again is not None:
            return self._request_when_writable(packed)
        future: asyncio.Future[Reply] = self._loop.create_future()
        self._send(packed, future)
        return future

    def _send(self, packed: bytes, slot: _Slot) -> None:
        if self._lost_because is not None:
            slot.set_exception(error_mapping.no_reply(*self._lost_because))
            return
        if not self._unsent:
            self._begin_turn()
        self._unsent.append(packed)
        self._pending.append(slot)

    def _begin_turn(self) -> None:
        """Start a turn: its requests are written together and have one deadline."""
        if asyncio.get_running_loop() is not self._loop:
            raise InvalidRequest("this client belongs to another event loop; make one for each loop")
        self._loop.call_soon(self._flush)
        self._deadline = self._loop.time() + self._timeout
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._check_deadlines)

    def _flush(self) -> None:
        if self._unsent and self._transport is not None:
            self._turns.append((self._answered + len(self._pending), self._deadline))
            self._transport.write(b"".join(self._unsent))
            self._unsent.clear()

    async def _request_when_writable(self, packed: bytes) -> Reply:
        await self.wait_until_writable()
        return await self._request(packed)

    async def request_many(self, commands: Sequence[bytes]) -> Sequence[Reply]:
        """The replies to packed commands, sent in one piece; a missing one is a `StoreUnavailable`."""
        await self.wait_until_writable()
        batch = _Batch(self._loop.create_future(), len(commands))
        for index, packed in enumerate(commands):
            self._send(packed, _BatchSlot(batch, index))
        return await batch.future

    async def wait_until_writable(self) -> None:
        """Return when the server reads what is sent; `StoreUnavailable` if it does not within the timeout."""
        if self._writable_again is not None:
            done, _ = await asyncio.wait({self._writable_again}, timeout=self._timeout)
            if not done:
                raise error_mapping.no_reply(
                    f"{self.name} has not read what was sent for {self._timeout:g} s"
                )

    def _check_deadlines(self) -> None:
        """Fail requests that are overdue.

        While the server answers others, an overdue request keeps its slot, and its late reply is dropped.
        If the server has sent nothing at all since the request, the connection is broken.
        """
        self._timer = None
        now = self._loop.time()
        overdue = f"no answer from {self.name} within {self._timeout:g} s"
        for last, deadline in self._turns:
            if deadline > now:
                self._timer = self._loop.call_at(deadline, self._check_deadlines)
                return
            if self._received_at < deadline - self._timeout:
                self._break(overdue, TimeoutError(overdue))
                return
            for slot in islice(self._pending, last - self._answered):
                if not slot.done():
                    slot.set_exception(error_mapping.no_reply(overdue, TimeoutError(overdue)))
        if self._unsent:
            # uvloop runs timers first, so this may run between the beginning of a turn and its end.
            self._timer = self._loop.call_at(self._deadline, self._check_deadlines)

    def _break(self, why: str, cause: BaseException | None = None) -> None:
        if self._lost_because is not None:
            return
        self._lost_because = (why, cause)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._unsent.clear()
        while self._pending:
            slot = self._pending.popleft()
            if not slot.done():
                slot.set_exception(error_mapping.no_reply(why, cause))
        self.resume_writing()
        self.on_lost(self)


class _UnusedSlot:
    """The slot of a reply that has no caller. Of a future, asyncio would log that its exception was never retrieved."""

    __slots__ = ()

    def done(self) -> bool:
        return True

    def set_result(self, result: Reply, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class _SubscribeSlot:
    """The slot of a subscription: if that was confirmed, the reply that comes here belongs to the next slot."""

    __slots__ = ("_future", "_skip_reply")

    def __init__(self, skip_reply: Callable[[], None], future: asyncio.Future[Reply]) -> None:
        self._skip_reply = skip_reply
        self._future = future

    def done(self) -> bool:
        return False  # the queue must stay in order even if the caller no longer waits

    def set_result(self, result: Reply, /) -> None:
        if result == _MARKER:
            self._skip_reply()
        if not self._future.done():
            self._future.set_result(result)

    def set_exception(self, exception: BaseException, /) -> None:
        if not self._future.done():
            self._future.set_exception(exception)


class _Batch:
    """The replies to a batch, and a future for when they are complete."""

    __slots__ = ("future", "left", "replies")

    def __init__(self, future: asyncio.Future[list[Reply]], size: int) -> None:
        self.future = future
        self.left = size
        self.replies: list[Reply] = [None] * size
        if not size:
            future.set_result(self.replies)


class _BatchSlot:
    """One slot of a batch. Lighter than a future: a batch is awaited as a whole."""

    __slots__ = ("_batch", "_index", "_is_done")

    def __init__(self, batch: _Batch, index: int) -> None:
        self._batch = batch
        self._index = index
        self._is_done = False

    def done(self) -> bool:
        return self._is_done

    def set_result(self, result: Reply, /) -> None:
        self._is_done = True
        batch = self._batch
        batch.replies[self._index] = result
        batch.left -= 1
        if not batch.left and not batch.future.done():
            batch.future.set_result(batch.replies)

    set_exception = set_result
