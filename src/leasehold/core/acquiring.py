"""Asking for a lock until it is granted, refused or not worth waiting for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from leasehold.core.answers import Busy
from leasehold.core.validity import trusted_for
from leasehold.errors import AcquireTimeout, LockBusy, StoreUnavailable

if TYPE_CHECKING:
    from leasehold.core.backoff import Backoff
    from leasehold.core.ports import Clock, Random, Store


class Grant(NamedTuple):
    """A lock that is ours until ``valid_until`` on our own clock."""

    fence: int
    valid_until: float


class Attempt:
    """One caller's wish for one lock: a token, asked for as often as it takes.

    ``is_unsettled`` is true while the store may hold a grant that nobody knows of: something was asked
    and no usable answer came. Whoever gives up the attempt then owes the store a clean-up.
    """

    __slots__ = ("asked_at", "floor", "holder", "is_unsettled", "name", "token", "ttl")

    def __init__(self, name: str, *, token: str, ttl: float, floor: int, holder: str) -> None:
        self.name = name
        self.token = token
        self.ttl = ttl
        self.floor = floor
        self.holder = holder
        self.is_unsettled = False
        self.asked_at = 0.0

    async def ask(self, store: Store, clock: Clock) -> Grant | Busy:
        """The grant, or who is in the way."""
        self.is_unsettled = True
        # Read before the request is sent: a slow reply must shorten the lease, never lengthen it.
        self.asked_at = sent_at = clock.now()
        answer = await store.acquire(
            self.name, token=self.token, ttl=self.ttl, floor=self.floor, holder=self.holder
        )
        if isinstance(answer, Busy):
            self.is_unsettled = False
            return answer
        valid_until = sent_at + trusted_for(answer.remaining)
        # A process that was paused just here must not report a lease that has run out meanwhile. Asking
        # again finds out who holds the lock now.
        if clock.now() >= valid_until:
            raise StoreUnavailable(f"the grant of {self.name!r} arrived after its ttl of {self.ttl:g} s")
        self.is_unsettled = False
        return Grant(answer.fence, valid_until)


async def acquire(
    attempt: Attempt,
    store: Store,
    clock: Clock,
    random: Random,
    *,
    wait: float | None,
    patience: float,
    retry: Backoff,
) -> Grant:
    """The grant of ``attempt``.

    Raises `LockBusy` (``wait=0``) or `AcquireTimeout` when somebody else held the lock all the time, and
    `StoreUnavailable` when the store gave no usable answer for ``patience`` seconds in a row. Silence is
    met by asking again with the same token, which settles an earlier request whose reply was lost.
    """
    started_at = clock.now()
    silent_since: float | None = None
    tries = 0
    while True:
        try:
            answer = await attempt.ask(store, clock)
        except StoreUnavailable:
            if silent_since is None:
                silent_since = attempt.asked_at
            left = silent_since + patience - clock.now()
            if left <= 0:
                raise
        else:
            if isinstance(answer, Grant):
                return answer
            silent_since = None
            left = math.inf if wait is None else started_at + wait - clock.now()
            if left <= 0:
                raise _busy(attempt.name, answer, wait)
        tries += 1
        await clock.sleep(min(left, retry.pause(tries, random.fraction())))


def _busy(name: str, busy: Busy, wait: float | None) -> LockBusy:
    if not wait:
        return LockBusy(name, holder=busy.holder, retry_after=busy.remaining)
    return AcquireTimeout(name, waited=wait, holder=busy.holder, retry_after=busy.remaining)
