"""Readers share a lock, each with its own lease; a writer excludes all others; neither starves the other."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.contract.queues import (
    CLAIM_WINDOW,
    LONG,
    join,
    join_behind_one_that_gives_up,
    renewed,
    seen_within,
    token,
    with_a_ttl_that_lasts,
)
from tests.support.eventually import LIMIT, eventually_async

from leasehold import AcquireTimeout, InvalidRequest, LeaseLost, LockBusy
from leasehold.core.replies import DONE, Busy, Ended, Renewal

SHARED = {"mode": "shared"}
RARELY = {"retry_interval": 5}


async def holders_of(locks, name):
    return [hold.holder for hold in (await locks.inspect(name)).holds]


async def reason_of(verb):
    with pytest.raises(LeaseLost) as lost:
        await verb()
    return lost.value.reason


# Sharing


@pytest.mark.topologies
async def test_readers_share_the_lock(locks, rival):
    readers = [
        await locks.acquire("a", **SHARED),
        await rival.try_acquire("a", **SHARED),
        await locks.acquire("a", wait=0, **SHARED),
        await rival.take("b", **SHARED),
        await locks.acquire("b", **SHARED),
    ]
    for reader in readers:
        reader.check()
        assert reader.mode == "shared"
    assert len({reader.token for reader in readers}) == 5
    assert [reader.fence for reader in readers[:3]] == sorted({reader.fence for reader in readers[:3]})


async def test_a_body_may_share_too(locks, rival):
    async with locks.lock("a", ttl=30, **SHARED) as one, rival.lock("a", ttl=30, **SHARED) as other:
        one.check()
        other.check()
        assert await locks.try_acquire("a") is None
    assert await locks.try_acquire("a") is not None


async def test_readers_keep_a_writer_out(locks, rival):
    asked_at = time.time()
    await locks.acquire("a", ttl=40, holder="reader", **SHARED)
    assert await rival.try_acquire("a") is None
    with pytest.raises(LockBusy) as busy:
        await rival.acquire("a", wait=0)
    error = busy.value
    assert (error.holder, error.mode, error.waiters, error.position) == ("reader", "shared", 0, None)
    assert abs(error.held_since - asked_at) < 30
    assert 20 < error.retry_after <= 40
    with pytest.raises(AcquireTimeout) as timeout:
        await rival.acquire("a", wait=0.1)
    assert (timeout.value.holder, timeout.value.mode, timeout.value.position) == ("reader", "shared", 1)


async def test_a_writer_keeps_readers_out(locks, rival):
    await locks.acquire("a", ttl=40, holder="writer")
    assert await rival.try_acquire("a", **SHARED) is None
    with pytest.raises(LockBusy) as busy:
        await rival.acquire("a", wait=0, **SHARED)
    assert (busy.value.holder, busy.value.mode) == ("writer", "exclusive")
    with pytest.raises(AcquireTimeout) as timeout:
        await rival.acquire("a", wait=0.1, **SHARED)
    assert (timeout.value.holder, timeout.value.mode) == ("writer", "exclusive")


@pytest.mark.decoded
async def test_a_writer_gets_the_lock_when_the_last_reader_has_left(locks, rival):
    readers = [await client.acquire("a", **SHARED) for client in (locks, rival, locks)]
    writer = await join(rival, "a", holder="writer")
    for reader in readers:
        assert not writer.done()
        assert (await locks.inspect("a")).waiters == 1
        await reader.release()
    lease = await writer
    assert lease.fence > max(reader.fence for reader in readers)
    info = await locks.inspect("a")
    assert (info.mode, info.holder, len(info.holds)) == ("exclusive", "writer", 1)


async def test_writers_exclude_readers(every_side):
    """Every side reads and writes concurrently: a writer is alone, readers see no partial write."""
    now = {"readers": 0, "writers": 0, "value": 0, "most": 0}
    all_readers = 2 * len(every_side)
    all_are_reading = asyncio.Event()

    async def read(locks):
        for _ in range(3):
            lease = await locks.acquire("a", ttl=LONG, wait=LONG, **SHARED)
            now["readers"] += 1
            now["most"] = max(now["most"], now["readers"])
            assert now["writers"] == 0
            seen = now["value"]
            if now["readers"] == all_readers:
                all_are_reading.set()
            await all_are_reading.wait()
            await asyncio.sleep(0.002)
            assert (now["value"], now["writers"]) == (seen, 0)
            now["readers"] -= 1
            await lease.release()

    async def write(locks):
        await all_are_reading.wait()
        for _ in range(2):
            lease = await locks.acquire("a", ttl=LONG, wait=LONG)
            now["writers"] += 1
            assert (now["readers"], now["writers"]) == (0, 1)
            value = now["value"]
            await asyncio.sleep(0.002)
            now["value"] = value + 1
            assert (now["readers"], now["writers"]) == (0, 1)
            now["writers"] -= 1
            await lease.release()

    async with asyncio.TaskGroup() as group:
        for locks in every_side.values():
            for work in (read, write, read):
                group.create_task(work(locks))
    assert now["value"] == 2 * len(every_side)
    assert now["most"] == all_readers


# The queue


@pytest.mark.topologies
async def test_a_waiting_writer_goes_before_later_readers(locks, rival):
    first = await locks.acquire("a", holder="first reader", **SHARED)
    writer = await join(rival, "a", holder="writer")
    assert await locks.try_acquire("a", **SHARED) is None
    with pytest.raises(LockBusy) as busy:
        await locks.acquire("a", wait=0, **SHARED)
    assert (busy.value.mode, busy.value.waiters) == ("shared", 1)
    later = await join(locks, "a", holder="later reader", **SHARED)
    assert await holders_of(locks, "a") == ["first reader"]
    await first.release()
    lease = await writer
    assert await holders_of(locks, "a") == ["writer"]
    assert not later.done()
    await lease.release()
    assert (await later).fence > lease.fence > first.fence


@pytest.mark.topologies
async def test_adjacent_readers_in_the_queue_are_granted_together(locks, rival):
    writer = await locks.acquire("a", ttl=60, holder="writer")
    one = await join(rival, "a", holder="one", **SHARED)
    two = await join(locks, "a", holder="two", **SHARED)
    second_writer = await join(rival, "a", holder="second writer")
    three = await join(locks, "a", holder="three", **SHARED)
    await writer.release()
    first, second = await one, await two
    assert sorted(await holders_of(locks, "a")) == ["one", "two"]
    assert (await locks.inspect("a")).waiters == 2
    assert first.fence < second.fence
    await first.release()
    assert await holders_of(locks, "a") == ["two"]
    assert not second_writer.done()
    await second.release()
    lease = await second_writer
    assert await holders_of(locks, "a") == ["second writer"]
    assert not three.done()
    await lease.release()
    assert (await three).fence > lease.fence > second.fence > writer.fence


async def test_readers_are_granted_together_in_one_step_up_to_the_next_writer(combination, opened, locks):
    """By the release itself, before any of them has polled."""
    slow = await opened(combination[1], **RARELY)

    async def scene(number):
        name = f"lock {number}"
        fence, *_ = await locks.ask(name, token(1))
        for number, mode in enumerate(("shared", "shared", "exclusive", "shared"), 2):
            await slow.ask(name, token(number), mode=mode, wait=LONG, holder=f'"{number}"')
        await locks.ask_store("release", name, token(1), fence, None)
        return fence, await locks.inspect(name)

    fence, info = await seen_within(CLAIM_WINDOW, scene)
    assert sorted(hold.holder for hold in info.holds) == ["2", "3"]
    assert (info.mode, info.waiters) == ("shared", 2)
    assert len({fence, *(hold.fence for hold in info.holds)}) == 3


async def test_a_new_reader_joins_the_readers_granted_from_the_queue(locks, rival):
    writer = await locks.acquire("a", ttl=60)
    one = await join(rival, "a", **SHARED)
    await writer.release()
    await one
    assert await locks.try_acquire("a", **SHARED) is not None


async def test_a_writer_that_gives_up_lets_the_readers_behind_it_read(on_every_side):
    async def behaviour(locks, name):
        async def hold(lock):
            return await locks.acquire(lock, ttl=300, holder="first", **SHARED)

        first, reader = await join_behind_one_that_gives_up(locks, name, hold, holder="behind", **SHARED)
        await reader
        assert sorted(await holders_of(locks, first.name)) == ["behind", "first"]

    await on_every_side(behaviour)


async def test_a_writer_of_a_dead_client_does_not_keep_readers_out_for_long(on_every_side, opened):
    dead = await opened("async")

    async def behaviour(locks, name):
        await locks.acquire(name, ttl=60, **SHARED)
        assert (await dead.ask(name, token(1), wait=LONG)).position == 1
        assert (await locks.acquire(name, wait=LONG, **SHARED)).mode == "shared"

    await on_every_side(behaviour)


async def test_a_reader_that_was_waited_for_has_its_whole_ttl(locks, rival):
    writer = await locks.acquire("a", ttl=60)
    waiting = await join(rival, "a", ttl=300, **SHARED)
    await writer.release()
    lease = await waiting
    assert 200 < lease.remaining() <= 300
    assert 200 < (await locks.inspect("a")).remaining <= 300


async def test_a_renewed_reader_that_was_waited_for_lasts_beyond_its_claim_window(on_every_side):
    async def behaviour(locks, name):
        for _ in range(4):  # a machine that pauses for two seconds misses the window, and needs another try
            writer = await locks.acquire(name, ttl=30)
            waiting = await join(locks, name, ttl=30, renew=True, **SHARED)
            await writer.release()
            lease = await waiting
            await eventually_async(lambda lease=lease: lease.is_lost or lease.remaining() > 10)
            if not lease.is_lost:
                break
        lease.check()
        assert (await locks.inspect(name)).remaining > 10

    await on_every_side(behaviour)


# Each reader has a lease of its own


async def test_the_release_of_a_reader_leaves_the_other_readers(locks, rival, admin):
    one = await locks.acquire("a", ttl=30, holder="one", **SHARED)
    two = await rival.acquire("a", ttl=60, holder="two", **SHARED)
    three = await locks.acquire("a", ttl=20, holder="three", **SHARED)
    await two.release()
    assert two.is_lost
    assert sorted(await holders_of(rival, "a")) == ["one", "three"]
    assert await rival.try_acquire("a") is None
    for reader in (one, three):
        reader.check()
        await reader.renew()
    await two.release()  # harmless when repeated
    await one.release()
    await three.release()
    assert not admin.exists("lock:{a}", "lock:{a}:readers", "lock:{a}:queue")
    assert (await locks.acquire("a", wait=0)).fence > three.fence


async def test_a_reader_renews_its_own_lease_only(locks, rival):
    one = await locks.acquire("a", ttl=200, holder="one", **SHARED)
    two = await rival.acquire("a", ttl=200, holder="two", **SHARED)
    await one.renew(1000)
    left = {hold.holder: hold.remaining for hold in (await locks.inspect("a")).holds}
    assert 500 < left["one"] <= 1000
    assert 0 < left["two"] <= 200
    assert 500 < one.remaining() <= 1000
    await one.renew(50)
    assert one.remaining() <= 50
    left = {hold.holder: hold.remaining for hold in (await locks.inspect("a")).holds}
    assert left["one"] <= 50
    assert left["two"] > 0
    two.check()


async def test_a_reader_is_kept_alive(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            lease = await locks.acquire(name, ttl=ttl, renew=True, **SHARED)
            await renewed(lease)
            await lease.release()
            await eventually_async(lambda: _is(holders_of(locks, name), []))

        await with_a_ttl_that_lasts(attempt)

    await on_every_side(behaviour)


async def test_a_reader_expires_alone(on_every_side):
    async def behaviour(locks, name):
        dead = await locks.acquire(name, ttl=0.5, holder="dead", **SHARED)
        alive = await locks.acquire(name, ttl=60, holder="alive", **SHARED)
        assert await dead.lost() == "expired"
        await eventually_async(lambda: _is(holders_of(locks, name), ["alive"]))
        assert await reason_of(dead.renew) == "expired"
        assert await reason_of(dead.release) == "expired"
        alive.check()
        await alive.renew()
        assert await holders_of(locks, name) == ["alive"]
        assert await locks.try_acquire(name) is None

    await on_every_side(behaviour)


async def test_a_dead_reader_keeps_a_writer_out_until_its_ttl_ends_and_no_longer(on_every_side):
    async def behaviour(locks, name):
        dead = await locks.acquire(name, ttl=1.5, **SHARED)
        alive = await locks.acquire(name, ttl=60, **SHARED)
        writer = await join(locks, name)
        await alive.release()
        lease = await writer
        assert dead.is_lost
        assert lease.fence > alive.fence > dead.fence

    await on_every_side(behaviour)


async def test_a_renewal_never_re_creates_a_reader(locks, rival, admin):
    """S6, directly at the scripts, while other readers hold the lock."""
    gone = await locks.acquire("a", ttl=30, **SHARED)
    await rival.acquire("a", ttl=30, holder="other", **SHARED)
    admin.zrem("lock:{a}:readers", gone.token)
    renewal = Renewal("a", gone.token, gone.fence, 30)
    assert await locks.ask_store("renew", [renewal]) == [Ended.EXPIRED]
    assert await reason_of(gone.renew) == "expired"
    assert await holders_of(rival, "a") == ["other"]


async def test_release_and_renew_of_a_reader_touch_only_its_own_token(locks, rival):
    """S5 among readers."""
    one = await locks.acquire("a", ttl=30, **SHARED)
    await rival.acquire("a", ttl=30, **SHARED)
    for stranger in (token(1), one.token[:-1], ""):
        assert await locks.ask_store("release", "a", stranger, one.fence, None) == Ended.EXPIRED
        assert await locks.ask_store("renew", [Renewal("a", stranger, one.fence, 900)]) == [Ended.EXPIRED]
    info = await locks.inspect("a")
    assert len(info.holds) == 2
    assert info.remaining <= 30
    assert await locks.ask_store("release", "a", one.token, one.fence, None) == DONE
    assert len((await locks.inspect("a")).holds) == 1


async def test_a_repeated_reader_token_gets_the_same_fence_and_the_remaining_time(combination, opened):
    locks = await opened(combination[1], **RARELY)
    fence, left, _ = await locks.ask("a", token(1), ttl=300, **SHARED)
    assert left == 300
    await locks.ask("a", token(2), ttl=300, **SHARED)
    fence_again, left, _ = await locks.ask("a", token(1), ttl=600, **SHARED)
    assert fence_again == fence
    assert 200 < left <= 300
    assert len((await locks.inspect("a")).holds) == 2
    assert isinstance(await locks.ask("a", token(3)), Busy)


async def test_max_hold_ends_a_reader_alone(on_every_side):
    async def behaviour(locks, name):
        ending = await locks.acquire(name, ttl=20, max_hold=1, renew=True, holder="ending", **SHARED)
        staying = await locks.acquire(name, ttl=60, holder="staying", **SHARED)
        assert await ending.lost(LIMIT) == "max_hold"
        staying.check()
        await eventually_async(lambda: _is(holders_of(locks, name), ["staying"]))

    await on_every_side(behaviour)


# Inspecting


@pytest.mark.decoded
async def test_all_holds_are_shown(locks, rival):
    asked_at = time.time()
    leases = {
        "one": await locks.acquire("a", ttl=60, holder="one", **SHARED),
        "two": await rival.acquire("a", ttl=20, holder={"user": "two"}, **SHARED),
        "three": await locks.acquire("a", ttl=40, holder="three", **SHARED),
    }
    info = await rival.inspect("a")
    assert (info.name, info.mode, info.is_held, info.waiters) == ("a", "shared", True, 0)
    assert {hold.fence: hold.holder for hold in info.holds} == {
        leases["one"].fence: "one",
        leases["two"].fence: {"user": "two"},
        leases["three"].fence: "three",
    }
    by_fence = {hold.fence: hold for hold in info.holds}
    for name, ttl in (("one", 60), ("two", 20), ("three", 40)):
        hold = by_fence[leases[name].fence]
        assert 0 < hold.remaining <= ttl
        assert abs(hold.held_since - asked_at) < 30
    assert info.fence == leases["three"].fence
    assert info.held_since == min(hold.held_since for hold in info.holds)
    assert info.remaining == max(hold.remaining for hold in info.holds)
    for lease in leases.values():
        assert lease.token not in repr(info)
        await lease.release()
    info = await rival.inspect("a")
    assert (info.is_held, info.mode, info.holds, info.fence) == (False, None, (), leases["three"].fence)


async def test_of_several_readers_busy_names_the_one_with_the_latest_deadline(locks, rival):
    """Holder, start and remaining time must be of the same reader: the last one to wait for."""
    for holder, ttl in (("first", 60), ("long", 100), ("last", 30)):
        await locks.acquire("a", ttl=ttl, holder=holder, **SHARED)
    (long,) = [hold for hold in (await rival.inspect("a")).holds if hold.holder == "long"]
    with pytest.raises(LockBusy) as busy:
        await rival.acquire("a", wait=0)
    assert (busy.value.holder, busy.value.held_since) == ("long", long.held_since)
    assert 60 < busy.value.retry_after <= long.remaining


async def test_an_unknown_mode_is_refused(locks, admin):
    for mode in ("read", "Shared", "", None, 1, b"shared"):
        for verb in (locks.acquire, locks.try_acquire, locks.take):
            with pytest.raises(InvalidRequest, match="mode must be 'exclusive' or 'shared'"):
                await verb("a", mode=mode)
        with pytest.raises(InvalidRequest, match="mode must be"):
            async with locks.lock("a", mode=mode):
                raise AssertionError("never")
    assert admin.dbsize() == 0


async def _is(answer, expected):
    return await answer == expected
