"""After a gap in the notifications every lease is checked: in small batches, and without changing it."""

from __future__ import annotations

from tests.unit.virtual_world import NEVER, Later, asking, granted

from leasehold.core.replies import DONE, Ended
from leasehold.errors import StoreUnavailable

SILENCE = StoreUnavailable("no answer")


def hold(world, store, engine, name="a", **changed):
    store.answer("acquire", lambda asked: granted(7, asked["ttl"]))
    return world.run(engine.acquire(name, **asking(ttl=3_000, **changed)))


def names_checked(store):
    return [lease.name for call in store.asked("check") for lease in call.asked["leases"]]


def test_all_leases_are_checked_in_small_batches_one_after_another(world, store, engine):
    leases = [hold(world, store, engine, f"{number}", renew=number % 2 == 0) for number in range(10_000)]
    under_way = []

    def reply(asked):
        assert not under_way, "two batches at once would keep other commands waiting for twice as long"
        under_way.append(True)
        world.call_at(world.time + 0.001, under_way.clear)
        return Later(
            0.001, [Ended.TAKEN if lease.name == "4321" else DONE for lease in asked.get("leases", ())]
        )

    store.usual["check"] = reply
    store.on_gap()
    world.advance(1)
    assert sorted(map(int, names_checked(store))) == list(range(10_000))
    assert max(len(call.asked["leases"]) for call in store.asked("check")) <= 128
    assert [lease.name for lease in leases if lease.is_lost] == ["4321"]
    assert not store.asked("renew")


def test_a_check_does_not_extend_a_lease(world, store, engine):
    lease = hold(world, store, engine)
    valid_until = lease.valid_until
    world.advance(5)
    store.on_gap()
    world.advance(5)
    assert names_checked(store) == ["a"]
    assert lease.valid_until == valid_until


def test_a_check_without_a_reply_is_repeated_with_pauses(world, store, engine):
    lease = hold(world, store, engine)
    store.answer("check", *[SILENCE] * 5, Ended.TAKEN)
    store.on_gap()
    for _ in range(100):  # a connection that breaks again and again must not cause more checks
        world.advance(0.01)
        store.on_gap()
    world.advance(10)
    assert len(store.asked("check")) == 6
    assert lease.ended == "taken"


def test_leases_that_are_over_are_not_checked(world, store, engine):
    released, expired = hold(world, store, engine, "released"), hold(world, store, engine, "expired")
    hold(world, store, engine, "held")
    expired.valid_until = world.now()
    world.run(engine.release(released))
    store.on_gap()
    world.advance(1)
    assert names_checked(store) == ["held"]


def test_a_lease_that_a_request_under_way_has_ended_is_not_lost(world, store, engine):
    """An upgrade ends the reader's lease in the store before its reply is here."""
    upgraded, lost = hold(world, store, engine, "upgraded"), hold(world, store, engine, "lost")
    for lease in (upgraded, lost):
        lease.ensure_exchanges().append(world.signal())
    store.usual["check"] = Ended.EXPIRED
    store.on_gap()
    world.advance(5)
    assert not upgraded.is_lost
    upgraded.end("released")
    upgraded.exchanges.clear()
    lost.exchanges.clear()
    world.advance(5)
    assert (upgraded.ended, lost.ended) == ("released", "expired")


def test_a_silent_check_delays_neither_a_renewal_nor_a_release(world, store, engine):
    renewed, released = hold(world, store, engine, renew=True), hold(world, store, engine, "b")
    store.answer("check", NEVER)
    store.on_gap()
    world.advance(1_400)
    world.run(engine.release(released))
    assert world.time == 2_400
    assert len(store.asked("renew")) == 1
    assert not renewed.is_lost


def test_a_lease_whose_grant_arrives_after_the_gap_is_checked_too(world, store, engine):
    store.answer("acquire", Later(2, granted(7, 3_000)))
    acquiring = world.start(engine.acquire("a", **asking(ttl=3_000)))
    world.advance(1)
    store.on_gap()
    store.answer("check", Ended.TAKEN)
    world.advance(2)
    assert acquiring.result.ended == "taken"
    hold(world, store, engine, "b")
    world.advance(1)
    assert names_checked(store) == ["a"]


def test_a_closed_client_checks_nothing(world, store, engine):
    hold(world, store, engine)
    store.answer("check", SILENCE)
    store.on_gap()
    world.advance(0.01)
    world.run(engine.close())
    world.advance(100)
    assert len(store.asked("check")) == 1
