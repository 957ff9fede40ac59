"""Several locks at once: all of them or none, without deadlock."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from tests.contract.queues import LONG, join, queue_has, renewed, with_a_ttl_that_lasts
from tests.support.eventually import eventually_async

from leasehold import AcquireTimeout, InvalidRequest, LeaseLost, LockBusy

NAMES = ["b", "a", "ä {c}"]


async def are_free(locks, names):
    """Waits until none of these has a holder or waiters: `lock_all` does not wait for its releases after a failure."""

    async def all_free():
        found = [await locks.inspect(name) for name in names]
        return not any(info.is_held or info.waiters for info in found)

    await eventually_async(all_free)


async def enter(scope):
    """Enters the context and leaves it."""
    async with scope:
        pass


# All


@pytest.mark.topologies
@pytest.mark.decoded
async def test_all_are_held_inside_and_free_afterwards(locks, rival, admin):
    async with locks.lock_all(NAMES, ttl=300, holder="me") as leases:
        leases.check()
        assert len(leases) == 3
        assert [lease.name for lease in leases] == NAMES
        for name in NAMES:
            assert await rival.try_acquire(name) is None
            info = await rival.inspect(name)
            assert (info.holder, info.mode, info.fence) == ("me", "exclusive", leases[name].fence)
        assert not leases.is_lost
        assert 200 < leases.remaining() <= 300
    assert leases.is_lost
    for name in NAMES:
        assert not (await rival.inspect(name)).is_held
    assert sum(not key.endswith(b":fence") for key in admin.scan_iter(b"lock:{*}")) == 0


async def test_each_name_has_a_fence_of_its_own(locks, rival):
    before = {name: await rival.acquire(name) for name in NAMES}
    for lease in before.values():
        await lease.release()
    async with locks.lock_all(NAMES) as leases:
        assert leases.fences == {name: leases[name].fence for name in NAMES}
        for name in NAMES:
            assert leases.fences[name] > before[name].fence
    async with rival.lock_all(NAMES) as after:
        assert all(after.fences[name] > leases.fences[name] for name in NAMES)


async def test_names_may_come_from_anything_that_yields_them(locks):
    for names in (tuple("ab"), iter(["a", "b"]), {"a": 1, "b": 2}, (name for name in "ab")):
        async with locks.lock_all(names) as leases:
            assert sorted(leases.fences) == ["a", "b"]
    async with locks.lock_all(["only"]) as leases:
        assert list(leases.fences) == ["only"]


@pytest.mark.topologies
async def test_as_many_as_are_allowed(locks):
    names = [f"lock-{number}" for number in range(256)]
    async with locks.lock_all(names, ttl=60) as leases:
        assert len(leases.fences) == 256
        assert (await locks.inspect(names[-1])).is_held
    assert not (await locks.inspect(names[0])).is_held


async def test_they_are_renewed_and_released_together(locks, rival):
    async with locks.lock_all(NAMES, ttl=200) as leases:
        await leases.renew(600)
        assert 400 < leases.remaining() <= 600
        for name in NAMES:
            assert (await rival.inspect(name)).remaining > 400
        await leases.release()
        for name in NAMES:
            assert not (await rival.inspect(name)).is_held
        with pytest.raises(LeaseLost) as lost:
            leases.check()
        assert lost.value.reason == "released"


async def test_those_that_are_abandoned_stay_held(locks, rival):
    async with locks.lock_all(NAMES, ttl=30) as leases:
        leases.abandon()
    for name in NAMES:
        assert (await rival.inspect(name)).fence == leases.fences[name]


async def test_floor_and_holder_are_for_every_one_of_them(locks, rival):
    held = await rival.acquire("b")
    floor = held.fence + 10**15
    entering = asyncio.create_task(
        hold(locks.lock_all(["a", "b"], ttl=60, wait=LONG, floor=floor, holder={"n": 1}))
    )
    await queue_has(rival, "b", 1)
    await held.release()
    scope, leases = await entering
    for name in ("a", "b"):
        assert leases.fences[name] >= floor
        assert (await rival.inspect(name)).holder == {"n": 1}
        assert leases[name].holder == {"n": 1}
    await scope.__aexit__(None, None, None)


async def hold(scope):
    """Enters the context and stays in it."""
    return scope, await scope.__aenter__()


@pytest.mark.topologies
async def test_they_are_kept_alive(on_every_side):
    async def behaviour(locks, name):
        async def attempt(ttl):
            async with locks.lock_all([f"{name} 1", f"{name} 2"], ttl=ttl, wait=LONG) as leases:
                await renewed(*leases)
                leases.check()

        await with_a_ttl_that_lasts(attempt)

    await on_every_side(behaviour)


async def test_scripts_that_were_flushed_are_sent_again(locks, admin):
    for _ in range(2):
        admin.script_flush()
        async with locks.lock_all(NAMES) as leases:
            leases.check()


# Or none


@pytest.mark.topologies
@pytest.mark.decoded
async def test_if_one_is_busy_none_is_held(locks, rival):
    for busy_name in sorted(NAMES):
        held = await rival.acquire(busy_name, ttl=60, holder="rival")
        with pytest.raises(LockBusy) as busy:
            await enter(locks.lock_all(NAMES, wait=0))
        assert not isinstance(busy.value, AcquireTimeout)
        assert (busy.value.name, busy.value.holder) == (busy_name, "rival")
        await are_free(rival, [name for name in NAMES if name != busy_name])
        held.check()
        await held.renew()
        assert (await rival.inspect(busy_name)).waiters == 0
        await held.release()


async def test_after_a_timeout_none_is_held(on_every_side):
    async def behaviour(locks, name):
        names = [f"{name} {number}" for number in range(4)]
        held = await locks.acquire(names[2], ttl=60, holder="rival")
        started_at = time.monotonic()
        with pytest.raises(AcquireTimeout) as timeout:
            await enter(locks.lock_all(names, wait=0.5))
        assert time.monotonic() - started_at > 0.49
        assert (timeout.value.name, timeout.value.holder) == (names[2], "rival")
        await are_free(locks, [names[0], names[1], names[3]])
        assert (await locks.inspect(names[2])).waiters == 0
        held.check()

    await on_every_side(behaviour)


async def test_even_the_shortest_wait_ends_in_a_timeout(locks, rival):
    """`LockBusy` is for calls without a wait."""
    await rival.acquire("b", ttl=60)
    for names in (["b"], ["a", "b"]):
        with pytest.raises(AcquireTimeout) as timeout:
            await enter(locks.lock_all(names, wait=0.0001))
        assert timeout.value.name == "b"


async def test_a_timeout_reports_the_whole_wait(on_every_side):
    async def behaviour(locks, name):
        names = [f"{name} {number}" for number in range(2)]
        await locks.acquire(names[0], ttl=0.3)
        await locks.acquire(names[1], ttl=60)
        with pytest.raises(AcquireTimeout) as timeout:
            await enter(locks.lock_all(names, wait=1.5))
        assert timeout.value.waited == 1.5

    await on_every_side(behaviour)


async def test_when_the_body_fails_none_is_held(locks):
    async def body():
        async with locks.lock_all(NAMES, ttl=60):
            raise KeyError("the body's own")

    with pytest.raises(KeyError):
        await body()
    for name in NAMES:
        assert not (await locks.inspect(name)).is_held


@pytest.mark.topologies
async def test_a_cancelled_caller_holds_none(on_every_side):
    async def behaviour(locks, name):
        if locks.is_blocking:
            return  # threads cannot be cancelled
        names = [f"{name} {number}" for number in range(3)]
        held = await locks.acquire(names[1], ttl=60)
        entering = asyncio.create_task(enter(locks.lock_all(names, wait=LONG)))
        await queue_has(locks, names[1], 1)
        assert (await locks.inspect(names[0])).is_held
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await are_free(locks, [names[0], names[2]])
        await queue_has(locks, names[1], 0)
        held.check()

    await on_every_side(behaviour)


async def test_a_wrong_value_in_the_middle_leaves_nothing_behind(locks, admin):
    with pytest.raises(InvalidRequest):
        await enter(locks.lock_all(["a", "b", ""], wait=0))
    with pytest.raises(InvalidRequest):
        await enter(locks.lock_all(["a", "b"], wait=0, holder={"not": {"flat": 1}}))
    assert admin.dbsize() == 0


# Waiting


@pytest.mark.topologies
async def test_those_that_are_busy_are_waited_for(locks, rival):
    held = {name: await rival.acquire(name, ttl=60) for name in ("a", "c")}
    entering = asyncio.create_task(hold(locks.lock_all(["c", "d", "b", "a"], ttl=60, wait=LONG)))
    await queue_has(rival, "a", 1)
    assert (await rival.inspect("c")).waiters == 0  # in the order of the names, one after the other
    await held["a"].release()
    await queue_has(rival, "c", 1)
    assert (await rival.inspect("b")).is_held
    assert not (await rival.inspect("d")).is_held
    assert not entering.done()
    await held["c"].release()
    scope, leases = await entering
    leases.check()
    assert [lease.name for lease in leases] == ["c", "d", "b", "a"]
    for name, lease in held.items():
        assert leases.fences[name] > lease.fence
    await scope.__aexit__(None, None, None)
    for name in "abcd":
        assert not (await rival.inspect(name)).is_held


async def test_what_is_held_already_is_renewed_while_the_others_are_waited_for(on_every_side):
    async def behaviour(locks, name):
        names = [f"{name} {number}" for number in range(2)]

        async def attempt(ttl):
            held = await locks.acquire(names[1], ttl=LONG, wait=LONG)
            entering = asyncio.create_task(hold(locks.lock_all(names, ttl=ttl, wait=LONG)))
            await queue_has(locks, names[1], 1)
            first = await locks.inspect(names[0])
            left = [first.remaining or 0]

            async def has_more_left():
                info = await locks.inspect(names[0])
                left.append(info.remaining or 0)
                return left[-1] > left[-2] or not info.is_held

            await eventually_async(has_more_left, every=0.1)
            await held.release()
            scope, leases = await entering  # LeaseLost, if it was not renewed
            assert leases.fences[names[0]] == first.fence
            leases.check()
            await scope.__aexit__(None, None, None)

        await with_a_ttl_that_lasts(attempt)

    await on_every_side(behaviour)


async def test_those_without_renewal_last_their_whole_ttl_however_long_the_others_took(locks, rival):
    held = await rival.acquire("b", ttl=60)
    entering = asyncio.create_task(hold(locks.lock_all(["a", "b", "c"], ttl=300, wait=LONG, renew=False)))
    await queue_has(rival, "b", 1)
    await held.release()
    scope, leases = await entering
    for lease in leases:
        assert 200 < lease.remaining() <= 300
        assert (await rival.inspect(lease.name)).remaining > 200
    await scope.__aexit__(None, None, None)


async def test_the_wait_is_for_all_of_them_together(on_every_side):
    """Each lock becomes free within the wait after the one before, but the last ones long after the whole wait."""

    async def behaviour(locks, name):
        names = [f"{name} {number}" for number in range(9)]
        for number, each in enumerate(names):
            await locks.acquire(each, ttl=1.5 * (number + 1))
        with pytest.raises(AcquireTimeout) as timeout:
            await enter(locks.lock_all(names, wait=2.5))
        assert timeout.value.name in names[1:]

    await on_every_side(behaviour)


@pytest.mark.topologies
async def test_two_callers_in_opposite_order_never_deadlock(every_side):
    """Many rounds on every side at once, each in another order; never two holders."""
    names = ["a", "b", "c"]
    inside, done = [], []

    async def work(side, locks):
        order = random.Random(side)
        for _ in range(5):
            mine = order.sample(names, 2)
            async with locks.lock_all(mine, ttl=30, wait=LONG) as leases:
                assert not [name for name in mine if name in inside]
                inside.extend(mine)
                await asyncio.sleep(0.001)
                leases.check()
                for name in mine:
                    inside.remove(name)
            done.append(side)

    async with asyncio.TaskGroup() as group:
        for side, locks in every_side.items():
            group.create_task(work(side, locks))
    assert len(done) == 5 * len(every_side)
    for name in names:
        assert not (await locks.inspect(name)).is_held


async def test_two_clients_in_opposite_order_take_turns(locks, rival):
    account = {"balance": 0}

    async def work(client, names):
        for _ in range(4):
            async with client.lock_all(names, ttl=30, wait=LONG):
                balance = account["balance"]
                await asyncio.sleep(0.001)
                account["balance"] = balance + 1

    await asyncio.gather(work(locks, ["a", "b"]), work(rival, ["b", "a"]))
    assert account["balance"] == 8


# Losing


@pytest.mark.topologies
async def test_when_one_is_taken_all_count_as_lost(on_every_side):
    """A task is cancelled, a thread sees it in `is_lost`; the other leases are released."""

    async def behaviour(locks, name):
        async def attempt(ttl):
            names = [f"{name} 1 for {ttl} s", f"{name} 2 for {ttl} s"]

            async def body():
                async with locks.lock_all(names, ttl=ttl) as leases:
                    is_inside.set()
                    # In a task this is cancelled.
                    if await leases.lost(LONG) == "taken":
                        assert locks.is_blocking
                        assert leases.is_lost
                        assert leases.remaining() == 0

            is_inside = asyncio.Event()
            working = asyncio.create_task(body())
            await is_inside.wait()
            await locks.take(names[1], ttl=300, holder="taker")
            with pytest.raises(LeaseLost) as lost:
                await working
            if lost.value.reason == "expired":
                raise lost.value
            assert (lost.value.reason, lost.value.name) == ("taken", names[1])
            assert not (await locks.inspect(names[0])).is_held
            assert (await locks.inspect(names[1])).holder == "taker"

        await with_a_ttl_that_lasts(attempt)

    await on_every_side(behaviour)


async def test_with_a_signal_the_body_runs_on_and_the_loss_is_raised_at_its_end(on_every_side):
    async def behaviour(locks, name):
        reached = []

        async def attempt(ttl):
            names = [f"{name} 1 for {ttl} s", f"{name} 2 for {ttl} s"]

            async def body():
                async with locks.lock_all(names, ttl=ttl, on_loss="signal") as leases:
                    await locks.take(names[0], ttl=300)
                    if await leases.lost(LONG) == "taken":
                        leases[names[1]].check()  # this one is held as before
                        with pytest.raises(LeaseLost):
                            leases.check()
                        reached.append("the end")

            with pytest.raises(LeaseLost) as lost:
                await body()
            if lost.value.reason == "expired":
                raise lost.value
            assert (lost.value.reason, lost.value.name) == ("taken", names[0])
            assert not (await locks.inspect(names[1])).is_held

        await with_a_ttl_that_lasts(attempt)
        assert reached == ["the end"]

    await on_every_side(behaviour)


async def test_an_error_of_the_body_is_never_hidden_by_the_loss(locks, rival):
    async def body():
        async with locks.lock_all(["a", "b"], ttl=60, on_loss="signal"):
            await rival.take("a")
            raise KeyError("the body's own")

    with pytest.raises(KeyError) as error:
        await body()
    assert any("taken" in note for note in error.value.__notes__)
    assert not (await rival.inspect("b")).is_held


async def test_waiting_for_the_end_of_one_is_quiet_after_the_end_of_another(on_every_side):
    """It sleeps until its own lease ends. A busy loop would block the event loop, or use a whole core."""

    async def behaviour(locks, name):
        names = [f"{name} 1", f"{name} 2"]
        async with locks.lock_all(names, ttl=60, on_loss="signal") as leases:
            await locks.do(leases[names[0]].release)
            asked = 0
            lease = leases[names[1]]
            loss = lease.loss

            def counted():
                nonlocal asked
                asked += 1
                return loss()

            lease.loss = counted
            try:
                assert await locks.do(lease.lost, 0.3) is None
            finally:
                del lease.loss
            assert asked < 50

    await on_every_side(behaviour)


async def test_max_hold_ends_them(on_every_side):
    async def behaviour(locks, name):
        names = [f"{name} 1", f"{name} 2"]
        started_at = time.monotonic()

        async def body():
            async with locks.lock_all(names, ttl=20, max_hold=1) as leases:
                assert await leases.lost(LONG) == "max_hold"  # in a task this is cancelled

        with pytest.raises(LeaseLost) as lost:
            await body()
        assert lost.value.reason == "max_hold"
        assert time.monotonic() - started_at > 0.9
        await are_free(locks, names)

    await on_every_side(behaviour)


# Sharing


async def test_several_locks_can_be_read_together(locks, rival):
    async with (
        locks.lock_all(NAMES, ttl=30, mode="shared") as one,
        rival.lock_all(NAMES[::-1], ttl=30, mode="shared") as other,
    ):
        for leases in (one, other):
            leases.check()
            assert {lease.mode for lease in leases} == {"shared"}
        for name in NAMES:
            assert len((await locks.inspect(name)).holds) == 2
            assert one.fences[name] < other.fences[name]
        with pytest.raises(LockBusy):
            await enter(locks.lock_all(NAMES, wait=0))
    for name in NAMES:
        assert not (await locks.inspect(name)).is_held
    await enter(locks.lock_all(NAMES, wait=0))


async def test_of_several_to_read_none_is_held_if_one_is_busy(locks, rival):
    held = await rival.acquire("b", ttl=60)
    with pytest.raises(LockBusy) as busy:
        await enter(locks.lock_all(["c", "b", "a"], wait=0, mode="shared"))
    assert busy.value.name == "b"
    await are_free(rival, ["a", "c"])
    entering = asyncio.create_task(hold(locks.lock_all(["c", "b", "a"], ttl=60, wait=LONG, mode="shared")))
    await queue_has(rival, "b", 1)
    await held.release()
    scope, leases = await entering
    assert {lease.mode for lease in leases} == {"shared"}
    await scope.__aexit__(None, None, None)


async def test_several_locks_do_not_pass_a_waiting_writer(locks, rival):
    reader = await locks.acquire("a", ttl=60, mode="shared")
    writer = await join(rival, "a")
    with pytest.raises(LockBusy):
        await enter(locks.lock_all(["a", "b"], wait=0, mode="shared"))
    await are_free(rival, ["b"])
    await reader.release()
    await (await writer).release()


# Wrong requests


WRONG = [
    (["a", "b", "a"], {}, "'a' more than once"),
    ([], {}, "1 to 256 names, not 0"),
    ("ab", {}, "several names, not one text"),
    ([f"lock-{number}" for number in range(257)], {}, "1 to 256 names, not 257"),
    (7, {}, "several names, not int"),
    (None, {}, "several names, not NoneType"),
    (["a", 7], {}, "must be text, not int"),
    (["a", b"b"], {}, "must be text, not bytes"),
    (["a", ""], {}, "must not be empty"),
    (["a", "b\0"], {}, "NUL"),
    (["a", "x" * 513], {}, "512 bytes"),
    (["a"], {"max_hold": -1}, "max_hold must be"),
    (["a"], {"max_hold": 0}, "max_hold must be"),
    (["a"], {"max_hold": -1, "mode": "shared"}, "max_hold must be"),
    (["a"], {"mode": "both"}, "mode must be 'exclusive' or 'shared'"),
    (["a"], {"ttl": 0}, "ttl must be"),
    (["a"], {"wait": -1}, "wait must be"),
    (["a"], {"floor": -1}, "floor must be"),
    (["a"], {"on_loss": "shrug"}, "on_loss must be"),
]


async def test_a_wrong_request_says_what_is_wrong_and_sends_nothing(on_every_side, admin):
    async def behaviour(locks, name):
        for names, options, message in WRONG:
            with pytest.raises(InvalidRequest, match=message):
                await enter(locks.lock_all(names, **options))

    await on_every_side(behaviour)
    assert admin.dbsize() == 0
