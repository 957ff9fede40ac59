"""Upgrades a lease from reading to writing, with no moment in which another writer can get the lock.

The reader keeps its lease while it waits, and a token of its own stands first in the queue, so that the other readers
finish and no new ones start. The store is polled at short intervals: only the script that ends the reader's lease and
begins the writer's may decide that the other readers have gone, so a release of the last of them cannot push the grant
as it does for clients that hold nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.core import validation
from leasehold.core.acquire import late_grant, trusted_grant
from leasehold.core.leases.lease import LeaseState
from leasehold.core.leases.turns import run_in_turn
from leasehold.core.multi_lock import release_in_background
from leasehold.core.not_after import NotAfterRetry
from leasehold.errors import LeaseLost, LockBusy, StoreRefused
from leasehold.files.lock_store import UpgradeConflict
from leasehold.files.sessions.claims import mark_held
from leasehold.files.sessions.conflicts import busy_error, deadlock_error
from leasehold.files.sessions.held_file import lost_file
from leasehold.files.sessions.session_store import EntryChange, unchanged_or_absent

if TYPE_CHECKING:
    from leasehold.core.acquire import TrustedGrant
    from leasehold.core.engine import Engine
    from leasehold.core.replies import NotAfter, Owner
    from leasehold.files.lock_store import FileLockStore
    from leasehold.files.sessions.held_file import HeldFile
    from leasehold.files.sessions.session import AnySession

L = TypeVar("L", bound=LeaseState)


async def upgrade_file(session: AnySession, hold: HeldFile[Any], wait: float | None) -> None:
    """Turn a file that is held for reading into one that is held for writing; see `leasehold.files.FileLease.upgrade`."""
    if hold.mode == "read":
        wait = session.context.effective_wait(wait)
        await session.context.run_attempt("upgrade", hold.path, lambda: _upgrade_in_turn(session, hold, wait))


async def _upgrade_in_turn(session: AnySession, hold: HeldFile[Any], wait: float | None) -> None:
    """Run one upgrade of a hold at a time; a second one finds it done, or continues where the first one stopped."""
    engine = session.engine
    clock = engine.clock
    give_up_at = math.inf if wait is None else clock.now() + wait

    def busy() -> Exception:
        name = hold.entry.names[0]
        error = LockBusy(name, holder=hold[name].holder, mode="shared")
        return busy_error(error, hold.path, session=session.session_id, wait=wait)

    async def upgrade() -> None:
        hold.check()
        if hold.mode == "read":
            await _upgrade(session, hold, None if wait is None else max(0.0, give_up_at - clock.now()))

    hold.check()
    await run_in_turn(
        hold.upgrades,
        engine.concurrency.signal(),
        upgrade,
        clock=clock,
        timeout=math.inf if wait is None else wait,
        too_late=busy,
    )


async def _upgrade(session: AnySession, hold: HeldFile[Any], wait: float | None) -> None:
    engine, store = session.engine, session.store
    await session.context.limits.check(session.session_id, "upgrade")
    hold.check_not_releasing()
    hold.check()
    before = hold.entry
    # Recorded first, as a turn that may have got the lease.
    begun = before.next_turn(epoch=session.identity.epoch)
    if not await store.change([EntryChange(begun.field, unchanged_or_absent(before), begun.encode())]):
        raise lost_file(hold.path, "taken")
    hold.entry = begun
    writing_entry = begun.but(mode="write")
    own = session.identity.own([writing_entry])
    todo = [lease for name in reversed(begun.names) if (lease := hold[name]).mode == "shared"]
    give_up_at = None if wait is None else engine.clock.now() + wait
    # The lock of the links first: a session that has the other lock has this one, too, unless the link is newer than
    # its lease. If only this one is upgraded, the file is still held for reading, and the next upgrade continues there.
    for lease in todo:
        left = None if give_up_at is None else max(0.0, give_up_at - engine.clock.now())
        try:
            with hold.loss_by_path():
                conflict = await _upgrade_lease(
                    engine, session.context.lock_store, hold, lease, own[lease.name], ttl=lease.ttl, wait=left
                )
        except LockBusy as busy:
            raise busy_error(busy, hold.path, session=session.session_id, wait=wait) from busy
        if conflict is not None:
            raise deadlock_error(hold.path, conflict)
        try:
            hold.check_not_releasing()
        except LeaseLost:
            hold.release_in_background()  # the release may have been cancelled while it waited for the upgrade
            raise
    (done,) = mark_held([writing_entry], list(hold), "write")
    # A lease that an earlier upgrade got has the token of that turn.
    hold.entry = done if len(todo) == len(done.names) else done.but(settled=before.settled)
    if not await store.change([EntryChange(begun.field, unchanged_or_absent(begun), hold.entry.encode())]):
        raise lost_file(hold.path, "taken")


async def _upgrade_lease(
    engine: Engine[L],
    store: FileLockStore,
    hold: HeldFile[L],
    lease: L,
    own: Owner,
    *,
    ttl: float,
    wait: float | None,
) -> UpgradeConflict | None:
    """Replace the reader's lease of the hold with a writer's; the conflict if that would deadlock.

    Raises `LockBusy` if others still read when the wait is over: the reader's lease is as it was then. If the
    outcome is unknown, both leases are given up, because the reader's may be gone already. `LeaseLost` if the hold is
    released at the same time.
    """
    ticket = engine.notifications.new_ticket()
    give_up_at = math.inf if wait is None else engine.clock.now() + wait
    granted: list[L] = []
    try:
        while True:
            hold.check_not_releasing()
            left = max(0.0, give_up_at - engine.clock.now())

            async def ask(left: float = left) -> L | UpgradeConflict:
                reply = await _request(
                    engine, store, lease, own, ticket, ttl, min(left, validation.MAX_WAIT), granted
                )
                if isinstance(reply, LeaseState):
                    # In this order, so that the hold never has a lease that has ended; and before the turn is over,
                    # or a renewal would be sent for a lease that is gone.
                    hold.exchange(lease, reply)
                    lease.end("released")
                    lease.is_given_back = True
                return reply

            # While no other request for the lease is under way: a renewal that comes after would find nothing.
            reply = await lease.run_in_turn(ask)
            if isinstance(reply, LeaseState):
                return None
            if reply.is_deadlock:
                _leave_queue(engine, lease, own)
                return reply
            if not left:
                holding = reply.holding
                raise LockBusy(
                    lease.name,
                    holder=holding and holding.holder,
                    held_since=holding and holding.since,
                    retry_after=reply.remaining,
                    mode="shared",
                )
            await hold.wait_for_release(
                min(left, engine.backoff.cap * (0.5 + 0.5 * engine.random.fraction()))
            )
    except BaseException:
        if granted:
            # A signal handler has raised, and the reader's lease has ended: neither may count from here on.
            release_in_background(engine, [*granted, lease])
        _leave_queue(engine, lease, own)
        raise


async def _request(
    engine: Engine[L],
    store: FileLockStore,
    lease: L,
    own: Owner,
    ticket: int,
    ttl: float,
    wait: float,
    granted: list[L],
) -> L | UpgradeConflict:
    """Send the request; add the lease that it got to ``granted``, and return it."""
    encoded = validation.encode_holder(own.holder)
    retry = NotAfterRetry(engine)

    async def ask(not_after: NotAfter) -> TrustedGrant | UpgradeConflict | None:
        lease.check()
        sent_at = engine.clock.now()
        reply = await store.upgrade(lease.name, lease.token, own.token, ticket, ttl, encoded, wait, not_after)
        if reply is None or isinstance(reply, UpgradeConflict):
            return reply
        grant = trusted_grant(reply, sent_at, engine.clock.now())
        if grant is None:
            raise late_grant(lease.name, ttl)
        return grant

    try:
        reply = await retry.run(ask)
    except LeaseLost:
        raise
    except BaseException as error:
        # A refusal that follows a lost reply says nothing about the request before it.
        if retry.was_silent or not isinstance(error, StoreRefused):
            # It may have been done. Then the reader's lease has ended, and as soon as the writer's is released another
            # session may write: so neither counts from here on.
            lease.end("released")
            engine.schedule_cleanup(lease.name, lease.token, lease.ttl, was_silent=True)
        raise
    if reply is None:
        lease.end("expired")
        raise LeaseLost(lease.name, "expired")
    if isinstance(reply, UpgradeConflict):
        return reply
    granted.append(
        engine.new_lease(
            lease.name, own.token, ticket, "exclusive", own.holder, ttl, reply, renew=lease.renews
        )
    )
    return granted[0]


def _leave_queue(engine: Engine[L], lease: L, own: Owner) -> None:
    # Without an end: a place in the queue stays as long as this client waits for anything behind the same lock.
    engine.schedule_cleanup(lease.name, own.token, math.inf, was_silent=True)
