"""Leases: renew, release, loss, take, inspect."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.contract.queues import LONG, renewed, with_a_ttl_that_lasts
from tests.support.eventually import LIMIT, eventually_async

from leasehold import InvalidRequest, LeaseLost, LockBusy
from leasehold.core.replies import DONE, Ended, Renewal


async def until_gone(admin, key):
    """Waits until a key has expired on the server."""
    await eventually_async(lambda: not admin.exists(key), every=0.005)


async def reason_of(verb):
    with pytest.raises(LeaseLost) as lost:
        await verb()
    return lost.value.reason


# Releasing


@pytest.mark.topologies
@pytest.mark.decoded
async def test_release_frees_the_lock(locks, rival, admin):
    lease = await locks.acquire("a")
    await lease.release()
    assert lease.is_lost
    assert lease.remaining() == 0
    assert not admin.exists("lock:{a}")
    assert await rival.try_acquire("a") is not None


async def test_releasing_twice_is_harmless(locks, rival):
    lease = await locks.acquire("a")
    await lease.release()
    await lease.release()
    await rival.acquire("a", wait=0)
    await lease.release()
    assert (await rival.inspect("a")).is_held


async def test_releasing_an_expired_lease_says_so_and_does_not_touch_the_next_holder(locks, rival):
    old = await locks.acquire("a", ttl=0.2)
    new = await rival.acquire("a", wait=LONG)
    assert await reason_of(old.release) == "expired"
    assert await reason_of(old.release) == "expired"
    info = await rival.inspect("a")
    assert info.fence == new.fence
    await new.renew()
    await new.release()


@pytest.mark.decoded
@pytest.mark.topologies
async def test_a_release_that_finds_its_lease_gone_says_so(locks, admin):
    """The server lost it (a restart without data, an eviction) before the holder's own deadline."""
    lease = await locks.acquire("a")
    admin.delete("lock:{a}")
    assert await reason_of(lease.release) == "expired"
    assert lease.is_lost


async def test_release_and_renew_touch_only_their_own_token(locks, admin):
    """S5, directly at the scripts, without local clock or state before them."""
    lease = await locks.acquire("a", ttl=20)
    record, stranger = admin.get("lock:{a}"), "0" * 32
    assert await locks.ask_store("release", "a", stranger, lease.fence, None) == Ended.EXPIRED
    assert await locks.ask_store("release", "a", lease.token[:-1], lease.fence, None) == Ended.EXPIRED
    assert await locks.ask_store("release", "a", "", lease.fence, None) == Ended.EXPIRED
    stale_receipt = f"1x{stranger}1700000000000 {{}}"  # a record as another client would have written it
    assert await locks.ask_store("release", "a", stranger, lease.fence, stale_receipt) == Ended.EXPIRED
    assert await locks.ask_store("renew", [Renewal("a", stranger, lease.fence, 900)]) == [Ended.EXPIRED]
    assert admin.get("lock:{a}") == record
    assert admin.pttl("lock:{a}") <= 20_000
    assert await locks.ask_store("release", "a", lease.token, lease.fence, None) == DONE


# Renewing


@pytest.mark.topologies
@pytest.mark.decoded
async def test_renewing_extends_the_lease_and_keeps_its_counter(locks, admin):
    lease = await locks.acquire("a", ttl=300)
    admin.pexpire("lock:{a}", 100_000)
    admin.expire("lock:{a}:fence", 100)
    fence = lease.fence
    await lease.renew()
    assert 200_000 < admin.pttl("lock:{a}") <= 300_000
    assert admin.ttl("lock:{a}:fence") > 86_000
    assert lease.fence == fence
    assert 200 < lease.remaining() <= 300


async def test_renewing_with_another_ttl(locks, admin):
    lease = await locks.acquire("a", ttl=200)
    await lease.renew(600)
    assert 500 < lease.remaining() <= 600
    assert 500_000 < admin.pttl("lock:{a}") <= 600_000
    await lease.renew(50)
    assert lease.remaining() <= 50
    assert admin.pttl("lock:{a}") <= 50_000
    await lease.renew()
    assert admin.pttl("lock:{a}") <= 50_000


async def test_renewing_outlives_the_first_ttl(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            lease = await locks.acquire(name, ttl=ttl, wait=LONG)
            until = time.monotonic() + 1.25 * ttl
            while time.monotonic() < until:
                await asyncio.sleep(0.05)
                await lease.renew()
                lease.check()

        await with_a_ttl_that_lasts(attempt, 2, 6, 18)

    await on_every_side(behaviour)


async def test_renewing_after_the_deadline_says_expired_and_creates_nothing(locks, admin):
    lease = await locks.acquire("a", ttl=0.2)
    await until_gone(admin, "lock:{a}")
    assert await reason_of(lease.renew) == "expired"
    assert not admin.exists("lock:{a}")


@pytest.mark.topologies
@pytest.mark.decoded
async def test_a_renewal_never_re_creates_a_lease_that_the_store_has_lost(locks, admin):
    """S6, with a holder that still counts the lease as held."""
    lease = await locks.acquire("a", ttl=20)
    admin.delete("lock:{a}")
    assert await reason_of(lease.renew) == "expired"
    assert not admin.exists("lock:{a}")
    assert await locks.ask_store("renew", [Renewal("a", lease.token, lease.fence, 20)]) == [Ended.EXPIRED]
    assert not admin.exists("lock:{a}")


async def test_a_renewal_does_not_touch_the_next_holder(locks, rival, admin):
    old = await locks.acquire("a", ttl=20)
    admin.delete("lock:{a}")
    new = await rival.acquire("a", ttl=30)
    record = admin.get("lock:{a}")
    assert await reason_of(old.renew) == "expired"
    assert admin.get("lock:{a}") == record
    new.check()


async def test_a_wrong_renewal_leaves_the_lease_as_it_is(locks):
    lease = await locks.acquire("a")
    for ttl in (0, -1, float("nan"), 86_401):
        with pytest.raises(InvalidRequest):
            await lease.renew(ttl)
    lease.check()


async def test_renewal_keeps_a_short_lease_alive(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            lock = f"{name} for {ttl} s"
            lease = await locks.acquire(lock, ttl=ttl, renew=True)
            until = time.monotonic() + 1.25 * ttl
            while time.monotonic() < until:
                second = await locks.try_acquire(lock)
                lease.check()
                assert second is None
                await asyncio.sleep(0.1)
            await lease.release()
            assert await locks.try_acquire(lock) is not None

        await with_a_ttl_that_lasts(attempt, 2, 6, 18)

    await on_every_side(behaviour)


async def test_renewal_goes_on_after_other_leases_were_released(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            for number in range(3):
                short = await locks.acquire(f"{name} {number}", ttl=ttl, wait=LONG, renew=True)
                await short.release()
            await renewed(await locks.acquire(name, ttl=ttl, wait=LONG, renew=True))

        await with_a_ttl_that_lasts(attempt)

    await on_every_side(behaviour)


@pytest.mark.topologies
async def test_many_leases_are_kept_alive_together(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            names = [f"{name} {number} for {ttl} s" for number in range(20)]
            await renewed(*[await locks.acquire(each, ttl=ttl, renew=True) for each in names])

        await with_a_ttl_that_lasts(attempt)

    await on_every_side(behaviour)


async def test_max_hold_ends_even_a_renewed_lease(on_every_side):
    async def behaviour(locks, name):
        started_at = time.monotonic()
        lease = await locks.acquire(name, ttl=20, renew=True, max_hold=1)
        assert await lease.lost(LIMIT) == "max_hold"
        assert time.monotonic() - started_at > 0.99
        assert await reason_of(lease.renew) == "max_hold"
        assert await reason_of(lease.release) == "max_hold"
        second = await locks.acquire(name, wait=LONG)
        assert second.fence > lease.fence

    await on_every_side(behaviour)


async def test_max_hold_ends_a_lease_without_renewals_as_well(on_every_side):
    async def behaviour(locks, name):
        lease = await locks.acquire(name, ttl=20, max_hold=1)
        assert await lease.lost(LIMIT) == "max_hold"
        assert (await locks.acquire(name, wait=LONG)).fence > lease.fence

    await on_every_side(behaviour)


async def test_max_hold_ends_a_lease_that_was_waited_for_or_taken(on_every_side):
    """It counts from the grant, not from when the waiting began."""

    async def behaviour(locks, name):
        held = await locks.acquire(name, ttl=1)
        waited = await locks.acquire(name, ttl=20, wait=LONG, max_hold=1, renew=True)
        assert await waited.lost(LIMIT) == "max_hold"
        assert held.loss() == "expired"
        taken = await locks.take(name, ttl=20, max_hold=1, renew=True)
        assert await taken.lost(LIMIT) == "max_hold"

    await on_every_side(behaviour)


async def test_a_renewal_does_not_reach_beyond_max_hold(on_every_side):
    """Both limits: first the ttl is the shorter one, then the rest of max_hold."""

    async def behaviour(locks, name):
        lease = await locks.acquire(name, ttl=100, max_hold=100.5)
        held_at = time.monotonic()
        assert lease.remaining() < 100
        await asyncio.sleep(0.7)
        await lease.renew()
        left = 100.5 - (time.monotonic() - held_at)
        assert lease.remaining() <= left
        await lease.renew(1000)
        assert lease.remaining() <= left
        info = await locks.inspect(name)
        assert info.remaining <= left * 1.02 + 0.1  # the server's part is a little longer, for drift
        lease.check()

    await on_every_side(behaviour)


async def test_a_ttl_below_max_hold_ends_the_lease_as_expired(on_every_side):
    async def behaviour(locks, name):
        lease = await locks.acquire(name, ttl=0.5, max_hold=60)
        assert await lease.lost(LIMIT) == "expired"

    await on_every_side(behaviour)


async def test_a_max_hold_below_the_ttl_frees_the_lock_then(locks, admin):
    lease = await locks.acquire("a", ttl=30, max_hold=2)
    assert admin.pttl("lock:{a}") <= 2_030
    assert lease.remaining() <= 2


# Losing


async def test_lost_returns_the_reason_when_the_lease_expires(on_every_side):
    async def behaviour(locks, name):
        staying = await locks.acquire(f"{name} for long", ttl=300)
        assert await staying.lost(0.05) is None
        lease = await locks.acquire(name, ttl=0.3)
        assert await lease.lost() == "expired"
        assert lease.is_lost
        assert await lease.lost() == "expired"
        with pytest.raises(LeaseLost):
            lease.check()

    await on_every_side(behaviour)


async def test_lost_returns_when_the_lease_is_released(locks):
    lease = await locks.acquire("a")
    waiting = asyncio.create_task(lease.lost())
    await asyncio.sleep(0)
    await lease.release()
    assert await waiting == "released"
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert lost.value.reason == "released"


async def test_a_renewed_lease_that_was_taken_ends(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            old = await locks.acquire(name, ttl=ttl, wait=LONG, renew=True)
            new = await locks.take(name, ttl=30)
            if (reason := await old.lost(LIMIT)) == "expired":
                await new.release()
                old.check()
            assert reason == "taken"
            new.check()
            assert (await locks.inspect(name)).fence == new.fence

        await with_a_ttl_that_lasts(attempt)

    await on_every_side(behaviour)


async def test_a_holder_counts_its_lease_as_lost_before_it_expires_on_the_server(locks, admin):
    lease = await locks.acquire("a", ttl=0.2)
    while admin.exists("lock:{a}"):
        time.sleep(0.001)  # the event loop is blocked, so only the clock can show the loss
    assert lease.is_lost
    assert lease.remaining() == 0
    assert lease.loss() == "expired"


async def test_an_abandoned_lease_stays_until_its_ttl_ends(on_every_side):
    async def behaviour(locks, name):
        lease = await locks.acquire(name, ttl=1, renew=True)
        lease.abandon()
        assert await locks.try_acquire(name) is None or lease.is_lost
        second = await locks.acquire(name, wait=LONG)
        assert second.fence > lease.fence
        assert lease.loss() == "expired"

    await on_every_side(behaviour)


# With a body


async def test_a_lock_is_held_inside_and_free_afterwards(locks, rival):
    async with locks.lock("a", ttl=20) as lease:
        lease.check()
        assert await rival.try_acquire("a") is None
    assert lease.is_lost
    assert await rival.try_acquire("a") is not None


async def test_a_body_may_release_early(locks, rival):
    async with locks.lock("a", ttl=20) as lease:
        await lease.release()
        assert await rival.try_acquire("a") is not None


async def test_a_child_task_of_the_body_may_release_early(locks):
    async with locks.lock("a", ttl=20) as lease:
        await asyncio.create_task(lease.release())
        await asyncio.sleep(0)
    assert not (await locks.inspect("a")).is_held


async def test_a_body_that_abandons_leaves_the_lock_held(locks):
    async with locks.lock("a", ttl=20) as lease:
        lease.abandon()
    assert (await locks.inspect("a")).fence == lease.fence


async def test_the_lock_is_free_after_a_body_that_failed(locks):
    class OwnError(Exception):
        pass

    with pytest.raises(OwnError):
        async with locks.lock("a"):
            raise OwnError
    assert not (await locks.inspect("a")).is_held


@pytest.mark.topologies
async def test_a_taken_lock_is_raised_at_the_end_of_the_body(locks, rival):
    with pytest.raises(LeaseLost) as lost:
        async with locks.lock("a", ttl=20, on_loss="signal"):
            taken = await rival.take("a")
    assert lost.value.reason == "taken"
    assert (await rival.inspect("a")).fence == taken.fence


async def test_an_error_of_the_body_is_never_hidden_by_the_loss(locks, rival):
    async def body():
        async with locks.lock("a", ttl=20, on_loss="signal"):
            await rival.take("a")
            raise KeyError("the body's own")

    with pytest.raises(KeyError) as error:
        await body()
    assert any("taken" in note for note in error.value.__notes__)


async def test_a_body_is_kept_alive_and_its_loss_is_raised(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            async with locks.lock(name, ttl=ttl, wait=LONG) as lease:
                await renewed(lease)
                await (await locks.take(name)).release()
                await lease.lost(LIMIT)  # in a task this is cancelled, in a thread it returns

        assert await reason_of(lambda: with_a_ttl_that_lasts(attempt)) == "taken"

    await on_every_side(behaviour)


async def test_a_busy_lock_does_not_start_the_body(locks, rival):
    await rival.acquire("a")
    with pytest.raises(LockBusy):
        async with locks.lock("a", wait=0):
            raise AssertionError("never")


# Taking


@pytest.mark.decoded
@pytest.mark.topologies
async def test_the_old_holder_gets_taken_as_the_reason(locks, rival):
    old = await locks.acquire("a", ttl=20)
    new = await rival.take("a", ttl=20, holder="ops")
    assert new.fence > old.fence
    assert (await locks.inspect("a")).holder == "ops"
    assert await reason_of(old.renew) == "taken"
    assert await reason_of(old.release) == "taken"
    with pytest.raises(LeaseLost):
        old.check()
    await new.renew()
    await new.release()


async def test_a_release_gets_taken_as_the_reason(locks, rival):
    old = await locks.acquire("a", ttl=20)
    new = await rival.take("a")
    assert await reason_of(old.release) == "taken"
    assert (await rival.inspect("a")).fence == new.fence


@pytest.mark.parametrize("verb", ["renew", "release"])
async def test_taken_is_the_reason_even_after_the_taker_is_gone(locks, rival, admin, verb):
    old = await locks.acquire("a", ttl=20)
    new = await rival.take("a")
    await new.release()
    assert await reason_of(getattr(old, verb)) == "taken"
    assert not admin.exists("lock:{a}")


@pytest.mark.parametrize("verb", ["renew", "release"])
async def test_taken_is_the_reason_even_after_later_holders(locks, rival, verb):
    old = await locks.acquire("a", ttl=20)
    await (await rival.take("a")).release()
    await (await rival.acquire("a")).release()
    await rival.acquire("a")
    assert await reason_of(getattr(old, verb)) == "taken"


async def test_taken_is_the_reason_even_after_the_taker_was_taken_from(locks, rival, admin):
    """The second take is from a short lease; the first holder's lease is long, and its call may come much later."""
    old = await locks.acquire("a", ttl=20)
    await rival.take("a", ttl=0.5)
    await rival.take("a", ttl=20)
    await asyncio.sleep(0.55)  # longer than the second holder's lease
    assert admin.exists("lock:{a}")
    assert await reason_of(old.renew) == "taken"


async def test_an_expired_lease_is_not_reported_as_taken(locks, rival, admin):
    old = await locks.acquire("a", ttl=20)
    admin.delete("lock:{a}")
    await rival.acquire("a")
    assert await reason_of(old.renew) == "expired"


async def test_a_taker_whose_own_lease_ends_does_not_get_taken_as_the_reason(locks, rival, admin):
    await locks.acquire("a", ttl=20)
    taker = await rival.take("a", ttl=20)
    admin.delete("lock:{a}")
    assert await reason_of(taker.renew) == "expired"


async def test_a_free_lock_can_be_taken(locks):
    lease = await locks.take("a", ttl=300)
    lease.check()
    assert 200 < lease.remaining() <= 300
    await lease.release()


@pytest.mark.topologies
async def test_a_take_from_the_expected_holder(locks, rival):
    old = await locks.acquire("a")
    new = await rival.take("a", expect_fence=old.fence)
    assert new.fence > old.fence
    assert await reason_of(old.renew) == "taken"


@pytest.mark.decoded
async def test_a_take_from_another_than_the_expected_holder_changes_nothing(locks, rival, admin):
    old = await locks.acquire("a", holder="alice")
    record = admin.get("lock:{a}")
    for wrong in (old.fence - 1, old.fence + 1, 0, 1):
        with pytest.raises(LockBusy) as busy:
            await rival.take("a", expect_fence=wrong)
        assert busy.value.holder == "alice"
    assert admin.get("lock:{a}") == record
    await old.renew()
    assert (await locks.inspect("a")).fence == old.fence
    await old.release()


async def test_a_take_whose_expected_holder_has_left_changes_nothing(locks, admin):
    old = await locks.acquire("a")
    await old.release()
    with pytest.raises(LockBusy) as busy:
        await locks.take("a", expect_fence=old.fence)
    assert busy.value.holder is None
    assert not admin.exists("lock:{a}")


async def test_of_two_takers_who_expect_the_same_holder_one_wins(locks, rival):
    old = await locks.acquire("a")
    answers = await asyncio.gather(
        locks.take("a", expect_fence=old.fence),
        rival.take("a", expect_fence=old.fence),
        return_exceptions=True,
    )
    assert sorted(isinstance(answer, LockBusy) for answer in answers) == [False, True]


async def test_a_taken_lease_can_be_kept_alive(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            lease = await locks.take(name, ttl=ttl, renew=True)
            await renewed(lease)
            await lease.release()

        await with_a_ttl_that_lasts(attempt)

    await on_every_side(behaviour)


# Inspecting


@pytest.mark.decoded
async def test_a_held_lock_shows_its_holder_and_what_is_left(locks, rival):
    lease = await locks.acquire("a", ttl=300, holder={"user": "alice"})
    info = await rival.inspect("a")
    assert info.is_held
    assert (info.name, info.mode, info.fence, info.holder) == (
        "a",
        "exclusive",
        lease.fence,
        {"user": "alice"},
    )
    assert 200 < info.remaining <= 300
    assert abs(info.held_since - time.time()) < 30
    assert info.waiters == 0


@pytest.mark.decoded
async def test_a_free_lock_shows_its_last_fence(locks):
    info = await locks.inspect("a")
    assert not info.is_held
    assert (info.mode, info.fence, info.holder, info.held_since, info.remaining) == (None,) * 5
    lease = await locks.acquire("a")
    await lease.release()
    info = await locks.inspect("a")
    assert not info.is_held
    assert (info.mode, info.fence, info.holder, info.held_since, info.remaining) == (
        None,
        lease.fence,
        None,
        None,
        None,
    )


async def test_inspecting_changes_nothing(locks, admin):
    await locks.inspect("a")
    assert admin.dbsize() == 0
    await locks.acquire("a", ttl=20)
    record = admin.get("lock:{a}")
    await locks.inspect("a")
    assert admin.get("lock:{a}") == record
    assert admin.dbsize() == 2


async def test_no_token_is_visible(locks, rival, caplog):
    lease = await locks.acquire("a", holder="alice")
    shown = [repr(await rival.inspect("a")), repr(lease), repr(lease.lease), str(lease.lease)]
    with pytest.raises(LockBusy) as busy:
        await rival.acquire("a", wait=0)
    shown += [str(busy.value), repr(vars(busy.value))]
    with pytest.raises(LockBusy) as refused:
        await rival.take("a", expect_fence=1)
    shown += [str(refused.value), repr(vars(refused.value))]
    taken = await rival.take("a")
    with pytest.raises(LeaseLost) as lost:
        await lease.renew()
    shown += [str(lost.value), repr(vars(lost.value)), repr(await locks.inspect("a")), caplog.text]
    for secret in (lease.token, taken.token):
        assert not [text for text in shown if secret in text]
