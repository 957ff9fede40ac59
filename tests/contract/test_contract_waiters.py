"""Waiting for a lock: in order of arrival, with notifications, and leaving the queue."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.contract.queues import (
    CLAIM_WINDOW,
    LONG,
    PRESENCE,
    end_hold,
    join,
    join_behind_one_that_gives_up,
    queue_has,
    token,
    with_a_ttl_that_lasts,
)
from tests.support.eventually import LIMIT, eventually_async

from leasehold import AcquireTimeout, LockBusy, StoreError
from leasehold.core.replies import DONE, Busy, LockWaiters, Renewal

# Clients that poll so rarely count as alive for four times as long: no pause of the machine costs them their place.
RARELY = {"retry_interval": 5}


# First come, first served


@pytest.mark.decoded
@pytest.mark.clustered
async def test_a_release_hands_the_lock_to_the_first_waiter(locks, rival):
    held = await locks.acquire("a", ttl=30)
    first = await join(rival, "a", holder="first")
    second = await join(locks, "a", holder="second")
    await held.release()
    lease = await first
    info = await rival.inspect("a")
    assert (info.holder, info.fence, info.waiters) == ("first", lease.fence, 1)
    assert not second.done()
    await lease.release()
    assert (await second).fence > lease.fence > held.fence


async def test_waiters_of_several_clients_are_served_in_the_order_of_arrival(locks, rival):
    held = await locks.acquire("a", ttl=30)
    waiting = [await join((locks, rival)[number % 2], "a", holder=str(number)) for number in range(6)]
    assert (await rival.inspect("a")).waiters == 6
    served, fences = [], [held.fence]
    await held.release()
    for number, task in enumerate(waiting):
        lease = await task
        served.append((await locks.inspect("a")).holder)
        fences.append(lease.fence)
        assert [other.done() for other in waiting[number + 1 :]] == [False] * (5 - number)
        await lease.release()
    assert served == list("012345")
    assert fences == sorted(set(fences))


async def test_the_lock_is_free_after_the_last_waiter_has_released(locks, rival, admin):
    held = await locks.acquire("a", ttl=30)
    waiting = await join(rival, "a")
    await held.release()
    await (await waiting).release()
    assert not admin.exists("lock:{a}", "lock:{a}:queue", "lock:{a}:readers")
    assert await locks.try_acquire("a") is not None


async def test_no_newcomer_passes_the_queue_even_when_the_hold_has_expired(combination, opened, locks):
    """The newcomer's acquire hands the lock over to the first waiter."""
    first = await opened(combination[1], **RARELY)

    async def enter_all(name):
        async with locks.lock_all([f"other than {name}", name], wait=0):
            raise AssertionError("never")

    newcomers = {
        "try_acquire": locks.try_acquire,
        "try_acquire shared": lambda name: locks.try_acquire(name, mode="shared"),
        "acquire": lambda name: locks.acquire(name, wait=0),
        "acquire shared": lambda name: locks.acquire(name, wait=0, mode="shared"),
        "acquire, waiting a little": lambda name: locks.acquire(name, wait=0.05),
        "lock_all": enter_all,
    }
    for name, newcomer in newcomers.items():
        fence, *_ = await locks.ask(name, token(1))
        waits = await first.ask(name, token(2), wait=LONG, holder='"first"')
        assert waits.position == 1
        await end_hold(locks, name, token(1), fence)
        assert (await locks.inspect(name)).waiters == 1
        began_at = time.monotonic()
        (answer,) = await asyncio.gather(newcomer(name), return_exceptions=True)
        if time.monotonic() - began_at >= CLAIM_WINDOW:  # the first has not claimed it in time
            continue
        if answer is not None:
            assert isinstance(answer, LockBusy), f"{name} passed the queue"
            assert (answer.name, answer.holder) == (name, "first")
        fence, left, _ = await first.ask(name, token(2), wait=LONG, holder='"first"')
        assert fence > 0
        assert left > CLAIM_WINDOW  # claimed: now it is a lease like any other


async def test_when_the_holder_expires_the_first_waiter_gets_the_lock(on_every_side):
    async def behaviour(locks, name):
        held = await locks.acquire(name, ttl=300)
        first = await join(locks, name, ttl=LONG, holder="first")
        second = await join(locks, name, ttl=LONG, holder="second")
        await held.renew(0.5)
        lease = await first
        assert held.is_lost  # the old holder's deadline is before the next holder's grant
        assert (await locks.inspect(name)).holder == "first"
        assert not second.done()
        assert lease.fence > held.fence
        await lease.release()
        assert (await second).fence > lease.fence

    await on_every_side(behaviour)


async def test_a_repeated_acquire_with_the_same_token_keeps_the_place(combination, opened):
    locks, rival = [await opened(combination[1], **RARELY) for _ in range(2)]
    await locks.ask("a", token(1))

    async def place(client, number, **options):
        answer = await client.ask("a", token(number), **{"wait": LONG} | options)
        assert isinstance(answer, Busy)
        return answer.position

    assert [await place(locks, 2), await place(rival, 3), await place(locks, 4)] == [1, 2, 3]
    assert [await place(locks, 2), await place(rival, 3), await place(locks, 4)] == [1, 2, 3]
    assert await place(locks, 2, ttl=5, mode="shared") == 1  # with any new terms
    assert await place(locks, 2, wait=0) is None  # without a wait
    assert [await place(rival, 3), await place(locks, 4)] == [1, 2]
    assert await place(locks, 2) == 3


async def test_a_waiter_that_joins_gets_the_rest_of_the_hold(combination, opened):
    """It polls then if it gets no notification; behind a plain record as well as behind a queue."""
    locks = await opened(combination[1], **RARELY)
    await locks.ask("a", token(1), ttl=300)
    for number in (2, 3, 2):
        answer = await locks.ask("a", token(number), wait=LONG)
        assert 200 < answer.remaining <= 300
        assert (answer.holder, answer.mode) == ("me", "exclusive")
        assert answer.held_since is not None
    assert 200 < (await locks.inspect("a")).remaining <= 300


@pytest.mark.decoded
async def test_a_poll_returns_the_place_the_grant_and_unknown_tokens(combination, opened):
    locks = await opened(combination[1], **RARELY)
    fence, *_ = await locks.ask("a", token(1), ttl=300)
    await locks.ask("a", token(2), wait=LONG)
    await locks.ask("a", token(3), wait=LONG)
    lines = [LockWaiters("a", [token(number) for number in (3, 1, 2, 9)]), LockWaiters("b", [token(1)])]
    before = time.time()
    look, nothing = await locks.ask_store("look", lines)
    assert (look.places[0], look.places[2], look.places[3]) == (2, 1, None)
    assert look.places[1][0] == fence
    assert 200 < look.places[1][1] <= 300
    assert 200 < look.remaining <= 300
    assert abs(look.read_at - before) < 30
    assert (nothing.remaining, list(nothing.places)) == (0, [None])
    await locks.ask_store("release", "a", token(1), fence, None)
    (look,) = await locks.ask_store("look", [LockWaiters("a", [token(2)])])
    assert look.places[0][0] > fence


# Leaving the queue


async def test_a_waiter_that_gives_up_leaves_the_queue_at_once(locks, rival, admin):
    held = await locks.acquire("a", ttl=30)
    with pytest.raises(AcquireTimeout):
        await rival.acquire("a", wait=0.1)
    assert (await locks.inspect("a")).waiters == 0
    assert not admin.exists("lock:{a}:queue")
    await held.renew()
    await held.release()
    assert await locks.try_acquire("a") is not None


async def test_a_waiter_that_gives_up_does_not_delay_those_behind(on_every_side):
    async def behaviour(locks, name):
        held, patient = await join_behind_one_that_gives_up(
            locks, name, lambda lock: locks.acquire(lock, ttl=300)
        )
        assert (await locks.inspect(held.name)).waiters == 1
        await held.release()
        assert (await patient).fence > held.fence

    await on_every_side(behaviour)


async def test_a_cancelled_waiter_leaves_the_queue(on_every_side):
    async def behaviour(locks, name):
        if locks.is_blocking:
            return  # threads cannot be cancelled
        held = await locks.acquire(name, ttl=30)
        cancelled = await join(locks, name)
        patient = await join(locks, name)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await queue_has(locks, name, 1)
        await held.release()
        lease = await patient
        await lease.release()
        assert not (await locks.inspect(name)).is_held

    await on_every_side(behaviour)


async def test_a_waiter_of_a_dead_client_is_skipped(on_every_side, opened):
    """It never polls, so after three seconds it does not count as alive. The waiters behind it do."""
    dead = await opened("async")

    async def behaviour(locks, name):
        held = await locks.acquire(name, ttl=300)
        assert (await dead.ask(name, token(1), wait=LONG)).position == 1
        asked_at = time.monotonic()
        alive = asyncio.create_task(locks.acquire(name, ttl=LONG, wait=LONG, holder="alive"))

        async def only_the_live_one_waits():
            is_dead_gone = (
                time.monotonic() > asked_at + PRESENCE
            )  # before the poll: the live waiter may not have joined yet
            return is_dead_gone and (await locks.inspect(name)).waiters == 1

        await eventually_async(only_the_live_one_waits, every=0.1)
        assert not alive.done()
        await held.release()
        assert (await alive).fence > held.fence
        assert (await locks.inspect(name)).holder == "alive"

    await on_every_side(behaviour)


async def test_an_unclaimed_grant_costs_the_next_waiter_only_a_moment(on_every_side, opened):
    """The first in the queue dies and is granted the lock after that, for two seconds instead of a thousand."""
    dead = await opened("async", **RARELY)

    async def behaviour(locks, name):
        held = await locks.acquire(name, ttl=300)
        await dead.ask(name, token(1), ttl=1000, wait=LONG)
        await held.release()
        info = await locks.inspect(name)
        assert info.fence > held.fence
        assert info.waiters == 0
        if info.is_held:  # or the machine paused for longer
            assert info.holder == "me"
            assert 0 < info.remaining <= CLAIM_WINDOW
        alive = await locks.acquire(name, ttl=300, wait=LONG)
        assert alive.fence > info.fence
        assert alive.remaining() > 200
        missed = await dead.ask(name, token(1), ttl=1000, wait=LONG)
        assert missed.position == 1  # at the tail, like every newcomer

    await on_every_side(behaviour)


async def test_a_waiter_past_its_deadline_is_skipped_however_alive_its_client_is(combination, opened, locks):
    slow = await opened(combination[1], retry_interval=50)
    fence, *_ = await locks.ask("a", token(1))
    assert (await slow.ask("a", token(2), wait=0.2)).position == 1
    await queue_has(locks, "a", 0)
    await locks.ask_store("release", "a", token(1), fence, None)
    assert not (await locks.inspect("a")).is_held
    assert await locks.try_acquire("a") is not None


async def test_closing_the_client_ends_the_waiting(combination, opened, locks):
    """With an error: whether the lock would have been granted is not known."""
    closing = await opened(combination[1])
    await locks.acquire("a", ttl=60)
    waiting = await join(closing, "a", wait=300)
    await closing.do(closing.client.close)
    done, _ = await asyncio.wait({waiting}, timeout=LIMIT)
    assert done, "it waits on"
    assert isinstance(waiting.exception(), StoreError)


# Notifications


@pytest.mark.clustered
async def test_a_waiter_is_notified_and_need_not_poll(combination, opened, locks, admin):
    """Sides without notifications poll instead; every other test covers that."""
    slow = await opened(combination[1], retry_interval=200)
    if not slow.receives_notifications:
        return
    await slow.subscribed(admin)
    held = await locks.acquire("a", ttl=300)
    waiting = await join(slow, "a", ttl=300, wait=200)
    await held.release()
    done, _ = await asyncio.wait({waiting}, timeout=LIMIT)
    assert done, "it waits for its next poll"
    assert waiting.result().remaining() > 200


async def test_a_waiter_polls_when_the_hold_is_due_to_end(on_every_side, flavour, opened, every_side):
    """Even with a long interval: a dead holder causes no notification."""
    slow = {locks.client: await opened(side, retry_interval=200) for side, locks in every_side.items()}

    async def behaviour(locks, name):
        held = await locks.acquire(name, ttl=1)
        waiting = asyncio.create_task(slow[locks.client].acquire(name, ttl=30, wait=200))
        done, _ = await asyncio.wait({waiting}, timeout=LIMIT)
        assert done, "it waits for its next poll"
        assert waiting.result().fence > held.fence

    await on_every_side(behaviour)


async def test_a_waiter_polls_again_when_a_hold_was_renewed(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            held = await locks.acquire(name, ttl=ttl, wait=LONG)
            waiting = asyncio.create_task(locks.acquire(name, ttl=30, wait=LONG))
            await eventually_async(lambda: is_waited_for(locks, name, waiting))
            try:
                await held.renew(ttl + 1)
            finally:
                lease = await waiting
                await lease.release()
            assert held.is_lost
            assert lease.fence > held.fence

        await with_a_ttl_that_lasts(attempt, 1, 4, 16)

    await on_every_side(behaviour)


async def is_waited_for(locks, name, waiting):
    return waiting.done() or (await locks.inspect(name)).waiters == 1


@pytest.mark.clustered
async def test_waiting_survives_a_script_flush(locks, rival, admin):
    held = await locks.acquire("a", ttl=30)
    waiting = await join(rival, "a")
    admin.script_flush()
    await held.renew()
    admin.script_flush()
    await held.release()
    admin.script_flush()
    assert (await waiting).fence > held.fence


# What the waiter gets


async def test_a_lease_that_was_waited_for_lasts_its_whole_ttl(locks, rival):
    """It was claimed before `acquire` returned, so it needs no renewal to last longer than the claim window."""
    held = await locks.acquire("a", ttl=30)
    waiting = await join(rival, "a", ttl=300)
    await held.release()
    lease = await waiting
    assert 200 < lease.remaining() <= 300
    assert 200 < (await locks.inspect("a")).remaining <= 300
    await lease.renew()
    lease.check()


async def test_a_renewed_lease_that_was_waited_for_lasts_beyond_its_claim_window(on_every_side):
    async def behaviour(locks, name):
        for _ in range(4):  # a machine that pauses for two seconds misses the window, and needs another try
            held = await locks.acquire(name, ttl=30)
            waiting = await join(locks, name, ttl=30, renew=True)
            await held.release()
            lease = await waiting
            await eventually_async(lambda lease=lease: lease.is_lost or lease.remaining() > 10)
            if not lease.is_lost:
                break
        lease.check()
        assert (await locks.inspect(name)).remaining > 10
        await lease.release()
        assert not (await locks.inspect(name)).is_held

    await on_every_side(behaviour)


async def test_a_short_lease_that_was_waited_for_is_not_longer_than_it_was_asked_for(locks, rival):
    held = await locks.acquire("a", ttl=30)
    waiting = await join(rival, "a", ttl=1, holder="short")
    await held.release()
    info = await locks.inspect("a")
    assert info.remaining is None or info.remaining <= 1
    lease = await waiting
    assert lease.remaining() <= 1


async def test_a_floor_is_honoured_for_waiters(locks, rival):
    held = await locks.acquire("a", ttl=30)
    floor = held.fence + 10**15
    waiting = await join(rival, "a", floor=floor)
    after = await join(locks, "a")
    await held.release()
    lease = await waiting
    assert lease.fence >= floor
    await lease.release()
    assert (await after).fence > lease.fence


async def test_fences_grow_along_the_queue_after_the_loss_of_all_data(locks, rival, admin):
    held = await locks.acquire("a", ttl=30)
    waiting = await join(rival, "a")
    admin.delete("lock:{a}:fence")
    await held.release()
    assert (await waiting).fence > held.fence


async def test_waiting_without_limit(locks, rival):
    held = await locks.acquire("a", ttl=30)
    waiting = [await join(client, "a", wait=None) for client in (rival, locks, rival)]
    await held.release()
    fences = [held.fence]
    for task in waiting:
        lease = await task
        fences.append(lease.fence)
        await lease.release()
    assert fences == sorted(set(fences))


# The errors of calls that do not get the lock


@pytest.mark.decoded
async def test_busy_names_holder_start_remaining_time_and_number_of_waiters(locks, rival):
    asked_at = time.time()
    await locks.acquire("a", ttl=60, holder={"user": "alice"})
    with pytest.raises(LockBusy) as alone:
        await rival.acquire("a", wait=0)
    waiting = await join(rival, "a", wait=LONG)
    with pytest.raises(LockBusy) as behind_another:
        await rival.acquire("a", wait=0)
    for busy, waiters in ((alone.value, 0), (behind_another.value, 1)):
        assert (busy.name, busy.holder, busy.mode) == ("a", {"user": "alice"}, "exclusive")
        assert (busy.waiters, busy.position) == (waiters, None)
        assert abs(busy.held_since - asked_at) < 30
        assert 30 < busy.retry_after <= 60
        assert not isinstance(busy, AcquireTimeout)
    assert not waiting.done()
    await (await locks.take("a")).release()
    await waiting


async def test_a_timeout_also_names_the_place_in_the_queue(locks, rival):
    asked_at = time.time()
    held = await locks.acquire("a", ttl=60, holder="alice")
    waiting = await join(rival, "a", wait=LONG)
    with pytest.raises(AcquireTimeout) as second:
        await locks.acquire("a", wait=0.1)
    error = second.value
    assert (error.name, error.holder, error.mode, error.waited) == ("a", "alice", "exclusive", 0.1)
    assert (error.position, error.waiters) == (2, 1)
    assert abs(error.held_since - asked_at) < 30
    assert 30 < error.retry_after <= 60
    assert "number 2 in the queue" in str(error)
    await held.release()
    await (await waiting).release()


async def test_a_hold_starts_with_its_hand_over(combination, opened, locks):
    """Not with the start of the wait."""
    slow = await opened(combination[1], **RARELY)
    fence, *_ = await locks.ask("a", token(1))
    began = await slow.ask("a", token(2), wait=LONG)
    await eventually_async(lambda: time.time() > began.asked_at + 0.2)
    await locks.ask_store("release", "a", token(1), fence, None)
    assert (await locks.inspect("a")).held_since > began.asked_at + 0.1


@pytest.mark.decoded
async def test_a_record_of_the_previous_version_is_understood(combination, opened, locks, admin):
    """Two versions may run side by side: the old one holds, the new one waits, and the lock passes between them."""
    slow = await opened(combination[1], **RARELY)
    for name in ("renewed", "released", "taken", "waited for"):
        record = f'1x{token(1)}1700000000000 "old one"'
        admin.set(f"lock:{{{name}}}", record, px=60_000)
        admin.set(f"lock:{{{name}}}:fence", 7, ex=1_000)
        info = await locks.inspect(name)
        assert (info.holder, info.held_since, info.mode, info.fence) == ("old one", 1.7e9, "exclusive", 7)
        with pytest.raises(LockBusy) as busy:
            await locks.acquire(name, wait=0)
        assert (busy.value.holder, busy.value.held_since) == ("old one", 1.7e9)
    waits = await slow.ask("waited for", token(2), wait=LONG)
    assert (waits.position, waits.holder) == (1, "old one")
    assert (await locks.inspect("waited for")).waiters == 1
    await locks.ask_store("release", "waited for", token(1), 7, None)
    fence, *_ = await slow.ask("waited for", token(2), wait=LONG)
    assert fence > 7
    await locks.ask_store("release", "released", token(1), 7, None)
    assert not admin.exists("lock:{released}")
    assert (await locks.take("taken")).fence > 7
    assert await locks.ask_store("renew", [Renewal("renewed", token(1), 7, 900)]) == [DONE]
    assert (await locks.inspect("renewed")).remaining > 800
