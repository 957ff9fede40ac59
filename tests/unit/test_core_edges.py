"""The core under unexpected errors, and cancellation at odd moments."""

from __future__ import annotations

import logging

import pytest
from tests.unit.virtual_world import CancelledHere, Later, asking, granted

from leasehold.core.replies import DONE
from leasehold.core.validity import trusted_for
from leasehold.errors import LeaseLost, StoreUnavailable


@pytest.fixture
def hold(world, store, engine):
    """`hold("a", ttl=3, renew=True)`: a lease granted at once."""

    def acquire(name="a", **changed):
        store.answer("acquire", lambda asked: granted(7, asked["ttl"]))
        return world.run(engine.acquire(name, **asking(**changed)))

    return acquire


def unexpected(caplog):
    return [record.exc_info[1] for record in caplog.records if record.levelno >= logging.ERROR]


def test_an_unexpected_error_of_the_store_does_not_end_the_renewer_and_is_logged(world, store, hold, caplog):
    lease, other = hold("a", ttl=3, renew=True), hold("b", ttl=3, renew=True)
    odd = ValueError("odd")
    store.answer("renew", odd)
    world.advance(1.01)
    assert lease.is_unsure
    assert unexpected(caplog) == [odd]
    world.advance(10)
    assert not lease.is_lost
    assert not other.is_lost
    assert not lease.is_unsure
    assert unexpected(caplog) == [odd]


def test_a_store_that_cannot_be_reached_is_not_unexpected(world, store, hold, caplog):
    hold(ttl=3, renew=True)
    store.answer("renew", StoreUnavailable("no answer"))
    world.advance(2)
    assert unexpected(caplog) == []


def test_leases_that_are_not_renewed_for_unexpected_errors_are_lost_in_time(world, store, hold):
    lease = hold(ttl=3, renew=True)
    store.usual["renew"] = ValueError("odd")
    world.advance(trusted_for(3) - 0.01)
    assert not lease.is_lost
    world.advance(0.02)
    assert lease.ended == "expired"


def test_an_unexpected_error_does_not_end_the_cleaning_up_and_is_logged(world, store, engine, caplog):
    odd = ValueError("odd")
    store.answer("acquire", Later(1, granted(7, 30)))
    store.answer("release", odd)
    acquiring = world.start(engine.acquire("a", **asking()))
    world.advance(0.1)
    acquiring.cancel()
    world.advance(1)
    assert isinstance(acquiring.error, CancelledHere)
    assert len(store.asked("release")) >= 2
    assert unexpected(caplog) == [odd]


def test_a_release_cancelled_while_it_waits_for_a_renewal_is_done_all_the_same(world, store, engine, hold):
    lease = hold(ttl=30)
    store.answer("renew", Later(1, DONE))
    renewing = world.start(engine.renew(lease))
    world.advance(0.1)
    releasing = world.start(engine.release(lease))
    world.advance(0.1)
    assert store.asked("release") == []
    releasing.cancel()
    world.advance(2)
    assert isinstance(releasing.error, CancelledHere)
    assert isinstance(renewing.error, LeaseLost)
    assert lease.loss() == "released"
    assert [call.asked["token"] for call in store.asked("release")] == [lease.token]


@pytest.mark.parametrize("renew", [False, True])
def test_a_wait_for_the_end_follows_a_shortened_renewal(world, store, engine, hold, renew):
    lease = hold(ttl=30, renew=renew)
    waiting = world.start(lease.wait_until_lost())
    world.advance(1)
    store.answer("shorten", Later(1.9, DONE))
    world.start(engine.renew(lease, 1))
    world.advance(1.01)
    assert waiting.is_done
    assert waiting.result == "expired"
