"""Asking for a lock until it is granted, refused or not worth waiting for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from leasehold.core.answers import Busy
from leasehold.core.validity import trusted_for
from leasehold.errors import AcquireTimeout, InvalidRequest, LockBusy, StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from leasehold.core.answers import Grant
    from leasehold.core.backoff import Backoff
    from leasehold.core.ports import Clock, Random, Store


class Asker(Protocol):
    """Who asks: the ports, and how patient to be."""

    store: Store
    clock: Clock
    random: Random
    patience: float
    retry: Backoff

    def disown(self, name: str, token: str, ttl: float, *, was_silent: bool) -> None:
        """Clean up after a request that ended in doubt."""
        ...


TrustedGrant = tuple[int, float, str | None]
"""Fence, the moment on our own clock until which it can be trusted, and the store's receipt."""


def trusted_grant(answer: Grant | Busy | BaseException, sent_at: float, now: float) -> TrustedGrant | None:
    """What an answer to a request sent at ``sent_at`` is worth ``now``, if it is a grant at all.

    A process that was paused just here must not report a lease that has run out meanwhile.
    """
    if type(answer) is not tuple:
        return None
    fence, remaining, receipt = answer
    valid_until = sent_at + trusted_for(remaining)
    return (fence, valid_until, receipt) if now < valid_until else None


def arrived_late(name: str, ttl: float) -> StoreUnavailable:
    """The error for a grant that is worth nothing any more."""
    return StoreUnavailable(f"the grant of {name!r} arrived after its ttl of {ttl:g} s")


async def persevere(
    asker: Asker,
    answer: Grant | Busy | BaseException,
    sent_at: float,
    wait: float | None,
    name: str,
    token: str,
    ttl: float,
    floor: int,
    holder: str,
) -> TrustedGrant:
    """Go on after a first ``answer`` that was not a usable grant, until there is one.

    Raises `LockBusy` (``wait=0``) or `AcquireTimeout` when somebody else held the lock all the time, and
    `StoreUnavailable` when the store gave no usable answer for the asker's patience. Silence is met by
    asking again with the same token, which settles an earlier request whose reply was lost.

    When it ends otherwise, by a cancellation for instance, while the store may hold a grant that nobody
    knows of, the asker is told to clean up.
    """
    clock = asker.clock
    started_at = sent_at
    silent_since: float | None = None
    was_silent = False
    is_in_doubt = True
    tries = 0
    try:
        while True:
            if grant := trusted_grant(answer, sent_at, clock.now()):
                return grant
            if isinstance(answer, Busy):
                # A request that was lost with its connection may still arrive, later than this answer.
                is_in_doubt = was_silent
                silent_since = None
                left = math.inf if wait is None else started_at + wait - clock.now()
                if left <= 0:
                    raise _busy(name, answer, wait)
            else:
                if not isinstance(answer, BaseException):
                    answer = arrived_late(name, ttl)
                was_silent = was_silent or isinstance(answer, StoreUnavailable)
                silent_since = sent_at if silent_since is None else silent_since
                left = silent_since + asker.patience - clock.now()
                if left <= 0 or not isinstance(answer, StoreUnavailable):
                    raise answer
            tries += 1
            await clock.sleep(min(left, asker.retry.pause(tries, asker.random.fraction())))
            is_in_doubt = True
            sent_at = clock.now()
            try:
                answer = await asker.store.acquire(name, token, ttl, floor, holder)
            except StoreUnavailable as error:
                answer = error
    except BaseException as error:
        is_plain_no = isinstance(error, StoreRefused | InvalidRequest) and not was_silent
        if is_in_doubt and not is_plain_no:
            asker.disown(name, token, ttl, was_silent=was_silent)
        raise


def _busy(name: str, busy: Busy, wait: float | None) -> LockBusy:
    if not wait:
        return LockBusy(name, holder=busy.holder, retry_after=busy.remaining)
    return AcquireTimeout(name, waited=wait, holder=busy.holder, retry_after=busy.remaining)
