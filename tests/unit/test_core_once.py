"""The result of work that was done: kept as long as there is a chance to, and never given up for lost too soon."""

from __future__ import annotations

import pytest
from tests.unit.virtual_world import CancelledHere, Later, asking, granted

from leasehold.core.once import Once
from leasehold.core.replies import Ended
from leasehold.errors import LeaseLost, StoreRefused, StoreUnavailable

SILENCE = StoreUnavailable("no answer")
REFUSAL = StoreRefused("out of memory")
PAID = '"paid"'
TTL = 3.0


class ScriptedResults:
    """Implements the port Results: `keep` answers as the scripted store does."""

    def __init__(self, store):
        self._store = store

    async def keep(self, key, token, value, ttl):
        return await self._store._reply("keep", key=key, token=token, value=value, ttl=ttl)


@pytest.fixture
def once(store, engine):
    return Once(engine, ScriptedResults(store))


@pytest.fixture
def lease(world, store, engine):
    store.answer("acquire", lambda asked: granted(7, asked["ttl"]))
    return world.run(engine.acquire("payout:42", **asking(renew=True, ttl=TTL)))


def finish(world, once, lease):
    return world.run(once.finish(lease, PAID, 60))


def test_what_was_kept_ends_the_lease_and_nothing_is_renewed_after(world, store, once, lease):
    store.answer("keep", True)
    assert finish(world, once, lease) == "paid"
    world.advance(60)
    assert (lease.ended, lease.is_given_back) == ("released", True)
    assert store.asked("renew") == store.asked("release") == []


@pytest.mark.parametrize("trouble", [SILENCE, REFUSAL], ids=["silence", "refusal"])
def test_it_is_retried_for_as_long_as_the_lease_lasts(world, store, once, lease, trouble):
    store.usual["keep"] = trouble
    store.usual["renew"] = SILENCE
    world.call_at(world.time + 2.8, lambda: store.usual.update(keep=True))  # longer than the patience
    assert finish(world, once, lease) == "paid"


@pytest.mark.parametrize("trouble", [SILENCE, REFUSAL], ids=["silence", "refusal"])
def test_a_lease_whose_work_was_done_is_not_released_if_its_result_was_not_kept(
    world, store, once, lease, trouble
):
    store.usual["keep"] = trouble
    store.usual["renew"] = SILENCE
    with pytest.raises(type(trouble)):
        finish(world, once, lease)
    world.advance(60)
    assert lease.is_abandoned
    assert store.asked("release") == []


def test_one_that_is_renewed_all_the_time_is_not_retried_for_ever(world, store, once, lease):
    store.usual["keep"] = SILENCE
    with pytest.raises(StoreUnavailable):
        finish(world, once, lease)
    assert world.time == pytest.approx(1_000 + TTL, abs=0.2)
    renewed = len(store.asked("renew"))
    world.advance(60)
    assert len(store.asked("renew")) == renewed > 0
    assert store.asked("release") == []


def test_a_refusal_after_a_silence_does_not_say_that_nothing_was_kept(world, store, once, lease):
    store.answer("keep", SILENCE)
    store.usual["keep"] = REFUSAL
    with pytest.raises(StoreUnavailable):
        finish(world, once, lease)


def test_it_is_not_renewed_while_its_end_is_under_way(world, store, once, lease):
    store.usual["renew"] = Ended.EXPIRED
    store.answer("keep", Later(2.0, True))  # kept at once; a renewal is due after one second
    assert finish(world, once, lease) == "paid"
    assert store.asked("renew") == []


def test_a_result_whose_reply_was_lost_is_read_again_although_the_lease_is_gone(world, store, once, lease):
    store.answer("keep", Later(1.5, SILENCE))
    store.usual["renew"] = Ended.EXPIRED  # because the result was kept
    store.usual["keep"] = True
    assert finish(world, once, lease) == "paid"
    assert len(store.asked("renew")) == 1


def test_a_result_whose_reply_was_lost_is_asked_for_until_the_deadline_although_the_lease_is_gone(
    world, store, once, lease
):
    """The check after the reconnect finds the lease gone at once, and the next connection may break, too."""

    def reply_is_lost(_asked):
        store.on_gap()
        return SILENCE

    store.usual["check"] = Ended.EXPIRED  # because the result was kept
    store.answer("keep", reply_is_lost, Later(0.1, SILENCE), Later(0.1, SILENCE))
    store.usual["keep"] = True
    assert finish(world, once, lease) == "paid"
    assert store.asked("check")


def test_work_whose_lease_had_ended_keeps_nothing(world, store, once, lease):
    store.answer("keep", False)
    with pytest.raises(LeaseLost):
        finish(world, once, lease)
    assert lease.ended == "expired"


def test_a_cancelled_caller_is_no_reason_not_to_keep_what_was_done(world, store, once, lease):
    store.usual["keep"] = SILENCE
    caller = world.start(once.finish(lease, PAID, 60))
    world.advance(1.5)
    caller.cancel()
    world.settle()
    assert isinstance(caller.error, CancelledHere)
    store.usual["keep"] = True
    world.run(once.close())
    assert lease.is_given_back
    assert store.asked("release") == []


def test_closing_waits_for_what_is_to_be_kept_but_not_for_ever(world, store, once, lease, engine):
    store.usual["keep"] = SILENCE
    world.start(once.finish(lease, PAID, 60)).cancel()
    world.advance(0.5)
    closed_at = world.time
    world.run(once.close())
    assert world.time == pytest.approx(closed_at + engine.timeout)
