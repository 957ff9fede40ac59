"""Asking for a lock: how long a grant may be trusted, when to ask again, what to say in the end."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.virtual_world import (
    NEVER,
    CancelledHere,
    Later,
    ScriptedStore,
    World,
    asking,
    granted,
    make_engine,
    taking,
)

from leasehold.core.replies import Busy, Ended, Refusal
from leasehold.core.validity import trusted_for, ttl_for
from leasehold.errors import AcquireTimeout, LeaseLost, LockBusy, StoreRefused, StoreUnavailable

SILENCE = StoreUnavailable("no answer")
HELD = Busy("alice", 3.0)


def drift(ttl):
    """What the design takes off a ttl: one percent and two milliseconds."""
    return 0.01 * ttl + 0.002


def tokens(calls):
    return {call.asked["token"] for call in calls}


def test_a_slow_reply_never_lengthens_the_lease(world, store, engine):
    sent_at = world.now()
    store.answer("acquire", Later(0.9, granted(7, 1.0)))
    lease = world.run(engine.acquire("a", **asking(ttl=1.0)))
    assert world.now() == pytest.approx(sent_at + 0.9)
    assert lease.valid_until == pytest.approx(sent_at + 1.0 - drift(1.0))
    assert lease.remaining() == pytest.approx(0.1 - drift(1.0))


def test_a_slow_reply_never_lengthens_a_lease_that_was_taken(world, store, engine):
    sent_at = world.now()
    store.answer("take", Later(0.9, granted(7, 1.0)))
    lease = world.run(engine.take("a", **taking(ttl=1.0)))
    assert lease.valid_until == pytest.approx(sent_at + 1.0 - drift(1.0))


def test_a_slow_reply_never_lengthens_a_lease_that_is_renewed(world, store, engine):
    store.answer("acquire", granted(7, 1.0))
    lease = world.run(engine.acquire("a", **asking(ttl=1.0)))
    sent_at = world.now()
    store.answer("renew", Later(0.9, store.usual["renew"]))
    world.run(engine.renew(lease))
    assert lease.valid_until == pytest.approx(sent_at + 1.0 - drift(1.0))


def test_a_lease_is_held_until_its_deadline_and_not_a_moment_longer(world, store, engine):
    store.answer("acquire", granted(7, 1.0))
    lease = world.run(engine.acquire("a", **asking(ttl=1.0)))
    world.time = math.nextafter(lease.valid_until, 0)
    lease.check()
    assert not lease.is_lost
    world.time = lease.valid_until
    assert lease.is_lost
    assert lease.remaining() == 0.0
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert lost.value.reason == "expired"


@given(st.floats(0.01, 86_400))
def test_drift_is_one_percent_and_two_milliseconds(ttl):
    assert trusted_for(ttl) == pytest.approx(ttl - drift(ttl))
    assert trusted_for(ttl_for(ttl)) == pytest.approx(ttl)


def test_the_remaining_time_of_an_earlier_grant_counts_and_not_its_ttl(world, store, engine):
    """For a repeated token the store returns the remaining time of the first grant."""
    store.answer("acquire", Later(0.5, SILENCE), granted(7, 0.4))
    started_at = world.now()
    lease = world.run(engine.acquire("a", **asking(ttl=1.0)))
    asked_again_at = store.asked("acquire")[1].at
    assert asked_again_at > started_at + 0.5
    assert lease.valid_until == pytest.approx(asked_again_at + 0.4 - drift(0.4))


def test_a_grant_that_arrives_after_its_ttl_is_not_reported(world, store, engine):
    store.answer("acquire", Later(1.0, granted(7, 1.0)), granted(8, 1.0))
    lease = world.run(engine.acquire("a", **asking(ttl=1.0)))
    assert lease.fence == 8
    assert not lease.is_lost
    assert len(tokens(store.asked("acquire"))) == 1


def test_grants_that_always_arrive_too_late_end_as_unknown_and_are_released(world, store, engine):
    store.usual["acquire"] = Later(1.0, granted(7, 1.0))
    with pytest.raises(StoreUnavailable, match="after its ttl"):
        world.run(engine.acquire("a", **asking(ttl=1.0)))
    world.settle()
    assert tokens(store.asked("release")) == tokens(store.asked("acquire"))


def test_a_take_that_arrives_after_its_ttl_is_not_reported_as_held(world, store, engine):
    store.usual["take"] = Later(1.0, granted(7, 1.0))
    try:
        lease = world.run(engine.take("a", **taking(ttl=1.0)))
    except StoreUnavailable:
        return
    assert lease.is_lost


def test_a_timeout_is_followed_by_a_repetition_with_the_same_token(world, store, engine):
    store.answer("acquire", SILENCE, SILENCE, granted(7, 30))
    lease = world.run(engine.acquire("a", **asking()))
    assert len(store.asked("acquire")) == 3
    assert tokens(store.asked("acquire")) == {lease.token}
    assert store.asked("release") == []


def test_two_acquires_never_share_a_token(world, store, engine):
    store.usual["acquire"] = granted(7, 30)
    leases = [world.run(engine.acquire("a", **asking())) for _ in range(3)]
    assert len({lease.token for lease in leases}) == 3


def test_the_timeout_ends_a_silent_request(world, store):
    engine = make_engine(world, store, timeout=0.7)
    store.usual["acquire"] = SILENCE
    started_at = world.now()
    with pytest.raises(StoreUnavailable):
        world.run(engine.acquire("a", **asking(wait=60)))
    assert world.now() - started_at == pytest.approx(0.7)


def test_the_timeout_counts_from_the_begin_of_the_silence(world, store):
    engine = make_engine(world, store, timeout=0.7)
    store.answer("acquire", Later(0.3, HELD))
    store.usual["acquire"] = Later(0.5, SILENCE)
    with pytest.raises(StoreUnavailable):
        world.run(engine.acquire("a", **asking(wait=60)))
    first_silent_at = store.asked("acquire")[1].at
    assert world.now() - first_silent_at == pytest.approx(1.0, abs=0.05)  # 0.5, a pause, 0.5


def test_an_answer_ends_the_silence(world, store):
    engine = make_engine(world, store, timeout=0.7)
    store.answer("acquire", *[Later(0.5, SILENCE), HELD] * 4, granted(7, 30))
    lease = world.run(engine.acquire("a", **asking(wait=60)))
    assert lease.fence == 7


def test_an_acquire_without_a_wait_is_still_retried(world, store, engine):
    """Unknown is never reported as no: wait=0 limits waiting for the holder, not for the store."""
    store.answer("acquire", SILENCE, granted(7, 30))
    assert world.run(engine.acquire("a", **asking(wait=0))).fence == 7


def test_without_waiting_a_held_lock_is_busy_at_once(world, store, engine):
    store.answer("acquire", HELD)
    started_at = world.now()
    with pytest.raises(LockBusy) as busy:
        world.run(engine.acquire("a", **asking(wait=0)))
    assert type(busy.value) is LockBusy
    assert (busy.value.name, busy.value.holder, busy.value.retry_after) == ("a", "alice", 3.0)
    assert world.now() == started_at
    assert len(store.calls) == 1


def test_a_timeout_comes_exactly_at_the_end_of_the_wait(world, store, engine):
    store.usual["acquire"] = HELD
    started_at = world.now()
    with pytest.raises(AcquireTimeout) as timeout:
        world.run(engine.acquire("a", **asking(wait=1.5)))
    assert world.now() - started_at == pytest.approx(1.5)
    assert (timeout.value.waited, timeout.value.holder, timeout.value.retry_after) == (1.5, "alice", 3.0)
    assert store.calls[-1].at == pytest.approx(started_at + 1.5)  # a last look when the time is over


def test_waiting_without_limit_goes_on_until_the_grant(world, store, engine):
    store.usual["acquire"] = lambda _asked: HELD if world.now() < 1_400 else granted(7, 30)
    lease = world.run(engine.acquire("a", **asking(wait=None)))
    assert lease.fence == 7
    assert 1_400 <= world.now() <= 1_400.1


@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_pauses_while_waiting_grow_up_to_the_retry_interval(world, store, engine, jitter):
    world.jitter = jitter
    store.usual["acquire"] = HELD
    with pytest.raises(AcquireTimeout):
        world.run(engine.acquire("a", **asking(wait=2)))
    asked_at = [call.at for call in store.calls]
    pauses = [later - earlier for earlier, later in pairwise(asked_at)]
    assert pauses[0] == pytest.approx(0.01 * (0.5 + 0.5 * jitter))
    assert max(pauses) <= 0.05 + 1e-9
    assert min(pauses[3:-1]) >= 0.025 - 1e-9


def test_an_acquire_that_is_cancelled_is_released(world, store, engine):
    store.answer("acquire", NEVER)
    asking_task = world.start(engine.acquire("a", **asking()))
    world.settle()
    asking_task.cancel()
    world.settle()
    assert isinstance(asking_task.error, CancelledHere)
    assert tokens(store.asked("release")) == tokens(store.asked("acquire"))
    assert [call.asked["name"] for call in store.asked("release")] == ["a"]


def test_an_acquire_whose_outcome_is_unknown_is_released(world, store, engine):
    store.usual["acquire"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(engine.acquire("a", **asking()))
    world.settle()
    assert tokens(store.asked("release")) == tokens(store.asked("acquire"))


def test_a_take_whose_outcome_is_unknown_is_released(world, store, engine):
    store.usual["take"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(engine.take("a", **taking()))
    world.settle()
    assert len(tokens(store.asked("take"))) == 1
    assert tokens(store.asked("release")) == tokens(store.asked("take"))


def test_a_definite_no_leaves_nothing_to_clean_up(world, store, engine):
    store.usual["acquire"] = HELD
    with pytest.raises(AcquireTimeout):
        world.run(engine.acquire("a", **asking(wait=0.2)))
    world.advance(60)
    assert store.asked("release") == []


def test_cancelling_between_two_tries_leaves_nothing_to_clean_up(world, store, engine):
    store.usual["acquire"] = HELD
    waiting = world.start(engine.acquire("a", **asking(wait=None)))
    world.advance(1)
    waiting.cancel()
    world.advance(60)
    assert isinstance(waiting.error, CancelledHere)
    assert store.asked("release") == []


def test_a_grant_that_was_reported_is_not_cleaned_up(world, store, engine):
    store.answer("acquire", SILENCE, granted(7, 30))
    world.run(engine.acquire("a", **asking()))
    world.advance(60)
    assert store.asked("release") == []


def test_silence_before_a_no_is_cleaned_up_because_the_lost_request_may_arrive_late(world, store, engine):
    """The request was lost with its connection; the server may still read it after it refused the one on the next."""
    store.answer("acquire", SILENCE, HELD)
    store.usual["release"] = Ended.EXPIRED
    with pytest.raises(LockBusy):
        world.run(engine.acquire("a", **asking(wait=0)))
    world.advance(60)
    assert tokens(store.asked("release")) == tokens(store.asked("acquire"))
    assert len(store.asked("release")) == 2  # at once, and once more later


@pytest.mark.parametrize(("keeps_order", "looks"), [(True, 1), (False, 2)])
def test_in_a_store_that_keeps_no_order_a_cancelled_request_is_released_twice(
    world, store, engine, keeps_order, looks
):
    store.keeps_order = keeps_order
    store.usual["release"] = Ended.EXPIRED
    store.answer("acquire", NEVER)
    asking_task = world.start(engine.acquire("a", **asking()))
    world.settle()
    asking_task.cancel()
    world.advance(60)
    assert len(store.asked("release")) == looks


@pytest.mark.parametrize("verb", ["acquire", "take"])
def test_a_refusal_changed_nothing_so_nothing_is_cleaned_up(world, store, engine, verb):
    store.usual[verb] = StoreRefused("out of memory")
    store.usual["release"] = StoreRefused("out of memory")
    arguments = asking() if verb == "acquire" else taking()
    with pytest.raises(StoreRefused):
        world.run(getattr(engine, verb)("a", **arguments))
    started_at = world.now()
    world.run(engine.close())
    assert store.asked("release") == []
    assert world.now() == started_at  # closing has nothing to wait for


def test_a_refusal_is_raised_at_once(world, store, engine):
    store.answer("acquire", StoreRefused("out of memory"))
    started_at = world.now()
    with pytest.raises(StoreRefused):
        world.run(engine.acquire("a", **asking(wait=60)))
    assert world.now() == started_at


def test_a_refusal_after_silence_is_released_because_the_silent_request_may_have_been_granted(
    world, store, engine
):
    store.answer("acquire", SILENCE, StoreRefused("out of memory"))
    with pytest.raises(StoreRefused):
        world.run(engine.acquire("a", **asking()))
    world.settle()
    assert tokens(store.asked("release")) == tokens(store.asked("acquire"))


def test_a_refused_take_after_silence_is_released_because_the_silent_one_may_have_been_granted(
    world, store, engine
):
    store.answer("take", SILENCE, StoreRefused("out of memory"))
    with pytest.raises(StoreRefused):
        world.run(engine.take("a", **taking()))
    world.settle()
    assert tokens(store.asked("release")) == tokens(store.asked("take"))


def test_a_take_from_another_holder_than_expected_names_the_holder(world, store, engine):
    store.answer("take", Refusal(9, "bob"))
    with pytest.raises(LockBusy) as busy:
        world.run(engine.take("a", **taking(expect_fence=8)))
    assert busy.value.holder == "bob"
    assert store.calls[0].asked["expect_fence"] == 8
    world.advance(60)
    assert store.asked("release") == []


def test_a_take_whose_expected_holder_is_gone_does_not_say_that_the_lock_is_held(world, store, engine):
    store.answer("take", Refusal(0, None))
    with pytest.raises(LockBusy) as busy:
        world.run(engine.take("a", **taking(expect_fence=8)))
    assert "is held" not in str(busy.value)


def test_arguments_reach_the_store_unchanged(world, store, engine):
    store.answer("acquire", granted(7, 12))
    lease = world.run(engine.acquire("a b", **asking(ttl=12, floor=5, holder={"user": "é"})))
    asked = store.calls[0].asked
    assert (asked["name"], asked["ttl"], asked["floor"]) == ("a b", 12, 5)
    assert asked["holder"] == '{"user":"\\u00e9"}'
    assert (lease.name, lease.mode, lease.holder, lease.fence) == ("a b", "exclusive", {"user": "é"}, 7)


def test_a_max_hold_below_the_ttl_shortens_the_lease_in_the_store_too(world, store, engine):
    store.answer("acquire", lambda asked: granted(7, asked["ttl"]))
    lease = world.run(engine.acquire("a", **asking(ttl=30, max_hold=1)))
    assert store.calls[0].asked["ttl"] == pytest.approx(ttl_for(1))
    world.advance(0.999)
    assert not lease.is_lost
    world.advance(0.002)
    assert lease.loss() == "max_hold"


@pytest.mark.parametrize("max_hold", [0.02, 0.1, 0.3, 1, 7.7, 25])
@pytest.mark.parametrize("slowness", [0.0, 0.011])
def test_max_hold_is_the_reason_when_it_ends_a_lease(max_hold, slowness):
    world = World(123_456.789)
    store = ScriptedStore(world)
    started_at = world.now()
    store.answer("acquire", lambda asked: Later(slowness, granted(7, asked["ttl"])))
    lease = world.run(make_engine(world, store).acquire("a", **asking(ttl=30, max_hold=max_hold)))
    assert lease.loss() is None
    world.time = started_at + max_hold - 1e-6
    assert lease.loss() is None
    world.time = started_at + max_hold + 1e-6
    assert lease.loss() == "max_hold"
