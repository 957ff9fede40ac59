"""Requests with a not-after: when they are repeated, and what waits until they can no longer be done."""

from __future__ import annotations

import itertools

import pytest
from tests.unit.virtual_world import Later, granted

from leasehold.core.multi_lock import acquire_all
from leasehold.core.replies import DONE, Ended, TooLate
from leasehold.core.validity import trusted_for
from leasehold.errors import StoreUnavailable
from leasehold.valkey.transport.server_clock import ServerClock

SILENCE = StoreUnavailable("the connection was cut")
STORE_MS = 1_700_000_000_000


def take(engine, *, ttl=30):
    return engine.take("a", ttl, "exclusive", None, False, None, None, None)


def lock_all(engine):
    return acquire_all(engine, ["a", "b"], 30, 0, "exclusive", None, False, None, None)


VERBS = {
    "take": (take, granted(7, 30)),
    "acquire_all": (lock_all, [granted(7, 30), granted(8, 30)]),
}
each_verb = pytest.mark.parametrize("verb", VERBS)


@pytest.fixture
def hold(world, store, engine):
    """`hold(ttl, renew=…)`: a lease, granted at once."""

    def acquire(ttl, *, renew=False):
        store.answer("acquire", granted(7, ttl))
        return world.run(engine.acquire("a", ttl, 0, "exclusive", None, renew, None, None))

    return acquire


@each_verb
def test_a_request_is_repeated_only_when_the_one_before_cannot_be_done_any_more(world, store, engine, verb):
    """Done after the second was done and released, it would get a lock that no client uses."""
    ask, reply = VERBS[verb]
    store.answer(verb, SILENCE, reply)
    world.run(ask(engine))
    first, second = store.asked(verb)
    assert first.at < first.asked["not_after"] <= second.at
    assert second.at - first.at <= 1, "a broken connection is not felt for long"


@each_verb
def test_a_request_that_never_left_is_repeated_at_once(world, store, engine, verb, monkeypatch):
    ask, reply = VERBS[verb]
    send = getattr(store, verb)

    async def cannot_connect(*arguments):
        *others, not_after = arguments
        try:
            return await send(*others, not_after)
        except StoreUnavailable:
            not_after.is_sent = False
            raise

    monkeypatch.setattr(store, verb, cannot_connect)
    store.answer(verb, SILENCE, reply)
    started_at = world.now()
    world.run(ask(engine))
    assert world.now() - started_at < 0.1


@each_verb
def test_a_request_that_came_too_late_is_repeated_and_leaves_nothing_to_clean_up(world, store, engine, verb):
    ask, reply = VERBS[verb]
    store.answer(verb, TooLate(STORE_MS), TooLate(STORE_MS), reply)
    world.run(ask(engine))
    allowances = [call.asked["not_after"] - call.at for call in store.asked(verb)]
    assert allowances == pytest.approx([0.5, 1, 2]), "as long as the way to the store may take"
    assert store.asked("release") == []


@each_verb
def test_after_the_first_that_came_too_late_there_is_no_pause(world, store, engine, verb):
    """It comes too late whenever the store's clock was read long ago, over a fast network, too."""
    ask, reply = VERBS[verb]
    store.answer(verb, TooLate(STORE_MS), TooLate(STORE_MS), reply)
    world.run(ask(engine))
    first, second, third = (call.at for call in store.asked(verb))
    assert first == second < third


@each_verb
def test_requests_that_always_come_too_late_end_with_the_timeout(world, store, engine, verb):
    ask, _ = VERBS[verb]
    store.usual[verb] = Later(0.3, TooLate(STORE_MS))
    started_at = world.now()
    with pytest.raises(StoreUnavailable, match="too late"):
        world.run(ask(engine))
    assert 2 <= world.now() - started_at < 2.5


@each_verb
def test_a_request_that_cannot_be_settled_within_the_timeout_is_not_repeated(world, store, engine, verb):
    ask, _ = VERBS[verb]
    store.usual["release"] = Ended.EXPIRED  # not there, or not yet
    store.usual[verb] = Later(0.45, SILENCE)
    with pytest.raises(StoreUnavailable):
        world.run(ask(engine))
    calls = store.asked(verb)
    assert all(one.asked["not_after"] <= other.at for one, other in itertools.pairwise(calls))
    world.advance(30)
    assert store.asked("release")[-1].at >= calls[-1].asked["not_after"], (
        "released when nothing can come any more"
    )


def test_only_a_renewal_that_shortens_has_a_not_after(world, store, engine, hold):
    lease = hold(30, renew=True)
    world.run(engine.renew(lease, 60))
    world.advance(25)
    assert store.asked("shorten") == []
    world.run(engine.renew(lease, 6))
    (call,) = store.asked("shorten")
    assert call.asked["renewal"].ttl == 6
    assert 0 < call.asked["not_after"] - call.at <= 6 / 3
    world.advance(10)
    assert len(store.asked("shorten")) == 1


def test_a_lease_that_a_lost_renewal_may_have_extended_is_shortened(world, store, engine, hold):
    """What the store has is not known, so the longest that was ever asked for counts."""
    lease = hold(5)
    store.usual["renew"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(engine.renew(lease, 600))
    world.run(engine.renew(lease, 20))
    assert [call.asked["renewal"].ttl for call in store.asked("shorten")] == [20]


def test_after_a_shorter_renewal_the_next_ones_extend_again(world, store, engine, hold):
    lease = hold(60)
    world.run(engine.renew(lease, 6))
    world.advance(1)
    world.run(engine.renew(lease))
    assert len(store.asked("shorten")) == 1
    assert len(store.asked("renew")) == 1
    assert lease.remaining() == pytest.approx(trusted_for(6))


def test_a_longer_renewal_waits_until_a_shorter_one_cannot_be_done_any_more(world, store, engine, hold):
    lease = hold(60)
    store.answer("shorten", SILENCE)
    world.run(engine.renew(lease, 6))
    lost, again = store.asked("shorten")
    assert again.at - lost.at < 0.1, "a second one does no harm beside the first"
    world.run(engine.renew(lease, 60))
    (longer,) = store.asked("renew")
    assert longer.at >= lost.asked["not_after"]
    assert lease.remaining() <= trusted_for(60)


def test_a_longer_renewal_also_waits_for_a_shorter_one_whose_caller_was_cancelled(world, store, engine, hold):
    lease = hold(60)
    store.answer("shorten", Later(60, DONE))
    task = world.start(engine.renew(lease, 6))
    world.advance(0.1)
    task.cancel()
    world.settle()
    world.run(engine.renew(lease, 60))
    assert store.asked("renew")[0].at >= store.asked("shorten")[0].asked["not_after"]


def test_so_does_the_renewer_which_then_keeps_the_lease_alive(world, store, engine, hold):
    lease = hold(0.9, renew=True)
    world.advance(0.1)
    store.usual["shorten"] = Later(0.02, SILENCE)
    task = world.start(engine.renew(lease, 0.6))
    world.advance(0.21)
    task.cancel()
    world.advance(10)
    last = store.asked("shorten")[-1]
    assert store.asked("renew")[0].at >= last.asked["not_after"]
    assert not lease.is_lost


def test_a_shorter_renewal_in_doubt_does_not_delay_the_end_of_a_lease_that_ends_before(
    world, store, engine, hold
):
    lease = hold(60, renew=True)
    ended_at = []
    lease.on_end = lambda: ended_at.append(world.now())
    store.usual["shorten"] = SILENCE
    for ttl in (30, 0.1):
        task = world.start(engine.renew(lease, ttl))
        world.settle()
        task.cancel()
        world.settle()
    assert lease.valid_until < lease.unsettled_until
    world.advance(5)
    assert ended_at == [pytest.approx(lease.valid_until)]


def test_a_server_clock_is_never_ahead_of_the_server_however_slow_a_reply_was_or_old_it_is():
    now = 50.0
    known = ServerClock(lambda: now)
    assert known.to_ms(now) == 0, "unknown: whatever is sent is too late, and the reply tells the time"
    now = 50.7  # the reply took 0.7 s
    known.read(1_000_000)
    assert known.to_ms(50.7) == 1_000_000
    now = 150.7
    assert 1_000_000 + 98_000 <= known.to_ms(150.7) <= 1_000_000 + 100_000 * 0.99 + 1
