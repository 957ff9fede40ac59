"""The retry loop of acquire: from the first reply until the lock is granted, refused or given up."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from leasehold.core.replies import Busy, Grant
from leasehold.core.validity import trusted_for
from leasehold.core.waiters import Waiter
from leasehold.errors import AcquireTimeout, InvalidRequest, LockBusy, StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from leasehold.core.backoff import Backoff
    from leasehold.core.notifications import NotificationRouter
    from leasehold.core.observer import Notes
    from leasehold.core.ports import Clock, Concurrency, Random, Store
    from leasehold.core.replies import Request
    from leasehold.core.waiters import WaiterPoller

Reply = Grant | Busy | BaseException
"""The result of a request; an exception is a reply like the others."""

TrustedGrant = tuple[int, float, str | None, float]
"""Fence, the moment on our own clock until which it can be trusted, the store's receipt, and the seconds granted.

A grant that was handed over lasts only for the claim window at first; a renewal makes it last longer.
"""


class EnginePorts(Protocol):
    """The part of the engine that the loop uses."""

    store: Store
    clock: Clock
    random: Random
    concurrency: Concurrency
    timeout: float
    backoff: Backoff
    notifications: NotificationRouter
    waiter_poller: WaiterPoller

    def is_holding(self, name: str) -> bool:
        """Return whether a lease of this client holds the lock."""
        ...

    def schedule_cleanup(self, name: str, token: str, ttl: float, *, was_silent: bool) -> None:
        """Clean up after a request that ended in doubt."""
        ...


def trusted_grant(reply: Reply, sent_at: float, now: float) -> TrustedGrant | None:
    """Return the grant in the reply to a request sent at ``sent_at``; None if it is no grant, or has run out ``now``.

    A process that was paused just here must not report a lease that has run out in the meantime.
    """
    if type(reply) is not tuple:
        return None
    fence, remaining, receipt = reply
    valid_until = sent_at + trusted_for(remaining)
    return (fence, valid_until, receipt, remaining) if now < valid_until else None


def late_grant(name: str, ttl: float) -> StoreUnavailable:
    """Return the error for a grant that had run out when it arrived."""
    return StoreUnavailable(f"the grant of {name!r} arrived after its ttl of {ttl:g} s")


class AcquireLoop:
    """Continues after a first reply that was not a usable grant.

    After silence it asks again with the same token, which settles an earlier request whose reply was lost, and
    keeps the place in the queue. If it ends without a lease, by a cancellation for instance, while the store may
    hold a grant for the token or a place in the queue, it has the engine clean up.
    """

    def __init__(
        self,
        engine: EnginePorts,
        request: Request,
        wait: float | None,
        *,
        will_renew: bool,
        retry_interval: float | None = None,
        notes: Notes | None = None,
    ) -> None:
        self._notes = notes
        self._engine = engine
        self._request = request
        self._wait = wait
        self._will_renew = will_renew
        self._waiter = Waiter(
            request.name,
            request.token,
            request.ticket,
            engine.concurrency.signal(),
            engine.clock,
            retry_interval,
        )
        self._give_up_at = math.inf
        self._silent_since: float | None = None
        self._was_silent = False
        self._is_in_doubt = True
        self._tries = 0
        self.has_cleaned_up = False

    async def run(self, reply: Reply, sent_at: float) -> TrustedGrant:
        """Return a usable grant.

        Raises `LockBusy` (``wait=0``) or `AcquireTimeout` if the lock was held all the time, and `StoreUnavailable`
        if the store gave no usable reply for the engine's timeout.
        """
        if self._wait is not None:
            self._give_up_at = sent_at + self._wait
        try:
            while True:
                grant = trusted_grant(reply, sent_at, self._engine.clock.now())
                if grant is None and isinstance(reply, Busy):
                    grant = await self._on_busy(reply, sent_at)
                elif grant is None:
                    await self._on_silence(reply, sent_at)
                # A lease that was taken by force while we asked may be the one of this very grant.
                if grant is not None and not self._waiter.is_taken:
                    return grant
                reply, sent_at = await self._ask_again()
        except BaseException as error:
            self.has_cleaned_up = True
            self._engine.notifications.unregister(self._request.ticket)
            is_refusal = isinstance(error, StoreRefused | InvalidRequest) and not self._was_silent
            if self._is_in_doubt and not is_refusal:
                request = self._request
                # A grant would end with its ttl, but a place in the queue stays as long as this client polls.
                ttl = request.ttl if self._wait == 0 else math.inf
                self._engine.schedule_cleanup(request.name, request.token, ttl, was_silent=self._was_silent)
            raise

    async def _ask_again(self) -> tuple[Reply, float]:
        self._is_in_doubt = True
        self._waiter.signal.clear()
        self._waiter.is_taken = False
        sent_at = self._engine.clock.now()
        # Without a wait the store takes us out of the queue, unless it is our turn just now.
        wait = None if self._wait is None else max(0.0, self._give_up_at - sent_at)
        try:
            return await self._engine.store.acquire(*self._request, wait), sent_at
        except StoreUnavailable as error:
            return error, sent_at

    async def _on_busy(self, busy: Busy, sent_at: float) -> TrustedGrant | None:
        """Wait for the turn; None when the store must be asked again."""
        self._silent_since = None
        if self._notes is not None and self._notes.queue is None:
            self._notes.queue = busy.waiters
            self._notes.busy_since = self._engine.clock.now() if self._wait != 0 else None
        left = self._give_up_at - self._engine.clock.now()
        if busy.position is None:
            # A request that was lost with its connection may still arrive, later than this reply.
            self._is_in_doubt = self._was_silent
            if left <= 0:
                raise self._busy_error(busy)
            await self._pause(left)
            return None
        self._tries = 0
        waiter = self._waiter
        waiter.set_position(busy.position, sent_at, busy.asked_at)
        self._engine.notifications.register(waiter.ticket, waiter)
        if left <= 0 or not await self._engine.waiter_poller.wait(waiter, left, busy.remaining):
            return None
        if self._notes is not None and waiter.grant is not None and waiter.handed_at is not None:
            self._notes.handed_over = max(0.0, self._engine.clock.now() - waiter.handed_at)
        grant, waiter.grant = waiter.grant, None
        if grant is None or self._engine.clock.now() >= grant[1]:
            return None
        # A grant that was handed over lasts for a short window at first. The first renewal claims it;
        # without renewals it must be claimed now, by asking once more.
        return grant if self._will_renew or grant[3] >= self._request.ttl else None

    async def _on_silence(self, reply: Reply, sent_at: float) -> None:
        """Pause before the store is asked again; raise if it has been silent for too long, or refused."""
        engine, request = self._engine, self._request
        error = reply if isinstance(reply, BaseException) else late_grant(request.name, request.ttl)
        self._was_silent = self._was_silent or isinstance(error, StoreUnavailable)
        self._silent_since = sent_at if self._silent_since is None else self._silent_since
        left = self._silent_since + engine.timeout - engine.clock.now()
        if left <= 0 or not isinstance(error, StoreUnavailable):
            raise error
        await self._pause(left)

    def _busy_error(self, busy: Busy) -> LockBusy:
        name = self._request.name
        error = LockBusy(
            name,
            holder=busy.holder,
            retry_after=busy.remaining,
            held_since=busy.held_since,
            mode=busy.mode,
            waiters=busy.waiters,
            position=self._waiter.position,
        )
        # Not without a wait: a client with very many leases may try in a loop.
        return to_timeout(error, self._wait, is_own=self._engine.is_holding(name)) if self._wait else error

    async def _pause(self, at_most: float) -> None:
        self._tries += 1
        engine = self._engine
        await engine.clock.sleep(min(at_most, engine.backoff.pause(self._tries, engine.random.fraction())))


def to_timeout(busy: LockBusy, waited: float, *, is_own: bool = False) -> AcquireTimeout:
    """Return ``busy`` as the error after a wait of ``waited`` seconds."""
    return AcquireTimeout(
        busy.name,
        waited=waited,
        holder=busy.holder,
        retry_after=busy.retry_after,
        held_since=busy.held_since,
        mode=busy.mode,
        waiters=busy.waiters,
        position=busy.position,
        is_own=is_own or (isinstance(busy, AcquireTimeout) and busy.is_own),
    )
