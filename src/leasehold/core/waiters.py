"""Waiting for a lock: woken by the store's news, and by looking now and then in case they get lost."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from leasehold.core.background import is_first
from leasehold.core.replies import Granted, Line, Look
from leasehold.core.surprises import report_unexpected
from leasehold.core.validity import drifted, trusted_for
from leasehold.errors import StoreRefused

if TYPE_CHECKING:
    from leasehold.core.acquire import TrustedGrant
    from leasehold.core.ports import Clock, Concurrency, Random, Signal, Store
    from leasehold.core.replies import Grant, News

# The store ends a hold a little after its time; looking before that would see it still held.
_AFTER_EXPIRY = 0.002
_JITTER = 0.2
LOOK_AT_LEAST_EVERY = 60.0
"""However rarely a client wants to look: the store forgets a lock that is neither held nor looked at."""


def alive_for(interval: float) -> float:
    """How long a client that looks every ``interval`` seconds counts as alive without looking.

    Long enough that a busy machine does not cost anybody its place, short enough that the dead do not keep
    the living waiting.
    """
    return max(3.0, 4 * min(interval, LOOK_AT_LEAST_EVERY))


class Waiter:
    """One who waits in the queue of a lock, and what it has been told.

    ``interval`` is how often it wants to be looked after, if that is not up to the client.
    """

    is_over = False

    def __init__(
        self, name: str, token: str, ticket: int, signal: Signal, interval: float | None = None
    ) -> None:
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

    def stand(self, position: int | None, sent_at: float, store_time: float) -> None:
        """Note a place in the queue, as of a request that was sent at ``sent_at`` and done at ``store_time``.

        The pair lets a moment on the store's clock be read on our own: what the store did so many seconds
        after that request was done, it did at least as long after the request was sent.
        """
        self.position = position
        self._reference = (sent_at, store_time)

    def hear(self, news: News) -> None:
        """Note a grant. If it was taken away again, the store must be asked."""
        if isinstance(news, Granted):
            sent_at, store_time = self._reference
            # News that come late may tell of a grant before that request: one that we missed, and asked again.
            valid_from = sent_at + drifted(news.granted_at - store_time)
            # Without drift, because this is for people: the grant was at most so long ago.
            self.handed_at = sent_at + news.granted_at - store_time
            self.grant = (news.fence, valid_from + trusted_for(news.remaining), None, news.remaining)
        else:
            self.grant = None
            self.is_taken = True
        self.signal.set()

    def see(self, place: int | Grant | None, sent_at: float, store_time: float) -> None:
        """Note what a look has shown."""
        if isinstance(place, int):
            self.stand(place, sent_at, store_time)
        elif place is None:
            self.signal.set()
        elif self.grant is None:  # the news may have come first, and are as good
            fence, remaining, receipt = place
            self.grant = (fence, sent_at + trusted_for(remaining), receipt, remaining)
            self.signal.set()


class WaitingRoom:
    """All who wait in one client. One coroutine looks after them, with one batch of requests an interval."""

    def __init__(
        self, store: Store, clock: Clock, random: Random, concurrency: Concurrency, *, interval: float
    ) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._concurrency = concurrency
        self._interval = min(interval, LOOK_AT_LEAST_EVERY)
        self._at_most = alive_for(interval) / 2
        self._waiters: dict[int, Waiter] = {}
        self._alarm = concurrency.signal()
        self._expires_at: dict[str, float] = {}
        self._wakes_at = math.inf
        self._is_stopped = False

    async def wait(self, waiter: Waiter, timeout: float, remaining: float | None) -> bool:
        """Until ``waiter`` has been told something: True; False when ``timeout`` seconds have passed first.

        ``remaining`` is what is left of the current hold, because that is when to look if nothing is heard.
        """
        self._check_open()
        self._waiters[waiter.ticket] = waiter
        # The next look may have been planned for others, who are in less of a hurry.
        soon = remaining if waiter.interval is None else min(waiter.interval, remaining or math.inf)
        expires_at = self._clock.now() + (soon or self._interval) + _AFTER_EXPIRY
        self._expires_at[waiter.name] = expires_at
        if expires_at < self._wakes_at:
            self._alarm.set()
        if is_first(self, "run"):
            self._concurrency.background(self.run)
        try:
            was_told = await waiter.signal.wait(None if timeout == math.inf else timeout)
        finally:
            self._waiters.pop(waiter.ticket, None)
        self._check_open()
        return was_told

    def _check_open(self) -> None:
        if self._is_stopped:
            raise StoreRefused("this client is closed")

    def stop(self) -> None:
        """End `run` soon, and wake everybody: nobody looks after them any more."""
        self._is_stopped = True
        self._alarm.set()
        for waiter in list(self._waiters.values()):
            waiter.signal.set()

    async def run(self) -> None:
        """Work until stopped."""
        looks_at = self._next_look()
        while not self._is_stopped:
            # Infinite while we look: whoever comes meanwhile rings, so nobody is overlooked.
            self._wakes_at = math.inf
            self._alarm.clear()
            now = self._clock.now()
            if not self._waiters:
                self._expires_at.clear()
                await self._alarm.wait()
                looks_at = self._next_look()
                continue
            due = min(looks_at, *self._expires_at.values()) if self._expires_at else looks_at
            if now < due:
                self._wakes_at = due
                await self._alarm.wait(due - now)
                continue
            await self._look()
            looks_at = self._next_look()

    def _next_look(self) -> float:
        wanted = [waiter.interval or self._interval for waiter in list(self._waiters.values())]
        # Whoever looks too rarely is taken for dead.
        interval = min(*wanted, self._at_most) if wanted else self._interval
        return self._clock.now() + interval * (1 - _JITTER * self._random.fraction())

    async def _look(self) -> None:
        lines: defaultdict[str, list[Waiter]] = defaultdict(list)
        for waiter in list(self._waiters.values()):
            lines[waiter.name].append(waiter)
        self._expires_at.clear()
        sent_at = self._clock.now()
        questions = [Line(name, [waiter.token for waiter in line]) for name, line in lines.items()]
        try:
            answers = await self._store.look(questions)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the room
            report_unexpected(error)
            answers = [None] * len(questions)
        for (name, line), look in zip(lines.items(), answers, strict=True):
            if isinstance(look, Look):
                if look.remaining:
                    self._expires_at[name] = sent_at + look.remaining + _AFTER_EXPIRY
                for waiter, place in zip(line, look.places, strict=True):
                    waiter.see(place, sent_at, look.looked_at)
            else:
                for waiter in line:
                    waiter.signal.set()  # each asks for itself now, and decides how long silence is bearable
