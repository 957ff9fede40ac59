"""From reading to writing, without a moment in which another writer could get in.

The reader keeps its lease while it waits, and somebody in its name stands first in the queue, so that the other readers go
and nobody comes. The store is asked at short intervals whether the others have gone: only the script that ends the
reader's lease and begins the writer's may decide that, so a release of the last other reader cannot push the
grant as it does for those who hold nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from leasehold.core import validation
from leasehold.core.acquire import late_grant, trusted_grant
from leasehold.core.lease import LeaseState
from leasehold.errors import LeaseLost, LockBusy, StoreRefused
from leasehold.files.lock_store import InTheWay

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from leasehold.core.acquire import TrustedGrant
    from leasehold.core.engine import Engine
    from leasehold.core.replies import Owner
    from leasehold.files.lock_store import FileStore
    from leasehold.files.sessions.held_file import FileHold

L = TypeVar("L", bound=LeaseState)


class Rival(NamedTuple):
    """Another reader, who was first to want to write."""

    way: InTheWay


async def upgrade_lease(
    engine: Engine[L],
    store: FileStore,
    hold: FileHold[L],
    lease: L,
    own: Owner,
    *,
    ttl: float,
    wait: float | None,
) -> Rival | None:
    """Have the hold have a writer's lease in the place of the reader's; the `Rival` if neither would ever get it.

    Raises `LockBusy` if others still read when the wait is over: the reader's lease is as it was then. If the
    outcome is unknown, both leases are given up, because the reader's may be gone already. `LeaseLost` if
    somebody gives the hold back meanwhile.
    """
    ticket = engine.notifications.new_ticket()
    give_up_at = math.inf if wait is None else engine.clock.now() + wait
    try:
        while True:
            hold.check_wanted()
            left = max(0.0, give_up_at - engine.clock.now())
            ask = _ask(engine, store, lease, own, ticket, ttl, min(left, validation.MAX_WAIT))
            answer = await _in_turn(engine, hold, lease, ask)
            if isinstance(answer, LeaseState):
                return None
            if answer.is_rival:
                _leave_queue(engine, lease, own)
                return Rival(answer)
            if not left:
                holding = answer.holding
                raise LockBusy(
                    lease.name,
                    holder=holding and holding.holder,
                    held_since=holding and holding.since,
                    retry_after=answer.remaining,
                    mode="shared",
                )
            await hold.pause(min(left, engine.backoff.cap * (0.5 + 0.5 * engine.random.fraction())))
    except BaseException:
        _leave_queue(engine, lease, own)
        raise


async def _in_turn(
    engine: Engine[L], hold: FileHold[L], lease: L, ask: Coroutine[Any, Any, L | InTheWay]
) -> L | InTheWay:
    """Ask while nobody else talks to the store about the lease: a renewal that comes after would find nothing."""
    mine = engine.concurrency.signal()
    try:
        while (turn := lease.begin_exchange(mine)) is not mine:
            await turn.wait()
    except BaseException:
        ask.close()
        raise
    try:
        answer = await ask
        if isinstance(answer, LeaseState):
            # In this order, so that nobody finds the hold with a lease that has ended; and before the turn is given
            # back, or somebody would renew what is gone.
            hold.exchange(lease, answer)
            lease.end("released")
            lease.is_given_back = True
        return answer
    finally:
        lease.end_exchange()


async def _ask(
    engine: Engine[L], store: FileStore, lease: L, own: Owner, ticket: int, ttl: float, wait: float
) -> L | InTheWay:
    encoded = validation.encode_holder(own.holder)
    tries = 0

    async def ask() -> TrustedGrant | InTheWay | None:
        nonlocal tries
        lease.check()
        tries += 1
        sent_at = engine.clock.now()
        answer = await store.upgrade(lease.name, lease.token, own.token, ticket, ttl, encoded, wait)
        if answer is None or isinstance(answer, InTheWay):
            return answer
        grant = trusted_grant(answer, sent_at, engine.clock.now())
        if grant is None:
            raise late_grant(lease.name, ttl)
        return grant

    try:
        answer = await engine.retry(ask, engine.clock.now())
    except LeaseLost:
        raise
    except BaseException as error:
        # A no that comes after silence says nothing of the request before it.
        if tries > 1 or not isinstance(error, StoreRefused):
            # It may have been done. Then the reader's lease has ended, and as soon as the writer's is taken back
            # somebody else may write: so neither counts from here on.
            lease.end("released")
            engine.schedule_cleanup(lease.name, lease.token, lease.ttl, was_silent=True)
        raise
    if answer is None:
        lease.end("expired")
        raise LeaseLost(lease.name, "expired")
    if isinstance(answer, InTheWay):
        return answer
    return engine.new_lease(
        lease.name, own.token, ticket, "exclusive", own.holder, ttl, answer, renew=lease.renews
    )


def _leave_queue(engine: Engine[L], lease: L, own: Owner) -> None:
    # For ever: a place in the queue stays as long as this client waits for anything behind the same lock.
    engine.schedule_cleanup(lease.name, own.token, math.inf, was_silent=True)
