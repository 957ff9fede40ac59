"""`once`: work runs once, its result is kept for all callers, and it runs again only if it failed."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.support.eventually import LIMIT, eventually_async

from leasehold import InProgress, InvalidRequest, LeaseLost


class Work:
    """A function that counts its calls."""

    def __init__(self, result=None):
        self.runs = 0
        self.result = result

    def __call__(self):
        self.runs += 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def once(locks, key, fn, **options):
    return locks.do(locks.client.once, key, fn, **options)


def first_time(locks, *key, **options):
    return locks.do(locks.client.first_time, *key, **options)


@pytest.mark.topologies
@pytest.mark.decoded
@pytest.mark.parametrize("result", [None, False, 0, "", {"paid": [1, 2.5, "é\u2028"]}], ids=json.dumps)
@pytest.mark.topologies
async def test_the_first_caller_runs_it_and_all_callers_get_the_result(locks, rival, result):
    work = Work(result)
    assert await once(locks, "payout:42", work) == result
    assert await once(locks, "payout:42", work) == result
    assert await once(rival, "payout:42", Work("something else")) == result
    assert work.runs == 1


async def test_the_first_caller_gets_the_same_result_as_the_others(locks):
    assert await once(locks, "payout:42", Work((1, 2))) == [1, 2]
    assert await once(locks, "payout:42", Work()) == [1, 2]


async def test_different_keys_are_different_work(locks):
    work = Work(1)
    for key in ("payout:1", "payout:2", "refund:1", "{payout:1}", "payout:%31"):
        await once(locks, key, work)
    assert work.runs == 5


async def test_work_that_failed_is_run_again_by_the_next_caller(locks, rival):
    with pytest.raises(RuntimeError, match="no money"):
        await once(locks, "payout:42", Work(RuntimeError("no money")))
    work = Work("paid")
    assert await once(rival, "payout:42", work) == "paid"
    assert work.runs == 1


@pytest.mark.parametrize(
    "result", [object(), {1: {2, 3}}, float("nan"), b"bytes"], ids=["object", "set", "nan", "bytes"]
)
async def test_a_result_that_is_not_json_is_a_clear_error_and_nothing_is_kept(locks, result):
    with pytest.raises(InvalidRequest, match=r"'payout:42' cannot be kept.*not JSON"):
        await once(locks, "payout:42", Work(result))
    assert await once(locks, "payout:42", Work(1)) == 1


async def test_the_keys_have_the_documented_names_and_share_a_slot(locks, admin):
    await once(locks, "payout:42", Work({"paid": 1}), ttl=1000)
    await first_time(locks, "deposit", "0xabc", ttl=1000)
    names = set(admin.keys())
    assert {b"idempotency:{payout:42}", b"idempotency:{deposit:0xabc}"} <= names
    assert all(b"{payout:42}" in name or b"{deposit:0xabc}" in name for name in names)
    assert 900_000 < admin.pttl("idempotency:{payout:42}") <= 1_000_000
    assert 900_000 < admin.pttl("idempotency:{deposit:0xabc}") <= 1_000_000


async def test_a_concurrent_caller_waits_for_the_result(on_every_side):
    async def behaviour(locks, name):
        begun, go_on = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def work():
            loop.call_soon_threadsafe(begun.set)
            if locks.is_blocking:
                asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(LIMIT)
                return "done"

            async def go_on_then():
                await go_on.wait()
                return "done"

            return go_on_then()

        other = Work("something else")
        first = asyncio.create_task(once(locks, name, work))
        await begun.wait()
        others = [asyncio.create_task(once(locks, name, other, wait=LIMIT)) for _ in range(3)]
        with pytest.raises(InProgress) as meanwhile:
            await once(locks, name, other, wait=0)
        assert meanwhile.value.code == "in_progress"
        assert meanwhile.value.holder is not None
        go_on.set()
        assert [await task for task in (first, *others)] == ["done"] * 4
        assert other.runs == 0

    await on_every_side(behaviour)


async def test_a_run_that_lost_its_lease_keeps_nothing(on_every_side):
    """Another caller may have run it since; the result that it kept counts."""

    async def behaviour(locks, name):
        def lose_the_lease():
            (lease,) = [
                lease
                for lease in locks.client._engine.notifications._recipients.values()
                if lease.name == name
            ]
            lease.end("expired")
            return "too late"

        with pytest.raises(LeaseLost):
            await once(locks, name, lose_the_lease)
        assert await once(locks, name, Work("in time"), wait=LIMIT, lease_ttl=5) == "in time"

    await on_every_side(behaviour)


@pytest.mark.topologies
@pytest.mark.decoded
async def test_the_first_time_is_the_first_for_one_caller_only(locks, rival):
    assert await first_time(locks, "deposit", "0xabc") is True
    assert await first_time(rival, "deposit", "0xabc") is False
    assert await first_time(locks, "deposit", "0xabc") is False
    assert await first_time(locks, "deposit", 7) is True
    assert await first_time(locks, "payout", "0xabc") is True


@pytest.mark.topologies
async def test_of_many_at_once_one_is_the_first(locks, rival):
    answers = await asyncio.gather(*(first_time(side, "deposit", 1) for side in (locks, rival) * 10))
    assert sorted(answers) == [False] * 19 + [True]


async def test_after_its_time_it_is_the_first_time_again(on_every_side):
    async def behaviour(locks, name):
        assert await first_time(locks, "deposit", name, ttl=0.2)

        async def is_first_again():
            return await first_time(locks, "deposit", name, ttl=0.2)

        await eventually_async(is_first_again)

    await on_every_side(behaviour)


async def test_a_mark_is_not_a_result(locks):
    await first_time(locks, "deposit", "0xabc")
    with pytest.raises(InvalidRequest, match="first_time"):
        await once(locks, "deposit:0xabc", Work())


async def test_another_namespace_is_other_work(locks, opened, combination):
    apart = await opened(combination[1], namespace="billing")
    assert await once(locks, "payout:42", Work(1)) == 1
    assert await once(apart, "payout:42", Work(2)) == 2


BAD = {
    "a key of a wrong type": {"key": 5},
    "an empty key": {"key": ""},
    "no function": {"fn": None},
    "no time to keep it": {"ttl": 0},
    "more than a year": {"ttl": 1e9},
    "a lease that is too long": {"lease_ttl": 90_000},
    "an invalid wait": {"wait": -1},
}


@pytest.mark.parametrize("wrong", BAD.values(), ids=BAD.keys())
async def test_bad_arguments_are_refused_and_nothing_is_run(locks, wrong):
    work = Work(1)
    arguments = {"key": "payout:42", "fn": work, **wrong}
    with pytest.raises(InvalidRequest):
        await once(locks, arguments.pop("key"), arguments.pop("fn"), **arguments)
    assert work.runs == 0


@pytest.mark.parametrize(
    "key", [("", "x"), ("a:b", "x"), (5, "x"), ("a", ""), ("a", None), ("a", True)], ids=repr
)
async def test_a_first_time_of_nothing_is_refused(locks, key):
    with pytest.raises(InvalidRequest):
        await first_time(locks, *key)


async def test_a_function_with_a_parameter_gets_the_lease_that_protects_it(locks, rival):
    seen = []

    def work(lease):
        lease.check()
        seen.append(lease)
        return lease.fence

    fence = await once(locks, "payout:42", work)
    assert await once(rival, "payout:42", work) == fence == seen[0].fence
    assert len(seen) == 1
    with pytest.raises(RuntimeError):
        await once(locks, "payout:43", Work(RuntimeError("no money")))
    assert await once(locks, "payout:43", work) == seen[1].fence
    # What it may leave out, it does not get.
    assert await once(locks, "payout:44", lambda amount=100, *rest, **more: [amount, rest, more]) == [
        100,
        [],
        {},
    ]


@pytest.mark.parametrize("fn", [lambda lease, amount: 1, lambda a, b, *, c: 1])
async def test_a_function_with_several_parameters_is_refused_before_it_is_run(locks, admin, fn):
    with pytest.raises(InvalidRequest, match="one for the lease"):
        await once(locks, "payout:42", fn)
    assert not admin.keys("*payout*")
