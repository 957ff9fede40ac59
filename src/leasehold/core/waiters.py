"""Waiters in the queues of locks: woken by notifications, and by polling in case one is lost."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from leasehold.core.background import BackgroundLoop, report_unexpected
from leasehold.core.replies import Granted, LockWaiters, QueueState
from leasehold.core.validity import drifted, trusted_for
from leasehold.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from leasehold.core.acquire import TrustedGrant
    from leasehold.core.ports import Clock, Concurrency, Random, Signal, Store
    from leasehold.core.replies import Grant, Notification

# The store ends a hold a little after its time; polling before that would see it still held.
_AFTER_EXPIRY = 0.002
_JITTER = 0.2
# The store tells times in whole milliseconds.
_RESOLUTION = 0.001
MAX_POLL_INTERVAL = 60.0
"""The limit of a client's own interval: the store forgets a lock that is neither held nor polled."""


def alive_for(interval: float) -> float:
    """Return for how long a client that polls every ``interval`` seconds counts as alive without polling.

    Long enough that a waiter on a busy machine keeps its place, short enough that the dead do not keep the living
    waiting.
    """
    return max(3.0, 4 * min(interval, MAX_POLL_INTERVAL))


class Waiter:
    """A request in the queue of a lock: its place, and its grant once it has one.

    ``interval`` is how often to poll for it, None for the client's own interval.
    """

    is_over = False
    poller: WaiterPoller | None = None

    def __init__(
        self,
        name: str,
        token: str,
        ticket: int,
        signal: Signal,
        clock: Clock,
        interval: float | None = None,
    ) -> None:
        self._clock = clock
        self.interval = interval
        self.name = name
        self.token = token
        self.ticket = ticket
        self.position: int | None = None
        self.grant: TrustedGrant | None = None
        self.handed_at: float | None = None
        self.is_taken = False
        self.signal = signal
        self._reference = (0.0, 0.0)

    def set_position(self, position: int | None, sent_at: float, store_time: float) -> None:
        """Note a place in the queue, as of a request that was sent at ``sent_at`` and done at ``store_time``.

        The pair translates a moment on the store's clock to our own: what the store did so many seconds
        after that request was done, it did at least as long after the request was sent.
        """
        self.position = position
        self._reference = (sent_at, store_time)

    def receive(self, notification: Notification) -> None:
        """Note a grant. If it was taken away again, or its end is not known, the store must be asked."""
        if isinstance(notification, Granted):
            sent_at, store_time = self._reference
            since = notification.granted_at - store_time
            if sent_at + drifted(since) > self._clock.now() + _RESOLUTION:
                # Granted later than it is heard of: the store's clock was stepped since that request, so the pair
                # translates nothing, and the store must be asked how long the grant lasts.
                self.grant = None
                self.signal.set()
                return
            # Negative if the notification is late and tells of a grant before that request, which asked again.
            valid_from = sent_at + drifted(since)
            # Without drift, because this is for people: the grant was at most so long ago.
            self.handed_at = sent_at + since
            remaining = notification.remaining
            self.grant = (notification.fence, valid_from + trusted_for(remaining), None, remaining)
        else:
            self.grant = None
            self.is_taken = True
        self.signal.set()

    def receive_early(self, notification: Notification) -> None:
        """Note it like any other: a grant in doubt is asked for again."""
        self.receive(notification)

    def is_for(self, engine: object, name: str) -> bool:  # noqa: ARG002 - as the protocol has it
        """Return False: a waiter holds nothing."""
        return False

    def after_gap(self) -> None:
        """Have the poller poll now, once for all waiters; before the wait has begun, have the request repeated instead."""
        if self.poller is None:
            self.signal.set()
        else:
            self.poller.poll_now()

    def update(self, place: int | Grant | None, sent_at: float, store_time: float) -> None:
        """Note the result of a poll."""
        if isinstance(place, int):
            self.set_position(place, sent_at, store_time)
        elif place is None:
            self.signal.set()
        elif self.grant is None:  # a notification may have come first, and is as good
            fence, remaining, receipt = place
            self.grant = (fence, sent_at + trusted_for(remaining), receipt, remaining)
            self.signal.set()


class WaiterPoller:
    """Polls for all waiters of a client in one coroutine, with one batch of requests per interval."""

    def __init__(
        self, store: Store, clock: Clock, random: Random, concurrency: Concurrency, *, interval: float
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._interval = min(interval, MAX_POLL_INTERVAL)
        self._at_most = alive_for(interval) / 2
        self._concurrency = concurrency
        self._waiters: dict[int, Waiter] = {}
        # The parts of the store that are being polled, and whether to poll them once more after that.
        self._polled: dict[object, bool] = {}
        self._alarm = concurrency.signal()
        self._expires_at: dict[str, float] = {}
        self._wakes_at = math.inf
        self._is_stopped = False
        self._must_poll = False
        self._loop = BackgroundLoop(concurrency, self.run)

    async def wait(self, waiter: Waiter, timeout: float, remaining: float | None) -> bool:
        """Return True when something has happened to ``waiter``, False when ``timeout`` seconds pass first.

        ``remaining`` is the rest of the current hold: when it ends, it is time to poll, in case a notification is lost.
        """
        self._check_open()
        try:
            self._waiters[waiter.ticket] = waiter
            waiter.poller = self
            # The next poll may have been planned for other waiters, with longer intervals.
            soon = remaining if waiter.interval is None else min(waiter.interval, remaining or math.inf)
            expires_at = self._clock.now() + (soon or self._interval) + _AFTER_EXPIRY
            self._expires_at[waiter.name] = expires_at
            if expires_at < self._wakes_at:
                self._alarm.set()
            self._loop.start()
            has_changed = await waiter.signal.wait(None if timeout == math.inf else timeout)
        finally:
            self._waiters.pop(waiter.ticket, None)
        self._check_open()
        return has_changed

    def _check_open(self) -> None:
        if self._is_stopped:
            raise StoreUnavailable("this client was closed while it waited for a lock")

    def poll_now(self) -> None:
        """Poll without waiting for the interval to end."""
        self._must_poll = True
        self._alarm.set()

    def stop(self) -> None:
        """End `run` soon, and wake all waiters, because nothing polls for them after that."""
        self._is_stopped = True
        self._alarm.set()
        for waiter in list(self._waiters.values()):
            waiter.signal.set()

    async def run(self) -> None:
        """Poll until stopped."""
        polls_at = self._next_poll()
        while not self._is_stopped:
            # Infinite until the alarm is waited for: a waiter that is added in between sets the alarm.
            self._wakes_at = math.inf
            self._alarm.clear()
            now = self._clock.now()
            if not self._waiters:
                self._expires_at.clear()
                await self._alarm.wait()
                polls_at = self._next_poll()
                continue
            due = min(polls_at, *self._expires_at.values()) if self._expires_at else polls_at
            if now < due and not self._must_poll:
                self._wakes_at = due
                await self._alarm.wait(due - now)
                continue
            self._must_poll = False
            await self._poll()
            polls_at = self._next_poll()

    def _next_poll(self) -> float:
        wanted = [waiter.interval or self._interval for waiter in list(self._waiters.values())]
        # A client that polls too rarely is taken for dead.
        interval = min(*wanted, self._at_most) if wanted else self._interval
        return self._clock.now() + interval * (1 - _JITTER * self._random.fraction())

    async def _poll(self) -> None:
        parts: defaultdict[object, defaultdict[str, list[Waiter]]] = defaultdict(lambda: defaultdict(list))
        for waiter in list(self._waiters.values()):
            parts[self._store.part_of(waiter.name)][waiter.name].append(waiter)
        self._expires_at.clear()
        for part, waiters_of in parts.items():
            if part is None:
                await self._poll_part(waiters_of)
            elif part in self._polled:
                self._polled[part] = True
            else:
                # A part of the store that is silent must not delay the others.
                self._polled[part] = False
                self._concurrency.background(partial(self._poll_apart, part, waiters_of))

    async def _poll_apart(self, part: object, waiters_of: Mapping[str, list[Waiter]]) -> None:
        try:
            await self._poll_part(waiters_of)
        finally:
            if self._polled.pop(part):
                self.poll_now()  # what happened since this poll was sent may have been missed
            elif min(list(self._expires_at.values()), default=math.inf) < self._wakes_at:
                self._alarm.set()

    async def _poll_part(self, waiters_of: Mapping[str, list[Waiter]]) -> None:
        sent_at = self._clock.now()
        polled = [LockWaiters(name, [it.token for it in waiters]) for name, waiters in waiters_of.items()]
        try:
            states = await self._store.look(polled)
        except Exception as error:  # noqa: BLE001 - no error may end the poller
            report_unexpected(error)
            states = [None] * len(polled)
        for (name, waiters), state in zip(waiters_of.items(), states, strict=True):
            if isinstance(state, QueueState):
                if state.remaining:
                    self._expires_at[name] = sent_at + state.remaining + _AFTER_EXPIRY
                for waiter, place in zip(waiters, state.places, strict=True):
                    waiter.update(place, sent_at, state.read_at)
            else:
                for waiter in waiters:
                    waiter.signal.set()  # each asks for itself now, and has its own limit for silence
