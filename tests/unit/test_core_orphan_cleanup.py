"""The orphan cleaner releases grants in doubt, each by its own token, as soon as the store can be reached."""

from __future__ import annotations

import pytest
from tests.unit.virtual_world import NEVER, Later

from leasehold.core.orphan_cleanup import Orphan, OrphanCleaner
from leasehold.core.replies import DONE, Ended
from leasehold.errors import StoreRefused, StoreUnavailable

SILENCE = StoreUnavailable("no answer")
TIMEOUT = 2.0


@pytest.fixture
def cleaner(world, store):
    return OrphanCleaner(store, world, world, timeout=TIMEOUT)


def orphan(world, name="a", *, ttl=30.0, look_again=False):
    return Orphan(name, f"{name}-token", until=world.now() + ttl, look_again=look_again)


def released_at(store):
    return [call.at for call in store.asked("release")]


def test_an_orphan_is_released_at_once_by_its_own_token(world, store, cleaner):
    cleaner.add(orphan(world))
    world.settle()
    (call,) = store.asked("release")
    assert (call.asked["name"], call.asked["token"]) == ("a", "a-token")
    assert call.at == 1_000


def test_the_cleanup_of_an_orphan_is_retried_until_the_store_can_be_reached(world, store, cleaner):
    store.answer("release", *[SILENCE] * 5, DONE)
    cleaner.add(orphan(world))
    world.advance(20)
    assert len(store.asked("release")) == 6


def test_a_refused_release_is_repeated_too(world, store, cleaner):
    store.answer("release", StoreRefused("still loading"), DONE)
    cleaner.add(orphan(world))
    world.advance(20)
    assert len(store.asked("release")) == 2


def test_an_orphan_that_was_not_there_is_released_once_more(world, store, cleaner):
    """The connection was dropped with the request in it: the server may read it after our clean-up."""
    store.usual["release"] = Ended.EXPIRED
    cleaner.add(orphan(world, look_again=True))
    world.advance(60)
    assert released_at(store) == [pytest.approx(1_000), pytest.approx(1_000 + TIMEOUT)]


def test_an_orphan_that_was_found_is_not_looked_for_again(world, store, cleaner):
    cleaner.add(orphan(world, look_again=True))
    world.advance(60)
    assert len(store.asked("release")) == 1


def test_an_orphan_of_a_connection_that_answers_is_looked_for_once(world, store, cleaner):
    store.usual["release"] = Ended.EXPIRED
    cleaner.add(orphan(world, look_again=False))
    world.advance(60)
    assert len(store.asked("release")) == 1


def test_silence_during_the_clean_up_earns_a_second_look(world, store, cleaner):
    store.answer("release", SILENCE)
    store.usual["release"] = Ended.EXPIRED
    cleaner.add(orphan(world, look_again=False))
    world.advance(60)
    assert len(store.asked("release")) == 3


def test_the_cleaner_gives_up_when_the_orphan_has_ended_by_itself(world, store, cleaner):
    store.usual["release"] = SILENCE
    cleaner.add(orphan(world, ttl=3))
    world.advance(60)
    assert max(released_at(store)) < 1_003
    assert len(store.asked("release")) > 5


def test_there_is_no_second_release_after_the_orphan_has_ended_by_itself(world, store, cleaner):
    store.usual["release"] = Ended.EXPIRED
    cleaner.add(orphan(world, ttl=TIMEOUT / 2, look_again=True))
    world.advance(60)
    assert len(store.asked("release")) == 1


def test_all_is_clear_when_nothing_was_ever_in_doubt(world, cleaner):
    started_at = world.now()
    assert world.run(cleaner.wait_until_clean(5)) is True
    assert world.now() == started_at


def test_it_is_clean_as_soon_as_the_last_orphan_is_released(world, store, cleaner):
    store.answer("release", Later(0.5, DONE), Later(1.5, DONE))
    cleaner.add(orphan(world, "a"))
    cleaner.add(orphan(world, "b"))
    assert world.run(cleaner.wait_until_clean(5)) is True
    assert world.now() == pytest.approx(1_001.5)


def test_all_clear_does_not_wait_for_a_second_look(world, store, cleaner):
    store.usual["release"] = Ended.EXPIRED
    cleaner.add(orphan(world, look_again=True))
    assert world.run(cleaner.wait_until_clean(60)) is True
    assert world.now() == 1_000


def test_all_clear_gives_up_after_its_timeout(world, store, cleaner):
    store.usual["release"] = SILENCE
    cleaner.add(orphan(world))
    assert world.run(cleaner.wait_until_clean(5)) is False
    assert world.now() == pytest.approx(1_005)


def test_all_is_clear_when_the_orphan_has_ended_by_itself(world, store, cleaner):
    store.usual["release"] = SILENCE
    cleaner.add(orphan(world, ttl=3))
    assert world.run(cleaner.wait_until_clean(60)) is True
    assert world.now() <= 1_003


def test_one_orphan_that_hangs_does_not_hold_up_the_others(world, store, cleaner):
    store.answer("release", NEVER)
    cleaner.add(orphan(world, "a"))
    cleaner.add(orphan(world, "b"))
    world.advance(1)
    assert {call.asked["name"] for call in store.asked("release")} == {"a", "b"}


def test_a_stopped_cleaner_sends_nothing_more(world, store, cleaner):
    store.usual["release"] = SILENCE
    cleaner.add(orphan(world))
    world.advance(1)
    cleaner.stop()
    world.settle()
    asked = len(store.asked("release"))
    world.advance(60)
    assert len(store.asked("release")) == asked
