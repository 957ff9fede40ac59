"""Waiting in the queue: notifications, polls, repeated acquires, and cleanup."""

from __future__ import annotations

import pytest
from tests.unit.virtual_world import NEVER, Later, asking, granted

from leasehold.core.multi_lock import LeasesState, acquire_all
from leasehold.core.notifications import NotificationRouter
from leasehold.core.replies import Busy, Granted, QueueState, Taken
from leasehold.core.waiters import alive_for
from leasehold.errors import AcquireTimeout, InvalidRequest, LockBusy, StoreRefused, StoreUnavailable

SILENCE = StoreUnavailable("no answer")
STORE_TIME = 5_000_000.0
"""The store's clock when the tests begin; it has nothing to do with ours."""


def drift(seconds):
    return 0.01 * seconds + 0.002


def queued(position=1, remaining=20.0, asked_at=STORE_TIME):
    return Busy("alice", remaining, 1.0, "exclusive", waiters=position, position=position, asked_at=asked_at)


def still_waiting(world, started_at):
    """A look that changes nothing, whenever it is asked for."""

    def answer(asked):
        now = STORE_TIME + world.now() - started_at
        return [QueueState(now, 20.0, [1] * len(line.tokens)) for line in asked["lines"]]

    return answer


@pytest.fixture
def waiting(world, store, engine):
    """`waiting(**arguments)`: a task that waits for a held lock, and has joined the queue."""

    def start(**arguments):
        store.answer("acquire", queued())
        store.usual["look"] = still_waiting(world, world.now())
        task = world.start(engine.acquire("a", **asking(**arguments)))
        world.settle()
        return task

    return start


def ticket_of(store):
    return store.asked("acquire")[-1].asked["ticket"]


def notify_granted(world, store, *, fence=7, after=0.0, remaining=2.0):
    """The store's notification that it granted the lock so long after the waiter joined."""
    store.notify(Granted(ticket_of(store), fence, STORE_TIME + after, remaining))


def test_a_gap_between_the_request_and_the_wait_is_noticed(world, store, engine):
    """The lock may have been handed over in it, and the next poll may be far away."""

    def gap_before_the_reply(_asked):
        store.on_gap()
        return queued()

    store.answer("acquire", gap_before_the_reply, granted(7, 30))
    started_at = world.now()
    world.run(engine.acquire("a", **asking(ttl=30, wait=None, retry_interval=20)))
    assert world.now() == started_at


def test_a_notification_of_a_grant_ends_the_wait_without_another_request(world, store, waiting):
    task = waiting(renew=True)
    notify_granted(world, store)
    world.settle()
    assert task.result.fence == 7
    assert len(store.asked("acquire")) == 1
    assert store.asked("renew") == []


def test_a_pushed_grant_is_valid_from_the_grant_and_not_from_the_notification(world, store, waiting):
    started_at = world.now()
    task = waiting(renew=True, wait=60)
    world.advance(0.03)  # before the first look
    notify_granted(world, store, after=0.01, remaining=2.0)
    world.settle()
    assert task.result.valid_until == pytest.approx(started_at + 0.01 * 0.99 + 2.0 - drift(2.0))


def test_a_look_brings_the_clocks_together_again(world, store, waiting):
    """Otherwise the drift of a long wait would eat up the whole grant."""
    started_at = world.now()
    task = waiting(renew=True, wait=None)
    world.advance(600)
    looked_at = store.asked("look")[-1].at
    notify_granted(world, store, after=600.0, remaining=2.0)
    world.settle()
    since_look = started_at + 600 - looked_at
    assert task.result.valid_until == pytest.approx(looked_at + since_look * 0.99 + 2.0 - drift(2.0))


def test_a_grant_whose_notification_is_too_late_is_polled_instead(world, store, waiting):
    task = waiting(renew=True, wait=60)
    world.time += 2.5  # the process was paused
    store.answer("acquire", granted(9, 30))
    notify_granted(world, store, after=0.0, remaining=2.0)
    world.settle()
    assert task.result.fence == 9
    assert len({call.asked["token"] for call in store.asked("acquire")}) == 1


@pytest.mark.parametrize("step", [0.2, 0.5, 1.0, 1.7, 60.0])
def test_a_grant_after_a_step_of_the_stores_clock_is_not_trusted_for_longer_than_it_lasts(
    world, store, waiting, step
):
    """The clock was set forward after the last look, so the times of the two replies say nothing about each other."""
    task = waiting(renew=True, wait=60)
    world.advance(0.03)
    heard_at = world.now()
    store.answer("acquire", granted(7, 30))
    notify_granted(world, store, after=0.02 + step, remaining=2.0)
    world.settle()
    ends_at = heard_at + 2.0 if len(store.asked("acquire")) == 1 else heard_at + 30
    assert task.result.valid_until <= ends_at
    assert task.result.fence == 7


def test_without_renewals_the_grant_is_claimed_before_it_is_returned(world, store, waiting):
    task = waiting(renew=False, ttl=30)
    store.answer("acquire", Later(0.1, granted(7, 30)))
    notify_granted(world, store, remaining=2.0)
    world.settle()
    assert not task.is_done
    sent_at = world.now()
    world.advance(0.1)
    assert task.result.valid_until == pytest.approx(sent_at + 30 - drift(30))


def test_a_claim_that_comes_too_late_goes_back_to_waiting(world, store, waiting):
    task = waiting(renew=False, ttl=30, wait=60)
    store.answer("acquire", queued(position=5))
    notify_granted(world, store, remaining=2.0)
    world.settle()
    assert not task.is_done
    store.answer("acquire", granted(11, 30))
    notify_granted(world, store, fence=11, after=0.1, remaining=2.0)
    world.settle()
    assert task.result.fence == 11


def test_a_grant_that_is_as_long_as_asked_for_needs_no_claim(world, store, waiting):
    task = waiting(renew=False, ttl=1.5)
    notify_granted(world, store, remaining=1.5)
    world.settle()
    assert task.result.fence == 7
    assert len(store.asked("acquire")) == 1


def test_with_renewals_the_grant_is_claimed_by_one_at_a_third_of_the_window(world, store, waiting):
    task = waiting(renew=True, ttl=30)
    granted_at = world.now()
    notify_granted(world, store, remaining=2.0)
    world.advance(1)
    (renewal,) = store.asked("renew")
    assert renewal.at == pytest.approx(granted_at + 2.0 / 3, abs=0.03)
    assert renewal.asked["renewals"][0].ttl == 30
    assert task.result.remaining() > 25


def test_a_notification_that_overtakes_the_reply_is_not_lost(world, store, engine):
    store.answer("acquire", Later(0.5, queued()))
    store.usual["look"] = still_waiting(world, world.now())
    task = world.start(engine.acquire("a", **asking(renew=True)))
    world.advance(0.4)
    notify_granted(world, store, after=0.4)
    world.advance(0.1)
    assert task.result.fence == 7


def test_a_notification_that_comes_twice_counts_once(world, store, waiting):
    task = waiting(renew=True)
    notify_granted(world, store)
    notify_granted(world, store)
    world.settle()
    notify_granted(world, store)
    world.settle()
    assert task.result.fence == 7
    assert not task.result.is_lost


def test_notifications_for_unknown_tickets_are_ignored(world, store, engine):
    store.notify(Granted(4711, 7, STORE_TIME, 2.0))
    store.notify(Taken(4712))
    store.answer("acquire", granted(8, 30))
    assert not world.run(engine.acquire("a", **asking())).is_lost


def test_notifications_for_unknown_tickets_do_not_pile_up():
    router = NotificationRouter()
    for ticket in range(5_000):
        router.deliver(Taken(ticket))
    assert len(router._early) <= 1_024


def test_leases_that_were_never_released_do_not_pile_up(world, store, engine):
    store.usual["acquire"] = granted(7, 1)
    for _ in range(5_000):
        world.run(engine.acquire("a", **asking(ttl=1)))
        world.time += 0.01
    assert len(engine.notifications._recipients) < 2_000


def test_a_grant_that_was_taken_before_it_was_read_is_polled(world, store, waiting):
    task = waiting(renew=True, wait=60)
    ticket = ticket_of(store)
    store.answer("acquire", queued(position=2))
    store.notify(Granted(ticket, 7, STORE_TIME, 2.0))
    store.notify(Taken(ticket))
    world.settle()
    assert not task.is_done
    assert len(store.asked("acquire")) == 2


def test_a_holder_is_notified_at_once_that_the_lock_was_taken(world, store, engine):
    store.answer("acquire", granted(7, 30))
    lease = world.run(engine.acquire("a", **asking()))
    store.notify(Taken(ticket_of(store)))
    assert lease.loss() == "taken"


def test_a_lost_push_costs_no_more_than_the_retry_interval(world, store, waiting):
    task = waiting(renew=True)
    started_at = world.now()
    store.answer("look", [QueueState(STORE_TIME, 2.0, [(7, 2.0, None)])])
    world.advance(0.05)
    assert task.result.fence == 7
    sent_at = store.asked("look")[0].at
    assert sent_at <= started_at + 0.05
    assert task.result.valid_until == pytest.approx(sent_at + 2.0 - drift(2.0))


def test_one_poll_serves_all_waiters_of_a_client(world, store, engine):
    store.usual["acquire"] = queued()
    store.usual["look"] = still_waiting(world, world.now())
    for number in range(50):
        world.start(engine.acquire("a" if number % 2 else "b", **asking(wait=None)))
    world.advance(1)
    looks = store.asked("look")
    assert 19 <= len(looks) <= 26
    assert sorted((line.name, len(line.tokens)) for line in looks[0].asked["lines"]) == [("a", 25), ("b", 25)]


def test_the_end_of_the_hold_is_polled_when_it_comes(world, store, engine):
    engine.waiter_poller._interval = engine.waiter_poller._at_most = 60
    store.answer("acquire", queued(remaining=1.5))
    store.answer("look", [QueueState(STORE_TIME + 1.5, 2.0, [(7, 2.0, None)])])
    task = world.start(engine.acquire("a", **asking(renew=True)))
    world.advance(1.49)
    assert store.asked("look") == []
    world.advance(0.02)
    assert task.result.fence == 7


@pytest.mark.parametrize(("interval", "looks"), [(0.01, (99, 126)), (0.2, (4, 7)), (60, (0, 1))])
def test_a_waiter_is_looked_after_as_often_as_it_wants_but_never_taken_for_dead(
    world, store, engine, interval, looks
):
    store.answer("acquire", queued())
    store.usual["look"] = still_waiting(world, world.now())
    world.start(engine.acquire("a", **asking(wait=None), retry_interval=interval))
    world.advance(1)
    assert looks[0] <= len(store.asked("look")) <= looks[1]
    world.advance(9)
    assert len(store.asked("look")) >= 6  # the store counts a client as alive for three seconds


def test_a_free_lock_is_not_polled_all_the_time(world, store, engine):
    store.answer("acquire", queued(remaining=0.0))
    store.usual["look"] = lambda asked: [QueueState(STORE_TIME, 0.0, [1]) for _ in asked["lines"]]
    world.start(engine.acquire("a", **asking(wait=None)))
    world.advance(1)
    assert len(store.asked("look")) < 30


def test_a_waiter_that_left_the_queue_joins_again_with_the_same_token(world, store, waiting):
    """The store was emptied, or we were taken for dead."""
    task = waiting(renew=True, wait=60)
    store.answer("look", [QueueState(STORE_TIME, 0.0, [None])])
    store.answer("acquire", granted(9, 30))
    world.advance(0.1)
    assert task.result.fence == 9
    assert len({call.asked["token"] for call in store.asked("acquire")}) == 1


@pytest.mark.parametrize("answer", [[SILENCE], SILENCE], ids=["of one line", "of all"])
def test_when_looking_fails_each_asks_for_itself(world, store, waiting, answer):
    task = waiting(renew=True, wait=60)
    store.answer("look", answer)
    store.answer("acquire", granted(9, 30))
    world.advance(0.1)
    assert task.result.fence == 9


def test_a_store_that_stays_silent_while_we_wait_ends_the_waiting(world, store, waiting):
    started_at = world.now()
    task = waiting(wait=600)
    store.usual["look"] = SILENCE
    store.usual["acquire"] = SILENCE
    world.advance(10)
    assert isinstance(task.error, StoreUnavailable)
    assert world.now() - started_at >= 2
    assert store.asked("release") != []


def test_a_timeout_ends_with_a_last_request_that_leaves_the_queue(world, store, waiting):
    task = waiting(wait=1.5)
    store.answer("acquire", Busy("alice", 3.0, 1.0, "exclusive", waiters=4))
    world.advance(1.5)
    assert isinstance(task.error, AcquireTimeout)
    assert store.asked("acquire")[-1].asked["wait"] == 0
    assert (task.error.position, task.error.waiters, task.error.retry_after) == (1, 4, 3.0)
    world.advance(60)
    assert store.asked("release") == []


def test_a_turn_that_comes_with_the_last_question_counts(world, store, waiting):
    task = waiting(wait=1.5)
    store.answer("acquire", granted(7, 30))
    world.advance(1.5)
    assert task.result.fence == 7


def test_the_store_gets_the_rest_of_the_wait(world, store, waiting):
    waiting(wait=10)
    store.answer("look", [QueueState(STORE_TIME, 0.0, [None])])
    store.answer("acquire", queued())
    world.advance(0.1)
    first, second = store.asked("acquire")
    assert first.asked["wait"] == 10
    assert 9.9 < second.asked["wait"] < 10


def test_a_cancelled_waiter_leaves_the_queue_at_once(world, store, waiting):
    task = waiting(wait=None)
    world.advance(1)
    task.cancel()
    world.settle()
    assert [call.asked["token"] for call in store.asked("release")] == [
        store.asked("acquire")[0].asked["token"]
    ]


def test_a_cancelled_waiter_is_no_longer_polled_for(world, store, waiting):
    task = waiting(wait=None)
    world.advance(1)
    task.cancel()
    world.settle()
    looks = len(store.asked("look"))
    world.advance(60)
    assert len(store.asked("look")) == looks


def test_closing_the_client_ends_the_waiting(world, store, engine, waiting):
    task = waiting(wait=None)
    store.usual["acquire"] = InvalidRequest("this client is closed")
    world.run(engine.close())
    world.settle()
    assert isinstance(task.error, StoreUnavailable)


def test_a_client_counts_as_alive_for_several_looks():
    assert alive_for(0.05) == 3.0
    assert alive_for(5.0) == 20.0


# Several locks at once


def asked_for_all(**changed):
    arguments = asking(**changed)
    return [arguments[key] for key in ("ttl", "wait", "mode", "holder", "renew", "max_hold", "floor")]


def test_free_locks_are_had_in_one_request(world, store, engine):
    store.answer("acquire_all", [granted(7, 30), granted(8, 30)])
    leases = world.run(acquire_all(engine, ["b", "a"], *asked_for_all(renew=True)))
    assert [(lease.name, lease.fence) for lease in leases] == [("b", 7), ("a", 8)]
    assert [call.verb for call in store.calls] == ["acquire_all"]


def test_busy_locks_are_waited_for_in_the_byte_order_of_their_names(world, store, engine):
    store.answer("acquire_all", "é")
    store.usual["acquire"] = granted(7, 30)
    leases = world.run(acquire_all(engine, ["é", "z", "Z"], *asked_for_all(renew=True)))
    assert [call.asked["name"] for call in store.asked("acquire")] == ["Z", "z", "é"]
    assert [lease.name for lease in leases] == ["é", "z", "Z"]


def test_what_is_held_already_is_released_when_another_lock_cannot_be_acquired(world, store, engine):
    store.answer("acquire_all", "b")
    store.answer("acquire", granted(7, 30), Busy("alice", 3.0))
    with pytest.raises(LockBusy):
        world.run(acquire_all(engine, ["a", "b"], *asked_for_all(wait=0)))
    (given_back,) = store.asked("release")
    assert given_back.asked["name"] == "a"


def test_what_is_held_already_is_released_when_the_caller_is_cancelled(world, store, engine):
    store.answer("acquire_all", "b")
    store.answer("acquire", granted(7, 30), NEVER)
    task = world.start(acquire_all(engine, ["a", "b"], *asked_for_all()))
    world.settle()
    task.cancel()
    world.settle()
    assert sorted(call.asked["name"] for call in store.asked("release")) == ["a", "b"]


def test_what_is_held_already_is_kept_alive_while_the_rest_is_waited_for(world, store, engine):
    store.answer("acquire_all", "b")
    store.answer("acquire", granted(7, 3), Later(20, granted(8, 3)))
    task = world.start(acquire_all(engine, ["a", "b"], *asked_for_all(ttl=3, wait=60)))
    world.advance(19)
    assert len(store.asked("renew")) >= 6
    assert not task.is_done


def test_an_attempt_whose_outcome_is_unknown_is_released(world, store, engine):
    store.usual["acquire_all"] = SILENCE
    with pytest.raises(StoreUnavailable):
        world.run(acquire_all(engine, ["a", "b"], *asked_for_all()))
    world.settle()
    assert {call.asked["name"] for call in store.asked("release")} == {"a", "b"}


def test_all_of_them_are_cleaned_up_after_a_refusal_that_came_after_silence(world, store, engine):
    """The first request may have got them: a refusal of the second does not exclude that."""
    store.answer("acquire_all", SILENCE, StoreRefused("READONLY"))
    with pytest.raises(StoreRefused):
        world.run(acquire_all(engine, ["a", "b"], *asked_for_all()))
    world.advance(10)
    assert {call.asked["name"] for call in store.asked("release")} == {"a", "b"}


def test_a_plain_refusal_of_all_of_them_leaves_nothing_to_clean_up(world, store, engine):
    store.answer("acquire_all", StoreRefused("READONLY"))
    with pytest.raises(StoreRefused):
        world.run(acquire_all(engine, ["a", "b"], *asked_for_all()))
    world.advance(10)
    assert store.asked("release") == []


def test_one_that_is_lost_ends_the_waiting_for_all_of_them_and_for_no_other(world, store, engine):
    store.answer("acquire_all", [granted(7, 30), granted(8, 30)])
    leases = world.run(acquire_all(engine, ["a", "b"], *asked_for_all()))
    together = LeasesState(engine, leases)
    waiting_for_all = world.start(together.wait_until_lost(None))
    waiting_for_b = world.start(leases[1].wait_until_lost())
    world.advance(1)
    leases[0].end("taken")
    world.settle()
    assert waiting_for_all.result == "taken"
    assert not waiting_for_b.is_done
    assert together.is_lost
    assert together.remaining() == 0.0
