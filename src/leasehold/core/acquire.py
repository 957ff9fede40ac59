"""Asking for a lock until it is granted, refused or not worth waiting for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from leasehold.core.replies import Busy, Grant
from leasehold.core.validity import trusted_for
from leasehold.core.waiters import Waiter
from leasehold.errors import AcquireTimeout, InvalidRequest, LockBusy, StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from leasehold.core.backoff import Backoff
    from leasehold.core.notifications import Tickets
    from leasehold.core.observer import Notes
    from leasehold.core.ports import Clock, Concurrency, Random, Store
    from leasehold.core.replies import Mode
    from leasehold.core.waiters import WaitingRoom


class Asker(Protocol):
    """Who asks: the ports, and how patient to be."""

    store: Store
    clock: Clock
    random: Random
    concurrency: Concurrency
    patience: float
    retry: Backoff
    tickets: Tickets
    room: WaitingRoom

    def disown(self, name: str, token: str, ttl: float, *, was_silent: bool) -> None:
        """Clean up after a request that ended in doubt."""
        ...


class Request(NamedTuple):
    """What is asked for, as the store wants to know it."""

    name: str
    token: str
    ticket: int
    ttl: float
    floor: int
    holder: str
    mode: Mode


Answer = Grant | Busy | BaseException
"""What came of a request; an exception is no less an answer than others."""

TrustedGrant = tuple[int, float, str | None, float]
"""Fence, the moment on our own clock until which it can be trusted, the store's receipt, and the seconds granted.

A grant that was handed over lasts only for the claim window at first; whoever wants it for longer renews it.
"""


def trusted_grant(answer: Answer, sent_at: float, now: float) -> TrustedGrant | None:
    """What an answer to a request sent at ``sent_at`` is worth ``now``, if it is a grant at all.

    A process that was paused just here must not report a lease that has run out meanwhile.
    """
    if type(answer) is not tuple:
        return None
    fence, remaining, receipt = answer
    valid_until = sent_at + trusted_for(remaining)
    return (fence, valid_until, receipt, remaining) if now < valid_until else None


def arrived_late(name: str, ttl: float) -> StoreUnavailable:
    """The error for a grant that is worth nothing any more."""
    return StoreUnavailable(f"the grant of {name!r} arrived after its ttl of {ttl:g} s")


class Quest:
    """Going on after a first answer that was not a usable grant, until there is one.

    Silence is met by asking again with the same token, which settles an earlier request whose reply was
    lost, and keeps the place in the queue. When it ends without a lease, by a cancellation for instance,
    while the store may hold a grant that nobody knows of, or a place in the queue, the asker is told to
    clean up.
    """

    def __init__(
        self,
        asker: Asker,
        request: Request,
        wait: float | None,
        *,
        will_renew: bool,
        retry_interval: float | None = None,
        notes: Notes | None = None,
    ) -> None:
        self._notes = notes
        self._asker = asker
        self._request = request
        self._wait = wait
        self._will_renew = will_renew
        self._waiter = Waiter(
            request.name, request.token, request.ticket, asker.concurrency.signal(), retry_interval
        )
        self._give_up_at = math.inf
        self._silent_since: float | None = None
        self._was_silent = False
        self._is_in_doubt = True
        self._tries = 0

    async def go_on(self, answer: Answer, sent_at: float) -> TrustedGrant:
        """A usable grant, in the end.

        Raises `LockBusy` (``wait=0``) or `AcquireTimeout` when somebody else held the lock all the time, and
        `StoreUnavailable` when the store gave no usable answer for the asker's patience.
        """
        if self._wait is not None:
            self._give_up_at = sent_at + self._wait
        try:
            while True:
                grant = trusted_grant(answer, sent_at, self._asker.clock.now())
                if grant is None and isinstance(answer, Busy):
                    grant = await self._bear_being_busy(answer, sent_at)
                elif grant is None:
                    await self._bear_silence(answer, sent_at)
                # What was taken away while we asked may be the very grant that we were told of.
                if grant is not None and not self._waiter.is_taken:
                    return grant
                answer, sent_at = await self._ask_again()
        except BaseException as error:
            self._asker.tickets.forget(self._request.ticket)
            is_plain_no = isinstance(error, StoreRefused | InvalidRequest) and not self._was_silent
            if self._is_in_doubt and not is_plain_no:
                request = self._request
                # A grant would end with its ttl, but a place in the queue stays as long as this client looks in.
                ttl = request.ttl if self._wait == 0 else math.inf
                self._asker.disown(request.name, request.token, ttl, was_silent=self._was_silent)
            raise

    async def _ask_again(self) -> tuple[Answer, float]:
        self._is_in_doubt = True
        self._waiter.signal.clear()
        self._waiter.is_taken = False
        sent_at = self._asker.clock.now()
        # Without a wait the store takes us out of the queue, unless it is our turn just now.
        wait = None if self._wait is None else max(0.0, self._give_up_at - sent_at)
        try:
            return await self._asker.store.acquire(*self._request, wait), sent_at
        except StoreUnavailable as error:
            return error, sent_at

    async def _bear_being_busy(self, busy: Busy, sent_at: float) -> TrustedGrant | None:
        """Wait for our turn; None when the store must be asked again."""
        self._silent_since = None
        if self._notes is not None and self._notes.queue is None:
            self._notes.queue = busy.waiters
            self._notes.busy_since = self._asker.clock.now() if self._wait != 0 else None
        left = self._give_up_at - self._asker.clock.now()
        if busy.position is None:
            # A request that was lost with its connection may still arrive, later than this answer.
            self._is_in_doubt = self._was_silent
            if left <= 0:
                raise _busy(self._request.name, busy, self._wait, self._waiter.position)
            await self._pause(left)
            return None
        self._tries = 0
        waiter = self._waiter
        waiter.stand(busy.position, sent_at, busy.asked_at)
        self._asker.tickets.know(waiter.ticket, waiter)
        if left <= 0 or not await self._asker.room.wait(waiter, left, busy.remaining):
            return None
        if self._notes is not None and waiter.grant is not None and waiter.handed_at is not None:
            self._notes.handed_over = max(0.0, self._asker.clock.now() - waiter.handed_at)
        grant, waiter.grant = waiter.grant, None
        if grant is None or self._asker.clock.now() >= grant[1]:
            return None
        # A grant that was handed over lasts for a short window at first. Whoever renews claims it by that;
        # whoever does not must claim it now, by asking once more.
        return grant if self._will_renew or grant[3] >= self._request.ttl else None

    async def _bear_silence(self, answer: Answer, sent_at: float) -> None:
        """Pause before the store is asked again; raise if it has been silent for too long, or said no."""
        asker, request = self._asker, self._request
        error = answer if isinstance(answer, BaseException) else arrived_late(request.name, request.ttl)
        self._was_silent = self._was_silent or isinstance(error, StoreUnavailable)
        self._silent_since = sent_at if self._silent_since is None else self._silent_since
        left = self._silent_since + asker.patience - asker.clock.now()
        if left <= 0 or not isinstance(error, StoreUnavailable):
            raise error
        await self._pause(left)

    async def _pause(self, at_most: float) -> None:
        self._tries += 1
        asker = self._asker
        await asker.clock.sleep(min(at_most, asker.retry.pause(self._tries, asker.random.fraction())))


def _busy(name: str, busy: Busy, wait: float | None, position: int | None) -> LockBusy:
    error = LockBusy(
        name,
        holder=busy.holder,
        retry_after=busy.remaining,
        held_since=busy.held_since,
        mode=busy.mode,
        waiters=busy.waiters,
        position=position,
    )
    return timed_out(error, wait) if wait else error


def timed_out(busy: LockBusy, waited: float) -> AcquireTimeout:
    """The same refusal for somebody who has waited ``waited`` seconds in vain."""
    return AcquireTimeout(
        busy.name,
        waited=waited,
        holder=busy.holder,
        retry_after=busy.retry_after,
        held_since=busy.held_since,
        mode=busy.mode,
        waiters=busy.waiters,
        position=busy.position,
    )
