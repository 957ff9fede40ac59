"""The renewer: one coroutine that renews every lease, and declares each lost in time, once."""

from __future__ import annotations

import threading
from itertools import pairwise

import pytest
from tests.support.eventually import LIMIT
from tests.unit.virtual_world import NEVER, Later, asking, granted, taking

from leasehold.core.backoff import Backoff
from leasehold.core.engine import Engine
from leasehold.core.leases.lease import LeaseState
from leasehold.core.replies import DONE, Ended, Taken
from leasehold.core.sync_runner import run_sync
from leasehold.core.validity import trusted_for
from leasehold.errors import StoreRefused, StoreUnavailable
from leasehold.runtime.randomness import SystemRandom
from leasehold.runtime.thread_runtime import ThreadClock, ThreadConcurrency

SILENCE = StoreUnavailable("no answer")


class WatchedLease(LeaseState):
    """Records each call of `on_end`."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ends = []

    def on_end(self):
        self.ends.append((self.ended, self._engine.clock.now()))


@pytest.fixture
def hold(world, store, engine):
    """`hold("a", ttl=3)`: a lease that is kept alive."""
    engine._make_lease = WatchedLease

    def acquire(name="a", **changed):
        store.answer("acquire", lambda asked: granted(7, asked["ttl"]))
        return world.run(engine.acquire(name, **asking(**{"renew": True, "ttl": 3, **changed})))

    return acquire


def renewed_at(store):
    return [call.at for call in store.asked("renew")]


def names_renewed(store):
    return [renewal.name for call in store.asked("renew") for renewal in call.asked["renewals"]]


def test_a_lease_is_renewed_at_a_third_of_its_ttl_for_as_long_as_it_is_held(world, store, hold):
    lease = hold(ttl=3)
    world.advance(10.5)
    assert renewed_at(store) == [pytest.approx(1_000 + n) for n in range(1, 11)]
    assert not lease.is_lost
    assert lease.remaining() == pytest.approx(trusted_for(3) - 0.5)


def test_a_lease_without_renewal_is_not_renewed(world, store, hold):
    lease = hold(renew=False)
    world.advance(10)
    assert store.asked("renew") == []
    assert lease.loss() == "expired"


def test_renewals_count_from_before_they_were_sent(world, store, hold):
    lease = hold(ttl=3)
    store.answer("renew", Later(0.8, DONE))
    world.advance(1.9)
    assert lease.valid_until == pytest.approx(1_001 + trusted_for(3))


def test_a_released_lease_is_no_longer_renewed(world, store, engine, hold):
    lease = hold()
    world.advance(1.5)
    world.run(engine.release(lease))
    world.advance(10)
    assert len(store.asked("renew")) == 1
    assert lease.ends == [("released", pytest.approx(1_001.5))]


def test_the_renewer_goes_on_after_a_lease_was_released_before_its_renewal(world, store, engine, hold):
    """An outdated entry of the timer queue must not look like an empty queue."""
    first = hold("first", ttl=3)
    world.advance(0.5)
    world.run(engine.release(first))
    world.advance(5)
    second = hold("second", ttl=3)
    world.advance(10)
    assert not second.is_lost
    assert len(names_renewed(store)) >= 9


def test_releasing_one_lease_does_not_end_the_renewal_of_another(world, store, engine, hold):
    short, long = hold("short", ttl=3), hold("long", ttl=30)
    world.advance(0.5)
    world.run(engine.release(short))
    world.advance(60)
    assert not long.is_lost


def test_leases_that_are_due_together_are_renewed_in_one_batch(world, store, hold):
    for number in range(40):
        hold(f"lock-{number}", ttl=30)
    world.advance(10.5)
    (call,) = store.asked("renew")
    assert len(call.asked["renewals"]) == 40


def test_batches_hold_at_most_512_leases(world, store, hold):
    for number in range(1_300):
        hold(f"lock-{number}", ttl=30)
    world.advance(10.5)
    assert [len(call.asked["renewals"]) for call in store.asked("renew")] == [512, 512, 276]
    assert len(set(names_renewed(store))) == 1_300


def test_leases_with_different_ttls_are_renewed_at_their_own_times(world, store, hold):
    hold("fast", ttl=3)
    hold("slow", ttl=30)
    world.advance(10.5)
    assert names_renewed(store).count("fast") == 10
    assert names_renewed(store).count("slow") == 1


def test_a_renewal_that_was_due_during_another_exchange_follows_it(world, store, hold):
    """During an upgrade or a manual renewal the renewer must not send its own, but it must do so afterwards."""
    lease = hold(ttl=3)
    world.advance(0.9)
    turn = world.signal()
    lease.ensure_exchanges().append(turn)
    world.advance(0.5)
    assert store.asked("renew") == []
    lease.exchanges.remove(turn)
    lease.make_up_for_renewal()
    world.advance(4.9)
    assert not lease.is_lost
    assert renewed_at(store)[0] == pytest.approx(1_001.4)
    assert len(renewed_at(store)) == 5


def test_an_exchange_that_ends_in_another_thread_while_the_renewer_begins_its_own_is_not_missed(
    world, store, hold, engine
):
    """The exchange ends after the renewer was refused and before it waits: no wake-up may be lost in between."""

    class EndsInBetween(list):
        def __getitem__(self, index):
            first = super().__getitem__(index)
            if first is running:
                other = threading.Thread(target=self.end_other)
                other.start()
                other.join()
            return first

        def end_other(self):
            self.remove(running)
            lease.make_up_for_renewal()

    running = world.signal()
    lease = hold(ttl=3)
    lease.exchanges = EndsInBetween([running])
    world.advance(5)
    assert not lease.is_lost
    assert renewed_at(store)[0] == pytest.approx(1_001)


def test_a_lease_outlives_a_manual_renewal_without_reply_when_a_renewal_was_due(world, store, engine, hold):
    lease = hold(ttl=3)
    world.advance(0.9)
    store.answer("renew", *[Later(0.2, SILENCE)] * 2)
    by_hand = world.start(engine.renew(lease))
    world.advance(0.3)
    by_hand.cancel()
    world.advance(5)
    assert not lease.is_lost


def test_a_manual_renewal_when_a_renewal_was_due_is_not_repeated(world, store, engine, hold):
    lease = hold(ttl=3)
    world.advance(0.9)
    store.answer("renew", Later(0.2, DONE))
    world.run(engine.renew(lease))
    assert len(renewed_at(store)) == 1
    world.advance(0.5)
    assert len(renewed_at(store)) == 1


def test_a_lease_released_when_its_renewal_is_due_is_no_longer_renewed(world, store, engine, hold):
    lease = hold(ttl=3)
    world.advance(0.9)
    turn = world.signal()
    lease.ensure_exchanges().append(turn)
    world.advance(0.5)
    released = world.start(engine.release(lease))
    world.advance(0.1)
    lease.exchanges.remove(turn)
    turn.set()
    lease.make_up_for_renewal()
    world.advance(5)
    assert released.is_done
    assert store.asked("renew") == []


def test_a_lease_is_unsure_after_a_timeout_and_held_again_after_a_reply(world, store, hold):
    lease = hold(ttl=3)
    store.answer("renew", SILENCE)
    world.advance(1.01)
    assert lease.is_unsure
    assert not lease.is_lost
    world.advance(0.5)  # it is retried within a twelfth of the ttl
    assert len(store.asked("renew")) == 2
    assert not lease.is_unsure
    assert lease.ends == []


def test_a_refused_renewal_is_retried_until_the_deadline(world, store, hold):
    lease = hold(ttl=3)
    store.answer("renew", StoreRefused("read-only"), StoreRefused("read-only"))
    world.advance(2)
    assert not lease.is_lost
    assert not lease.is_unsure
    assert len(store.asked("renew")) == 3


@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_renewals_without_reply_are_retried_several_times_but_with_pauses(world, store, hold, jitter):
    world.jitter = jitter
    hold(ttl=3)
    store.usual["renew"] = SILENCE
    world.advance(4)
    assert 7 <= len(store.asked("renew")) <= 18
    pauses = [b - a for a, b in pairwise(renewed_at(store))]
    assert max(pauses[:-1]) <= 3 / 12 + 0.001


def test_pauses_after_a_timeout_are_at_most_a_second(world, store, hold):
    hold(ttl=3_600)
    store.usual["renew"] = SILENCE
    world.advance(1_200 + 60)
    assert len(store.asked("renew")) >= 60


def test_a_lease_that_cannot_be_renewed_is_lost_at_its_deadline_and_ended_once(world, store, hold):
    lease = hold(ttl=3)
    store.usual["renew"] = SILENCE
    world.advance(60)
    assert lease.ends == [("expired", pytest.approx(1_000 + trusted_for(3)))]
    assert all(at < lease.valid_until for at in renewed_at(store))


def test_a_lease_is_lost_at_its_deadline_while_a_renewal_hangs(world, store, hold):
    lease = hold(ttl=3)
    store.answer("renew", NEVER)
    world.advance(60)
    assert lease.ends == [("expired", pytest.approx(1_000 + trusted_for(3)))]


def test_one_hanging_renewal_does_not_delay_the_others(world, store, hold):
    slow = hold("slow", ttl=3)
    world.advance(0.5)
    quick = hold("quick", ttl=3)
    store.answer("renew", NEVER)
    world.advance(10)
    assert slow.is_lost
    assert not quick.is_lost


def test_a_late_reply_does_not_revive_a_lease(world, store, hold):
    lease = hold(ttl=3)
    store.answer("renew", Later(10, DONE))
    world.advance(20)
    assert lease.ends == [("expired", pytest.approx(1_000 + trusted_for(3)))]
    assert len(store.asked("renew")) == 1


def test_a_reply_to_a_process_that_was_paused_past_the_deadline_does_not_revive_a_lease(world, store, hold):
    """The process could not read the clock during the pause: the reply is the first event after it."""
    lease = hold(ttl=3)

    def pause_and_answer(_asked):
        world.time += 2.2  # past the old deadline, but before the one that the renewal would set
        return DONE

    store.answer("renew", pause_and_answer)
    world.advance(1.1)
    assert [reason for reason, _ in lease.ends] == ["expired"]
    world.advance(60)
    assert len(store.asked("renew")) == 1


def test_a_lease_that_was_taken_ends_at_the_next_renewal(world, store, hold):
    lease = hold(ttl=3)
    store.answer("renew", Ended.TAKEN)
    world.advance(60)
    assert lease.ends == [("taken", pytest.approx(1_001))]
    assert len(store.asked("renew")) == 1


def test_in_a_batch_each_lease_gets_its_own_reply(world, store, hold):
    leases = {name: hold(name, ttl=30) for name in ("kept", "taken", "expired", "unsure")}
    store.answer("renew", [DONE, Ended.TAKEN, Ended.EXPIRED, SILENCE])
    world.advance(10.1)
    assert {name: lease.loss() for name, lease in leases.items()} == {
        "kept": None,
        "taken": "taken",
        "expired": "expired",
        "unsure": None,
    }
    assert leases["unsure"].is_unsure


def test_releasing_waits_for_the_renewal_under_way(world, store, engine, hold):
    lease = hold(ttl=3)
    store.answer("renew", Later(0.7, DONE))
    world.advance(1.1)
    releasing = world.start(engine.release(lease))
    world.advance(0.5)
    assert store.asked("release") == []
    world.advance(0.2)
    assert releasing.is_done
    assert len(store.asked("release")) == 1


def test_no_renewal_is_sent_after_a_release_that_came_in_the_same_turn(world, store, engine, hold):
    """The renewer has decided to renew, the renewal has not begun: the release runs first and ends it."""
    lease = hold(ttl=3)
    spawn = world.spawn

    def release_first(work):
        world.spawn = spawn
        world.start(engine.release(lease))
        spawn(work)

    world.spawn = release_first
    world.advance(5)
    assert [call.verb for call in store.calls] == ["acquire", "release"]


def test_a_manual_renewal_moves_the_next_automatic_one(world, store, engine, hold):
    lease = hold(ttl=3)
    world.advance(0.9)
    world.run(engine.renew(lease, 30))
    world.advance(9.9)
    assert len(store.asked("renew")) == 1
    world.advance(0.2)
    assert renewed_at(store) == [pytest.approx(1_000.9), pytest.approx(1_010.9)]


def test_renewal_stops_at_max_hold_with_that_reason(world, store, hold):
    lease = hold(ttl=3, max_hold=10)
    world.advance(60)
    assert lease.ends == [("max_hold", pytest.approx(1_010))]
    until_in_the_store = max(
        call.at + renewal.ttl for call in store.asked("renew") for renewal in call.asked["renewals"]
    )
    assert until_in_the_store <= 1_010 + 0.01 * 3 + 0.0121


def test_the_renewer_stops_when_the_client_is_closed(world, store, engine, hold):
    hold(ttl=3)
    world.advance(1.5)
    world.run(engine.close())
    world.advance(60)
    assert len(store.asked("renew")) == 1


def test_a_thread_declares_a_loss_at_the_deadline_although_the_store_hangs():
    """In threads a renewal blocks its thread; callers that wait for the loss must get it all the same."""
    answer_now = threading.Event()

    class HangingStore:
        def listen(self, tell, on_gap):
            pass

        def part_of(self, name):
            return None

        async def acquire(self, name, token, ticket, ttl, *_):
            return granted(1, ttl)

        async def renew(self, renewals):
            answer_now.wait()
            return [SILENCE] * len(renewals)

        async def release(self, name, token, fence, receipt):
            return DONE

    clock = ThreadClock()
    engine = Engine(
        HangingStore(),
        clock,
        SystemRandom(),
        ThreadConcurrency(),
        make_lease=LeaseState,
        holder=lambda: "tester",
        timeout=1.0,
        backoff=Backoff(first=0.01, cap=0.05),
    )
    lease = run_sync(engine.acquire("a", **asking(ttl=0.2, renew=True)))
    try:
        assert run_sync(lease.wait_until_lost(LIMIT)) == "expired"
        assert not answer_now.is_set()  # reported while the store still hangs
        print(f"reported {clock.now() - lease.valid_until:.3f} s after the deadline")
    finally:
        answer_now.set()
        run_sync(engine.close())


@pytest.mark.parametrize("verb", ["acquire", "take"])
def test_a_grant_after_a_lost_one_was_taken_is_neither_renewed_nor_kept(world, store, engine, verb):
    """The notification is about the first grant, whose reply was lost; the second, for the same token, is held."""

    def taken_in_between(asked):
        store.notify(Taken(asked["ticket"]))
        return StoreUnavailable("no answer")

    store.answer(verb, taken_in_between, granted(9, 30))
    if verb == "acquire":
        lease = world.run(engine.acquire("a", **asking(renew=True)))
    else:
        lease = world.run(engine.take("a", **taking(renew=True)))
    assert lease.ended == "taken"
    world.advance(100)
    assert store.asked("renew") == []
    assert [call.asked["token"] for call in store.asked("release")] == [lease.token]
