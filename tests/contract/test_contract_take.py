"""Take: the old holders are notified at once, and waiters keep waiting."""

from __future__ import annotations

import asyncio

import pytest
from tests.contract.queues import LONG, end_hold, join, token
from tests.support.eventually import LIMIT, eventually_async

from leasehold import LeaseLost, LockBusy

SHARED = {"mode": "shared"}
RARELY = {"retry_interval": 5}


async def is_notified_of_its_loss(lease, locks):
    """By a notification on our own connections. Over a redis-py client the next renewal or release reports it."""
    if locks.receives_notifications:
        # Far less than its ttl, and than the third of it after which a renewal would find the loss.
        assert await lease.lost(LIMIT) == "taken"
        assert lease.is_lost
        with pytest.raises(LeaseLost) as lost:
            lease.check()
        assert lost.value.reason == "taken"
    for verb in (lease.renew, lease.release):
        with pytest.raises(LeaseLost) as lost:
            await verb()
        assert lost.value.reason == "taken"


@pytest.mark.topologies
@pytest.mark.parametrize("renew", [True, False])
@pytest.mark.topologies
async def test_the_holder_is_notified_at_once(locks, rival, admin, renew):
    await locks.subscribed(admin)
    old = await locks.acquire("a", ttl=300, renew=renew)
    new = await rival.take("a", ttl=300)
    await is_notified_of_its_loss(old, locks)
    new.check()
    assert (await rival.inspect("a")).fence == new.fence


@pytest.mark.topologies
async def test_a_client_may_take_from_itself(locks, admin):
    """The notification and the reply arrive on one connection, in either order."""
    await locks.subscribed(admin)
    leases = [await locks.acquire("a", ttl=300)]
    for _ in range(5):
        leases.append(await locks.take("a", ttl=300))
        await is_notified_of_its_loss(leases[-2], locks)
        leases[-1].check()
    await leases[-1].renew()


async def test_a_wait_for_the_end_of_the_lease_ends(locks, rival, admin):
    await locks.subscribed(admin)
    old = await locks.acquire("a", ttl=300)
    if not locks.receives_notifications:
        return
    waiting = asyncio.create_task(old.lost())
    await asyncio.sleep(0)
    await rival.take("a")
    done, _ = await asyncio.wait({waiting}, timeout=LIMIT)
    assert done, "there was no notification"
    assert waiting.result() == "taken"


async def test_a_body_is_stopped_at_once(locks, rival, admin):
    """A task is cancelled; a thread sees it in `is_lost`, and the end of `with` raises it."""
    await locks.subscribed(admin)
    if not locks.receives_notifications:
        return

    async def body():
        async with locks.lock("a", ttl=300) as lease:
            await rival.take("a")  # cancelled here, if the notification arrives before the reply
            # Renewal would find the loss after a hundred seconds, longer than this test waits.
            await eventually_async(lambda: lease.is_lost and locks.is_blocking, within=LIMIT)

    with pytest.raises(LeaseLost) as lost:
        await body()
    assert lost.value.reason == "taken"


async def test_a_lease_that_was_handed_over_can_be_taken_as_well(locks, rival, admin):
    await locks.subscribed(admin)
    held = await rival.acquire("a", ttl=300)
    waiting = await join(locks, "a", ttl=300)
    await held.release()
    old = await waiting
    new = await rival.take("a", ttl=300)
    await is_notified_of_its_loss(old, locks)
    new.check()


async def test_a_grant_that_is_taken_before_it_was_claimed_is_lost(combination, opened, locks):
    """The waiter's repeated acquire joins the queue again, behind later waiters."""
    slow = await opened(combination[1], **RARELY)
    fence, *_ = await locks.ask("a", token(1))
    await slow.ask("a", token(2), wait=LONG)
    await slow.ask("a", token(3), wait=LONG)
    await locks.ask_store("release", "a", token(1), fence, None)
    granted = (await locks.inspect("a")).fence
    taken = await locks.take("a", ttl=300)
    assert taken.fence > granted
    again = await slow.ask("a", token(2), wait=LONG)
    assert (again.position, again.waiters) == (2, 2)


# Readers


@pytest.mark.topologies
@pytest.mark.decoded
async def test_all_readers_lose_the_lock(locks, rival, admin):
    await locks.subscribed(admin)
    await rival.subscribed(admin)
    readers = [(client, await client.acquire("a", ttl=300, **SHARED)) for client in (locks, rival, locks)]
    new = await rival.take("a", ttl=300, holder="ops")
    for client, reader in readers:
        await is_notified_of_its_loss(reader, client)
    assert new.fence > max(reader.fence for _, reader in readers)
    info = await locks.inspect("a")
    assert (info.mode, [hold.holder for hold in info.holds]) == ("exclusive", ["ops"])
    assert await locks.try_acquire("a", **SHARED) is None


async def test_taken_is_the_reason_for_every_reader_also_much_later(locks, rival):
    """One reader's lease is longer than the other's, and the taker has gone since."""
    readers = [await locks.acquire("a", ttl=ttl, **SHARED) for ttl in (60, 20, 40)]
    await (await rival.take("a")).release()
    await rival.acquire("a", **SHARED)
    for reader in readers:
        with pytest.raises(LeaseLost) as lost:
            await reader.renew()
        assert lost.value.reason == "taken"


async def test_a_shared_take_admits_other_readers_but_no_writer(locks, rival, admin):
    await locks.subscribed(admin)
    writer = await locks.acquire("a", ttl=300)
    taken = await rival.take("a", ttl=300, holder="taker", **SHARED)
    await is_notified_of_its_loss(writer, locks)
    assert taken.mode == "shared"
    assert await locks.try_acquire("a") is None
    reader = await locks.try_acquire("a", **SHARED)
    assert reader.fence > taken.fence > writer.fence
    assert len((await locks.inspect("a")).holds) == 2


async def test_a_shared_take_ends_the_readers_before_it(locks, rival):
    old = await locks.acquire("a", ttl=300, holder="old", **SHARED)
    await rival.take("a", ttl=300, holder="new", **SHARED)
    assert [hold.holder for hold in (await locks.inspect("a")).holds] == ["new"]
    with pytest.raises(LeaseLost) as lost:
        await old.renew()
    assert lost.value.reason == "taken"


async def test_a_shared_take_grants_to_the_readers_that_are_next(locks, rival):
    await locks.acquire("a", ttl=300)
    reader = await join(locks, "a", holder="reader", **SHARED)
    writer = await join(rival, "a", holder="writer")
    later = await join(locks, "a", holder="later", **SHARED)
    taken = await rival.take("a", ttl=300, holder="taker", **SHARED)
    await reader
    assert sorted(hold.holder for hold in (await locks.inspect("a")).holds) == ["reader", "taker"]
    assert (writer.done(), later.done()) == (False, False)
    await taken.release()
    await (await reader).release()
    await (await writer).release()
    await (await later).release()


# The queue


async def test_a_taken_lock_keeps_its_queue(locks, rival):
    await locks.acquire("a", ttl=300)
    first = await join(rival, "a", holder="first")
    second = await join(locks, "a", holder="second")
    for _ in range(2):
        taken = await rival.take("a", ttl=300, holder="ops")
        info = await locks.inspect("a")
        assert (info.holder, info.waiters) == ("ops", 2)
    assert (first.done(), second.done()) == (False, False)
    await taken.release()
    lease = await first
    assert lease.fence > taken.fence
    assert not second.done()
    await lease.release()
    assert (await second).fence > lease.fence


async def test_a_take_of_an_expired_hold_passes_the_queue_and_keeps_it(combination, opened, locks):
    slow = await opened(combination[1], **RARELY)
    fence, *_ = await locks.ask("a", token(1))
    await slow.ask("a", token(2), wait=LONG)
    await end_hold(locks, "a", token(1), fence)
    taken = await locks.take("a", ttl=300)
    assert (await locks.inspect("a")).waiters == 1
    await taken.release()
    fence, *_ = await slow.ask("a", token(2), wait=LONG)
    assert fence > taken.fence


async def test_the_queue_moves_on_when_the_taker_expires(on_every_side):
    async def behaviour(locks, name):
        await locks.acquire(name, ttl=300)
        waiting = await join(locks, name)
        taken = await locks.take(name, ttl=1)
        lease = await waiting
        assert taken.is_lost
        assert lease.fence > taken.fence

    await on_every_side(behaviour)


# The expected holder


async def test_among_readers_the_latest_fence_is_the_expected_one(locks, rival):
    """A reader that began after the taker's inspect makes the take fail."""
    one = await locks.acquire("a", ttl=300, holder="one", **SHARED)
    two = await rival.acquire("a", ttl=300, holder="two", **SHARED)
    for wrong in (one.fence, two.fence + 1, 0):
        with pytest.raises(LockBusy):
            await rival.take("a", expect_fence=wrong)
    one.check()
    await one.renew()
    await two.renew()
    assert (await locks.inspect("a")).fence == two.fence
    assert (await rival.take("a", expect_fence=two.fence)).fence > two.fence


@pytest.mark.topologies
async def test_a_take_that_expects_another_holder_leaves_the_queue_alone(locks, rival):
    held = await locks.acquire("a", ttl=300, holder="alice")
    waiting = await join(rival, "a")
    with pytest.raises(LockBusy) as busy:
        await rival.take("a", expect_fence=held.fence + 1)
    assert busy.value.holder == "alice"
    assert (await locks.inspect("a")).waiters == 1
    await held.release()
    await (await waiting).release()


async def test_the_fence_that_was_read_is_the_one_to_expect(locks, rival):
    await locks.acquire("a", ttl=300, **SHARED)
    await rival.acquire("a", ttl=300, **SHARED)
    await locks.acquire("b", ttl=300)
    for name in ("a", "b"):
        taken = await rival.take(name, expect_fence=(await rival.inspect(name)).fence)
        again = await locks.take(name, expect_fence=(await locks.inspect(name)).fence)
        assert again.fence > taken.fence
