"""A model of the store: what the Lua scripts promise, in plain Python, with time from outside.

`ModelStore` is the server; each client talks to it through a `ModelClientStore` of its own, which implements
`leasehold.core.ports.Store`. `test_model_is_the_store` holds both against real servers.
"""

from __future__ import annotations

import fnmatch
import json
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from tests.simulation.model_lock import NEVER_MS, ModelLock, Observer, Party, milliseconds

from leasehold.core.replies import DONE, Busy, Ended, Hold, LockInfo, QueueState, Refusal, TooLate
from leasehold.valkey.transport.server_clock import ServerClock

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from tests.simulation.model_lock import Lease

    from leasehold.core.replies import (
        Done,
        Grant,
        LeaseKey,
        LockWaiters,
        Mode,
        NotAfter,
        Notification,
        ReleaseReply,
        Renewal,
        RenewReply,
        Request,
    )


class ModelStore:
    """The server: locks by name, and the subscriber of each channel. Each verb is one atomic step."""

    make_lock = ModelLock

    def __init__(self, now: Callable[[], float], *, observer: Observer | None = None) -> None:
        self._now = now
        self._observer = observer or Observer()
        self._locks: dict[str, ModelLock] = {}
        self._listeners: dict[str, Callable[[Notification], None]] = {}
        self._next_channel = count(1).__next__

    def connect(self, *, live: float, clock: Callable[[], float] | None = None) -> ModelClientStore:
        """The store as one client sees it; it counts as alive for ``live`` seconds after each look.

        ``clock`` is the client's own, if that is another one.
        """
        return ModelClientStore(self, f"{self._next_channel():016x}", live=live, clock=clock or self._now)

    def step_clock(self, step: Callable[[], None]) -> None:
        """Sets the clock by ``step``, and reports the new ends of leases and waits to the observer."""
        for name in self._locks:
            self.lock(name)
        step()
        # As they are: `lock` would drop what has just ended.
        for lock in self._locks.values():
            lock.report_times()

    def check_in_time(self, not_after_ms: int) -> None:
        """Refuse what comes after its not-after."""
        now_ms = self.now_us() // 1000
        if now_ms > not_after_ms:
            raise TooLate(now_ms)

    def now_us(self) -> int:
        return int(self._now() * 1_000_000)

    def subscribe(self, channel: str, tell: Callable[[Notification], None]) -> None:
        self._listeners[channel] = tell

    def publish(self, channel: str, notification: Notification) -> None:
        """Sends ``notification`` to the one subscriber of the channel."""
        if tell := self._listeners.get(channel):
            tell(notification)

    def lock(self, name: str) -> ModelLock:
        """The lock as it is now."""
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = self.make_lock(name, self.now_us, self.publish, self._observer)
        lock.turn_to_now()
        return lock

    def acquire(self, name: str, party: Party, wait_ms: int, live_ms: int) -> tuple[Lease, bool] | Busy:
        """The lease, and whether the lock was free; or the holder that blocks it."""
        lock = self.lock(name)
        if party.mode == "exclusive" and not lock.has_record:
            return lock.grant_plainly(party), True
        if lease := lock.lease_of(party.token):
            return (lease if lease.is_claimed else lock.extend(lease, party.ttl_ms)), False
        if not wait_ms and lock.has_record and lock.is_plain:
            return self._busy(lock, party.token)
        lock.join(party, live_ms)
        lock.settle(party.token, party.channel)
        if lease := lock.lease_of(party.token):
            return lease, False
        if wait_ms:
            lock.guard_queue()
        else:
            lock.leave_queue(party.token, "left")
        return self._busy(lock, party.token)

    def acquire_all(self, asks: Sequence[tuple[str, Party]]) -> list[Lease] | str:
        """A lease on each, or the name of the first lock that is not free.

        A record that has outlived its lease blocks too; an acquire of that lock alone ends it.
        """
        locks = [(self.lock(name), party) for name, party in asks]
        for lock, party in locks:
            if lock.has_record and not (lock.writer and lock.writer.token == party.token):
                return lock.name
        return [lock.writer or lock.grant_plainly(party) for lock, party in locks]

    def look(self, line: LockWaiters, channel: str, live_ms: int) -> QueueState:
        lock = self.lock(line.name)
        if lock.queue:
            lock.mark_alive(channel, live_ms)
            lock.guard_queue()
            lock.settle(heard=channel)
        places = [lock.position_of(token) or self._grant_of(lock, token) for token in line.tokens]
        left_ms = max((lock.left_of(lease) for lease in lock.holders()), default=0)
        return QueueState(lock.now_ms / 1000, left_ms / 1000, places)

    def renew(self, name: str, token: str, fence: int, ttl_ms: int) -> RenewReply:
        lock = self.lock(name)
        if (lease := lock.lease_of(token)) and lease.fence == fence:
            lock.extend(lease, max(ttl_ms, lock.left_of(lease)))
            return DONE
        return self._how_it_ended(lock, fence)

    def shorten(self, name: str, token: str, fence: int, ttl_ms: int) -> Done | Ended:
        lock = self.lock(name)
        if (lease := lock.lease_of(token)) and lease.fence == fence:
            lock.extend(lease, ttl_ms)
            return DONE
        return self._how_it_ended(lock, fence)

    def check(self, name: str, token: str, fence: int) -> RenewReply:
        lock = self.lock(name)
        if (lease := lock.lease_of(token)) and lease.fence == fence:
            return DONE
        return self._how_it_ended(lock, fence)

    def release(self, name: str, token: str, fence: int) -> ReleaseReply:
        lock = self.lock(name)
        return DONE if lock.leave(token) else self._how_it_ended(lock, fence)

    def take(self, name: str, party: Party, expect_fence: int | None) -> Lease | Refusal:
        lock = self.lock(name)
        if lease := lock.lease_of(party.token):
            return lease
        held = lock.holders()
        # Among readers the latest represents all: a reader that came after the caller looked must change the answer.
        held_fence = max((lease.fence for lease in held), default=0)
        if expect_fence is not None and expect_fence != held_fence:
            return Refusal(held_fence, json.loads(held[0].party.holder) if held else None)
        counts_until_ms = lock.take_from_all()
        lock.hand_over(party, is_asker=True)
        if held:
            lock.remember_take(counts_until_ms)
        lock.settle()
        lease = lock.lease_of(party.token)
        assert lease is not None
        return lease

    def inspect(self, name: str) -> LockInfo:
        lock = self.lock(name)
        waiters = sum(lock.is_alive(waiter) for waiter in lock.queue.values())
        held = lock.holders()
        if not held:
            return LockInfo(name, None, lock.fence or None, (), waiters)
        holds = tuple(
            Hold(
                json.loads(lease.party.holder),
                lease.since_ms / 1000,
                lock.left_of(lease) / 1000,
                lease.fence,
            )
            for lease in held
        )
        return LockInfo(name, held[0].party.mode, max(hold.fence for hold in holds), holds, waiters)

    def page(self, pattern: str) -> list[LockInfo]:
        names = [
            name for name in self._locks if fnmatch.fnmatchcase(name, pattern) and self.lock(name).has_record
        ]
        return [info for info in map(self.inspect, names) if info.is_held or info.waiters]

    def _busy(self, lock: ModelLock, token: str) -> Busy:
        held = lock.holders()
        # Of several readers the one with the latest deadline.
        shown = held[-1] if held else None
        return Busy(
            shown and json.loads(shown.party.holder),
            max((lock.left_of(lease) for lease in held), default=0) / 1000,
            shown and shown.since_ms / 1000,
            shown and shown.party.mode,
            len(lock.queue),
            lock.position_of(token),
            lock.now_ms / 1000,
        )

    def _grant_of(self, lock: ModelLock, token: str) -> Grant | None:
        lease = lock.lease_of(token)
        return lease and (lease.fence, lock.left_of(lease) / 1000, None)

    def _how_it_ended(self, lock: ModelLock, fence: int) -> Ended:
        return Ended.TAKEN if lock.taken_by > fence else Ended.EXPIRED


class ModelClientStore:
    """Implements the port Store for one client of a `ModelStore`. Never suspends."""

    keeps_order = True

    def __init__(self, model: ModelStore, channel: str, *, live: float, clock: Callable[[], float]) -> None:
        self._model = model
        self.server_clock = ServerClock(clock)
        self.server_clock.read(model.now_us() / 1000)
        self.channel = channel
        self._live_ms = milliseconds(live)
        # As on a connection: the server's clock at its start.
        self._floor = model.now_us()

    def part_of(self, name: str) -> object:
        return None

    def listen(self, tell: Callable[[Notification], None], on_gap: Callable[[], None]) -> None:
        self._model.subscribe(self.channel, tell)

    async def open(self) -> None:
        """The model can always be reached."""

    async def acquire(
        self,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: Mode,
        wait: float | None,
    ) -> Grant | Busy:
        wait_ms = NEVER_MS if wait is None else milliseconds(wait)
        party = self._party(token, ticket, ttl, floor, holder, mode, self._model.now_us() // 1000 + wait_ms)
        answer = self._model.acquire(name, party, wait_ms, self._live_ms)
        if isinstance(answer, Busy):
            return answer
        lease, is_plain = answer
        return (lease.fence, ttl, token) if is_plain else (lease.fence, self._left(name, lease), None)

    async def acquire_all(self, asks: Sequence[Request], not_after: NotAfter) -> Sequence[Grant] | str:
        with self._reading_clock():
            return await self.acquire_all_by(self.server_clock.to_ms(not_after.at), asks)

    async def acquire_all_by(self, not_after_ms: int, asks: Sequence[Request]) -> Sequence[Grant] | str:
        """The same, with the not-after of the request as it was sent. So are `shorten_by` and `take_by`."""
        self._model.check_in_time(not_after_ms)
        parties = [
            (ask.name, self._party(ask.token, ask.ticket, ask.ttl, ask.floor, ask.holder, "exclusive"))
            for ask in asks
        ]
        answer = self._model.acquire_all(parties)
        if isinstance(answer, str):
            return answer
        return [
            (lease.fence, self._left(ask.name, lease), ask.token)
            for ask, lease in zip(asks, answer, strict=True)
        ]

    async def look(self, lines: Sequence[LockWaiters]) -> Sequence[QueueState]:
        return [self._model.look(line, self.channel, self._live_ms) for line in lines]

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[RenewReply]:
        return [
            self._model.renew(renewal.name, renewal.token, renewal.fence, milliseconds(renewal.ttl))
            for renewal in renewals
        ]

    async def shorten(self, renewal: Renewal, not_after: NotAfter) -> Done | Ended:
        with self._reading_clock():
            return await self.shorten_by(self.server_clock.to_ms(not_after.at), renewal)

    async def shorten_by(self, not_after_ms: int, renewal: Renewal) -> Done | Ended:
        self._model.check_in_time(not_after_ms)
        return self._model.shorten(renewal.name, renewal.token, renewal.fence, milliseconds(renewal.ttl))

    async def check(self, leases: Sequence[LeaseKey]) -> Sequence[RenewReply]:
        return [self._model.check(*lease) for lease in leases]

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> ReleaseReply:
        # The receipt is an optimization of the real store, which does not change the reply.
        return self._model.release(name, token, fence)

    async def take(
        self,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: Mode,
        expect_fence: int | None,
        not_after: NotAfter,
    ) -> Grant | Refusal:
        by_ms = self.server_clock.to_ms(not_after.at)
        with self._reading_clock():
            return await self.take_by(by_ms, name, token, ticket, ttl, floor, holder, mode, expect_fence)

    async def take_by(
        self,
        not_after_ms: int,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: Mode,
        expect_fence: int | None,
    ) -> Grant | Refusal:
        self._model.check_in_time(not_after_ms)
        answer = self._model.take(name, self._party(token, ticket, ttl, floor, holder, mode), expect_fence)
        if isinstance(answer, Refusal):
            return answer
        return answer.fence, self._left(name, answer), None

    async def inspect(self, name: str) -> LockInfo:
        return self._model.inspect(name)

    async def page(self, pattern: str, cursor: int) -> tuple[int, Sequence[LockInfo]]:
        return 0, self._model.page(pattern)

    @contextmanager
    def _reading_clock(self) -> Generator[None]:
        try:
            yield
        except TooLate as late:
            self.server_clock.read(late.store_ms)
            raise

    def _party(
        self,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: Mode,
        deadline_ms: int = NEVER_MS,
    ) -> Party:
        return Party(
            token, self.channel, ticket, mode, milliseconds(ttl), max(floor, self._floor), holder, deadline_ms
        )

    def _left(self, name: str, lease: Lease) -> float:
        return self._model.lock(name).left_of(lease) / 1000
