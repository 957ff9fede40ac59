"""Saving, and its effect on the lock."""

from __future__ import annotations

import asyncio

import pytest
from tests.documents.cancellation import give_up
from tests.support.eventually import eventually_async

from leasehold import InvalidRequest, NotFound
from leasehold.documents import Editor, Rescued, Save, Saved, Times

pytestmark = pytest.mark.usefixtures("patient_undo")


async def test_a_save_of_the_holder_is_a_version_and_the_lock_stays(locks, ana):
    granted = await locks.acquire("doc", ana)
    answer = await locks.save(Save("doc", ana, "words", 0, granted.fence))
    assert (answer.outcome, answer.lock_lost) == (Saved(1), False)
    assert (await locks.state("doc")).version == granted.state.version


@pytest.mark.parametrize("reason", ["released", "idle"])
@pytest.mark.every_way_in
async def test_a_save_may_release_the_lock(locks, ana, reason):
    granted = await locks.acquire("doc", ana)
    answer = await locks.save(Save("doc", ana, "words", 0, granted.fence), release=True, reason=reason)
    assert (answer.outcome, answer.lock_lost) == (Saved(1), False)
    state = await locks.state("doc")
    assert not state.is_locked
    assert state.last.reason == reason


async def test_saving_and_releasing_twice_has_the_same_outcome(locks, desk, ana):
    granted = await locks.acquire("doc", ana)
    save = Save("doc", ana, "words", 0, granted.fence)
    first = await locks.save(save, release=True)
    assert await locks.save(save, release=True) == first
    assert desk.host["doc"].versions == ["", "words"]


async def test_saving_and_releasing_twice_has_the_same_outcome_although_others_held_it_since(locks, ana, bob):
    granted = await locks.acquire("doc", ana)
    save = Save("doc", ana, "words", 0, granted.fence)
    first = await locks.save(save, release=True)
    for _ in range(3):
        await locks.acquire("doc", bob)
        assert await locks.save(save, release=True) == first
        assert (await locks.state("doc")).is_held_by(bob)
        await locks.release("doc", bob)


async def test_a_late_save_does_not_release_a_newer_hold_of_the_same_tab(locks, ana):
    old = await locks.acquire("doc", ana)
    await locks.release("doc", ana)
    new = await locks.acquire("doc", ana)
    answer = await locks.save(Save("doc", ana, "late", 0, old.fence), release=True)
    assert isinstance(answer.outcome, Rescued)
    assert answer.lock_lost is True
    assert (await locks.state("doc")).version == new.state.version


async def test_a_rescued_save_still_releases_the_lock(locks, ana):
    granted = await locks.acquire("doc", ana)
    answer = await locks.save(Save("doc", ana, "words", 3, granted.fence), release=True)
    assert answer.outcome.reason == "stale_base"
    assert answer.lock_lost is False
    assert not (await locks.state("doc")).is_locked


async def test_a_save_after_the_lock_expired_reports_it_lost(desk, ana):
    locks = await desk.worker(times=Times(ttl=0.2, heartbeat=0.05))
    granted = await locks.acquire("doc", ana)
    await eventually_async(lambda: is_free(locks))
    for release in (False, True):
        answer = await locks.save(Save("doc", ana, "words", 0, granted.fence), release=release)
        assert (answer.outcome, answer.lock_lost) == (Saved(1), True)


async def is_free(locks):
    return not (await locks.state("doc")).is_locked


async def test_a_save_of_an_editor_who_never_held_the_lock_is_rescued(locks, ana, bob):
    granted = await locks.acquire("doc", ana)
    answer = await locks.save(Save("doc", bob, "mine", 0, granted.fence), release=True)
    assert answer.outcome.reason == "not_holder"
    assert answer.lock_lost is True
    assert (await locks.state("doc")).is_held_by(ana)


async def test_a_save_of_another_tab_is_rescued_and_its_lock_is_not_touched(locks, ana, ana_elsewhere):
    granted = await locks.acquire("doc", ana)
    answer = await locks.save(Save("doc", ana_elsewhere, "mine", 0, granted.fence), release=True)
    assert (answer.outcome.reason, answer.lock_lost) == ("not_holder", True)
    assert (await locks.state("doc")).is_held_by(ana)


async def test_a_save_while_marked_that_does_not_release_keeps_the_lock(desk, ana, olga):
    locks = await desk.worker()
    granted = await locks.acquire("doc", ana)
    taking = asyncio.create_task(locks.force_take("doc", olga))
    await eventually_async(lambda: is_marked(locks))
    answer = await locks.save(Save("doc", ana, "so far", 0, granted.fence))
    assert (answer.outcome, answer.lock_lost) == (Saved(1), False)
    state = await locks.state("doc")
    assert state.is_held_by(ana)
    assert state.taking.by == olga
    await give_up(taking)


async def is_marked(locks):
    return (await locks.state("doc")).taking is not None


async def test_a_save_with_an_invalid_editor_is_refused_before_it_is_stored(locks, desk):
    with pytest.raises(InvalidRequest):
        await locks.save(Save("doc", Editor("\ud800", "A"), "words", 0, 1), release=True)
    assert desk.host["doc"].drafts == {}


async def test_an_error_of_the_document_store_is_raised_and_releases_nothing(locks, ana):
    granted = await locks.acquire("doc", ana)
    with pytest.raises(NotFound):
        await locks.save(Save("no such document", ana, "words", 0, granted.fence), release=True)
    assert (await locks.state("doc")).is_held_by(ana)


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.every_way_in
async def test_a_save_succeeds_although_the_lock_store_is_away(valkey_desk, proxy, ana, release):
    front = proxy(valkey_desk.server)
    locks = await valkey_desk.worker(url=front.url)
    granted = await locks.acquire("doc", ana)
    front.refuse()
    front.cut()
    answer = await locks.save(Save("doc", ana, "words", 0, granted.fence), release=release)
    assert (answer.outcome, answer.lock_lost) == (Saved(1), None)
    assert valkey_desk.host["doc"].versions == ["", "words"]


async def test_a_save_succeeds_although_the_lock_is_unreadable(locks, desk, ana):
    granted = await locks.acquire("doc", ana)
    desk.server.call("SET", "doc_lock:{doc}", "nonsense", "PX", 60_000)
    answer = await locks.save(Save("doc", ana, "words", 0, granted.fence))
    assert (answer.outcome, answer.lock_lost) == (Saved(1), None)
