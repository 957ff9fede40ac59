"""Renew, release, abandon and loss of a lease, as its holder sees them."""

from __future__ import annotations

import gc

import pytest
from tests.unit.virtual_world import NEVER, CancelledHere, Later, asking, granted, make_engine, taking

from leasehold.core.leases.lease import LeaseState
from leasehold.core.replies import DONE, Ended, LockInfo
from leasehold.core.validity import trusted_for
from leasehold.errors import LeaseLost, StoreRefused, StoreUnavailable

SILENCE = StoreUnavailable("no answer")


@pytest.fixture
def hold(world, store, engine):
    """`hold("a", ttl=1.0, renew=True)`: a lease granted at once."""

    def acquire(name="a", **changed):
        store.answer("acquire", lambda asked: granted(7, asked["ttl"]))
        return world.run(engine.acquire(name, **asking(**changed)))

    return acquire


def reason(lost):
    return lost.value.reason


# Renewing


def test_a_renewal_counts_from_before_it_was_sent(world, store, engine, hold):
    lease = hold(ttl=10)
    world.advance(4)
    world.run(engine.renew(lease))
    assert lease.remaining() == pytest.approx(trusted_for(10))
    (renewal,) = store.asked("renew")[0].asked["renewals"]
    assert renewal == ("a", lease.token, 7, 10, False)


def test_a_renewal_with_another_ttl_is_the_new_ttl_from_then_on(world, store, engine, hold):
    lease = hold(ttl=10)
    world.run(engine.renew(lease, 20))
    assert lease.remaining() == pytest.approx(trusted_for(20))
    world.run(engine.renew(lease))
    (renewal,) = store.asked("renew")[1].asked["renewals"]
    assert renewal.ttl == 20


def test_a_shorter_renewal_shortens_the_lease(world, engine, hold):
    lease = hold(ttl=10)
    world.run(engine.renew(lease, 2))
    assert lease.remaining() == pytest.approx(trusted_for(2))


def test_a_shorter_renewal_whose_outcome_is_unknown_is_not_trusted_for_longer(world, store, engine, hold):
    """It may have been done: the store may grant the lock to another client after the shorter ttl."""
    lease = hold(ttl=30)
    sent_at = world.now()
    store.usual["shorten"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(engine.renew(lease, 5))
    assert lease.valid_until <= sent_at + 5


def test_a_shorter_renewal_under_way_is_not_trusted_for_longer(world, store, engine, hold):
    lease = hold(ttl=30)
    store.answer("shorten", Later(1.9, DONE))
    world.start(engine.renew(lease, 1))
    world.advance(1.5)
    assert lease.is_lost


def test_a_renewal_that_finds_the_lease_gone_says_so_and_ends_it(world, store, engine, hold):
    for answer, expected in ((Ended.EXPIRED, "expired"), (Ended.TAKEN, "taken")):
        lease = hold()
        store.answer("renew", answer)
        with pytest.raises(LeaseLost) as lost:
            world.run(engine.renew(lease))
        assert reason(lost) == expected
        assert lease.is_lost
        assert lease.loss() == expected


def test_a_lost_lease_sends_nothing(world, store, engine, hold):
    lease = hold(ttl=1)
    world.advance(1)
    with pytest.raises(LeaseLost) as lost:
        world.run(engine.renew(lease))
    assert reason(lost) == "expired"
    assert store.asked("renew") == []


def test_silence_is_no_loss(world, store, engine, hold):
    lease = hold(ttl=30)
    store.usual["renew"] = SILENCE
    valid_until = lease.valid_until
    with pytest.raises(StoreUnavailable):
        world.run(engine.renew(lease))
    assert not lease.is_lost
    assert lease.valid_until == valid_until


def test_a_renewal_is_tried_again_until_the_deadline_only(world, store, engine, hold):
    lease = hold(ttl=0.5)
    store.usual["renew"] = Later(0.2, SILENCE)
    with pytest.raises(LeaseLost) as lost:
        world.run(engine.renew(lease))
    assert reason(lost) == "expired"
    assert all(call.at < lease.valid_until for call in store.asked("renew"))


def test_a_late_reply_does_not_revive_a_lease(world, store, engine, hold):
    lease = hold(ttl=1)
    store.answer("renew", Later(1.5, DONE))
    with pytest.raises(LeaseLost):
        world.run(engine.renew(lease))
    assert lease.is_lost
    assert lease.remaining() == 0


def test_a_refused_renewal_is_raised_and_leaves_the_lease_as_it_was(world, store, engine, hold):
    lease = hold(ttl=30)
    store.answer("renew", StoreRefused("read-only"))
    with pytest.raises(StoreRefused):
        world.run(engine.renew(lease))
    assert not lease.is_lost


def test_a_renewal_does_not_outlive_max_hold(world, store, engine, hold):
    lease = hold(ttl=10, max_hold=12)
    world.advance(9)
    world.run(engine.renew(lease))
    assert lease.remaining() == pytest.approx(3)
    (renewal,) = store.asked("renew")[0].asked["renewals"]
    assert 3 < renewal.ttl < 3.1
    world.advance(3.001)
    assert lease.loss() == "max_hold"


def test_a_renewal_by_hand_and_one_by_the_renewer_are_never_under_way_together(world, store, engine, hold):
    """Over two sockets they could be done in either order, and the holder would trust the wrong one."""
    lease = hold(ttl=3, renew=True)
    world.advance(0.9)
    store.answer("renew", Later(1, DONE))
    by_hand = world.start(engine.renew(lease, 60))
    world.advance(0.5)  # past a third of the ttl, when the keeper would renew
    assert not by_hand.is_done
    assert len(store.asked("renew")) == 1


# Releasing


def test_release_asks_with_its_own_token_and_fence(world, store, engine, hold):
    store.answer("acquire", granted(7, 30, "receipt"))
    lease = world.run(engine.acquire("a", **asking()))
    world.run(engine.release(lease))
    expected = {"name": "a", "token": lease.token, "fence": 7, "receipt": "receipt"}
    assert store.asked("release")[0].asked == expected
    assert lease.loss() == "released"
    assert lease.remaining() == 0


def test_releasing_twice_is_harmless_and_asks_once(world, store, engine, hold):
    lease = hold()
    world.run(engine.release(lease))
    world.run(engine.release(lease))
    assert len(store.asked("release")) == 1


def test_releasing_twice_at_once_is_harmless(world, store, engine, hold):
    lease = hold()
    store.answer("release", Later(0.1, DONE), Later(0.1, Ended.EXPIRED))
    both = [world.start(engine.release(lease)) for _ in range(2)]
    world.advance(1)
    assert [task.error for task in both] == [None, None]


def test_a_release_among_threads_is_the_first_once_and_makes_no_dict(world, store, engine):
    """CPython keeps attributes without a dict until ``__dict__`` is asked for; each access is slower from then on."""

    class ThreadLease(LeaseState):
        is_used_by_threads = True

    lease = ThreadLease(engine, "a", "token", 7, "exclusive", "tester", 30, world.now() + 30)
    store.answer("release", DONE)
    world.run(engine.release(lease))
    assert lease.is_given_back
    assert not lease.is_first_release()
    assert not any(isinstance(part, dict) for part in gc.get_referents(lease))


def test_a_released_lease_cannot_be_renewed(world, store, engine, hold):
    lease = hold()
    world.run(engine.release(lease))
    with pytest.raises(LeaseLost) as lost:
        world.run(engine.renew(lease))
    assert reason(lost) == "released"
    assert store.asked("renew") == []


def test_a_release_whose_reply_was_lost_is_repeated_and_then_gone_means_done(world, store, engine, hold):
    lease = hold()
    store.answer("release", SILENCE, Ended.EXPIRED)
    world.run(engine.release(lease))
    assert lease.loss() == "released"


def test_a_release_that_finds_the_lease_gone_says_so(world, store, engine, hold):
    for answer, expected in ((Ended.EXPIRED, "expired"), (Ended.TAKEN, "taken")):
        lease = hold()
        store.answer("release", answer)
        with pytest.raises(LeaseLost) as lost:
            world.run(engine.release(lease))
        assert reason(lost) == expected
        assert lease.loss() == expected


def test_a_release_after_the_deadline_says_expired_without_waiting_for_the_store(world, store, engine, hold):
    lease = hold(ttl=1)
    world.advance(1)
    store.answer("release", NEVER)
    with pytest.raises(LeaseLost) as lost:
        world.run(engine.release(lease))
    assert reason(lost) == "expired"


def test_a_release_after_the_deadline_still_releases_what_may_be_there(world, store, engine, hold):
    lease = hold(ttl=1)
    world.advance(1)
    with pytest.raises(LeaseLost):
        world.run(engine.release(lease))
    world.settle()
    assert [call.asked["token"] for call in store.asked("release")] == [lease.token]


def test_a_lease_that_was_taken_leaves_nothing_to_release(world, store, engine, hold):
    lease = hold()
    store.answer("renew", Ended.TAKEN)
    with pytest.raises(LeaseLost):
        world.run(engine.renew(lease))
    with pytest.raises(LeaseLost) as lost:
        world.run(engine.release(lease))
    assert reason(lost) == "taken"
    world.advance(60)
    assert store.asked("release") == []


def test_a_release_without_a_reply_is_unknown_and_retried_in_the_background(world, store, engine, hold):
    lease = hold(ttl=30)
    store.usual["release"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(engine.release(lease))
    asked = len(store.asked("release"))
    store.usual["release"] = DONE
    world.advance(1)
    assert len(store.asked("release")) > asked


def test_a_lease_whose_release_is_unknown_is_no_longer_trusted(world, store, engine, hold):
    """The cleanup frees the lock as soon as it can, whatever the holder does."""
    lease = hold(ttl=30)
    store.usual["release"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(engine.release(lease))
    store.usual["release"] = DONE
    world.advance(1)
    assert store.asked("release")[-1].asked["token"] == lease.token  # by now it is free
    assert lease.is_lost


def test_a_lease_whose_release_was_cancelled_is_no_longer_trusted(world, store, engine, hold):
    lease = hold(ttl=30)
    store.answer("release", NEVER)
    releasing = world.start(engine.release(lease))
    world.settle()
    releasing.cancel()
    world.advance(1)
    assert isinstance(releasing.error, CancelledHere)
    assert len(store.asked("release")) == 2  # the clean-up has done it
    assert lease.is_lost


def test_a_lease_is_not_trusted_while_it_is_being_released(world, store, engine, hold):
    lease = hold(ttl=30)
    store.answer("release", Later(1, DONE))
    world.start(engine.release(lease))
    world.advance(0.5)
    assert lease.is_lost


def test_releasing_again_after_an_unknown_release_is_harmless(world, store, engine, hold):
    lease = hold(ttl=30)
    store.usual["release"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(engine.release(lease))
    store.answer("release", DONE)  # the clean-up
    store.usual["release"] = Ended.EXPIRED
    world.advance(1)
    world.run(engine.release(lease))


def test_closing_waits_for_the_clean_up_but_not_for_ever(world, store, engine, hold):
    lease = hold(ttl=30)
    store.usual["release"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(engine.release(lease))
    started_at = world.now()
    world.run(engine.close())
    assert world.now() - started_at == pytest.approx(2.0)  # its patience


# Losing


def test_lost_tells_the_reason_when_the_lease_runs_out(world, engine, hold):
    lease = hold(ttl=1)
    assert world.run(lease.wait_until_lost()) == "expired"
    assert world.now() == pytest.approx(lease.valid_until)


def test_lost_gives_up_after_its_timeout(world, engine, hold):
    lease = hold(ttl=10)
    started_at = world.now()
    assert world.run(lease.wait_until_lost(2)) is None
    assert world.now() == pytest.approx(started_at + 2)


def test_lost_answers_at_once_when_it_is(world, store, engine, hold):
    lease = hold()
    world.run(engine.release(lease))
    assert world.run(lease.wait_until_lost()) == "released"


def test_all_that_wait_for_the_loss_are_woken(world, store, engine, hold):
    lease = hold(ttl=10)
    waiting = [world.start(lease.wait_until_lost()) for _ in range(3)]
    world.settle()
    world.run(engine.release(lease))
    world.settle()
    assert [task.result for task in waiting] == ["released"] * 3


def test_lost_tells_of_the_deadline_even_after_the_client_was_closed(world, engine, hold):
    lease = hold(ttl=1)
    waiting = world.start(lease.wait_until_lost())
    world.settle()
    world.run(engine.close())
    world.advance(5)
    assert waiting.is_done
    assert waiting.result == "expired"


def test_an_abandoned_lease_is_neither_renewed_nor_released(world, store, engine, hold):
    lease = hold(ttl=3, renew=True)
    world.advance(1.1)
    assert len(store.asked("renew")) == 1
    engine.abandon(lease)
    world.advance(10)
    assert len(store.asked("renew")) == 1
    assert store.asked("release") == []
    assert lease.is_abandoned
    assert lease.loss() == "expired"


# Forks


def test_a_forked_child_owns_no_lease_of_its_parent(world, store, engine, hold):
    lease = hold(ttl=30)
    assert lease.is_ours
    engine.after_fork()
    assert not lease.is_ours
    assert lease.is_lost
    assert lease.remaining() == 0
    with pytest.raises(LeaseLost) as lost:
        lease.check()
    assert reason(lost) == "released"


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_a_forked_child_does_not_touch_what_its_parent_holds(world, store, engine, hold, verb):
    lease = hold(ttl=30)
    store.calls.clear()
    engine.after_fork()
    with pytest.raises(LeaseLost):
        world.run(getattr(engine, verb)(lease))
    world.advance(60)
    assert store.calls == []


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_a_forked_child_does_not_wait_for_a_renewal_of_its_parent(world, store, engine, hold, verb):
    """The parent's thread that would end it is not in the child."""
    lease = hold(ttl=3, renew=True)
    store.answer("renew", NEVER)
    world.advance(1.1)
    assert lease.exchanges
    engine.after_fork()
    with pytest.raises(LeaseLost):
        world.run(getattr(engine, verb)(lease))


def test_a_forked_child_can_acquire_for_itself(world, store, engine, hold):
    hold(ttl=30)
    engine.after_fork()
    lease = hold("b", ttl=30)
    assert lease.is_ours
    lease.check()


def test_a_forked_child_shows_itself_and_not_its_parent_as_the_holder(world, store):
    pids = iter(["parent", "child"])
    engine = make_engine(world, store)
    engine._default_holder = lambda: next(pids)
    engine._reset()
    engine.after_fork()
    store.answer("acquire", granted(1, 30))
    lease = world.run(engine.acquire("a", **asking()))
    assert lease.holder == "child"
    assert store.asked("acquire")[0].asked["holder"] == '"child"'


# Showing


def test_a_lease_never_shows_its_token(hold):
    lease = hold()
    assert lease.token not in repr(lease)
    assert lease.token not in str(lease)


@pytest.mark.parametrize("holder", ["", {}, "somebody", {"user": "u", "n": 1, "x": None}])
@pytest.mark.parametrize("verb", ["acquire", "take"])
def test_a_lease_shows_the_holder_that_others_see(world, store, engine, holder, verb):
    store.answer(verb, granted(7, 30))
    arguments = asking(holder=holder) if verb == "acquire" else taking(holder=holder)
    lease = world.run(getattr(engine, verb)("a", **arguments))
    assert lease.holder == holder


def test_inspecting_asks_until_there_is_an_answer(world, store, engine):
    info = LockInfo("a", None, None, (), 0)
    store.answer("inspect", SILENCE, info)
    assert world.run(engine.inspect("a")) is info
    assert not info.is_held


def test_opening_is_retried_for_the_timeout_and_then_raises_the_reason(world, store, engine):
    store.usual["open"] = SILENCE
    started_at = world.now()
    with pytest.raises(StoreUnavailable, match="no answer"):
        world.run(engine.open())
    assert world.now() - started_at == pytest.approx(2.0)
