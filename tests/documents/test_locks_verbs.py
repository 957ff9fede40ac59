"""Every verb of a document's lock, and every outcome."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest
from tests.support.eventually import eventually_async

from leasehold import InvalidRequest
from leasehold.documents import Busy, Editor, Granted, Times
from leasehold.documents.state import ENDED, NO_HOLD

SOON_OVER = Times(ttl=0.3, heartbeat=0.1)


async def test_a_document_without_grants_has_no_holder(locks):
    state = await locks.state("doc")
    assert not state.is_locked
    assert (state.holder, state.held_until, state.taking, state.last) == (None, None, None, None)
    assert state.version.step == NO_HOLD


@pytest.mark.every_way_in
async def test_a_free_document_is_granted(locks, desk, ana):
    granted = await locks.acquire("doc", ana)
    assert isinstance(granted, Granted)
    state = granted.state
    assert state.is_held_by(ana)
    assert state.holder.editor == ana
    assert state.holder.acquired_at == pytest.approx(state.read_at, abs=0.001)
    assert state.held_until == pytest.approx(state.holder.acquired_at + 60, abs=0.001)
    assert state.version == (granted.fence, 0)
    assert (granted.content_version, granted.saved) == (0, None)
    assert (desk.host["doc"].fence, desk.host["doc"].holder) == (granted.fence, ("user-ana", "tab-1"))


@pytest.mark.every_way_in
async def test_the_second_editor_gets_the_name_of_the_first(locks, ana, bob):
    granted = await locks.acquire("doc", ana)
    busy = await locks.acquire("doc", bob)
    assert isinstance(busy, Busy)
    assert busy.state.version == granted.state.version
    assert busy.state.holder == granted.state.holder


async def test_another_worker_sees_the_same(locks, desk, ana, bob):
    granted = await locks.acquire("doc", ana)
    other = await desk.worker()
    assert (await other.state("doc")).version == granted.state.version
    assert isinstance(await other.acquire("doc", bob), Busy)
    assert (await other.acquire("doc", ana)).fence == granted.fence


async def test_acquiring_again_at_the_same_tab_keeps_the_fence_and_extends_the_hold(desk, ana):
    locks, other = await desk.worker(), await desk.worker(times=Times(ttl=120, heartbeat=10))
    first = await locks.acquire("doc", ana)
    second = await other.acquire("doc", ana)
    assert second.fence == first.fence
    assert second.state.version == first.state.version
    assert second.state.holder.acquired_at == first.state.holder.acquired_at
    assert second.state.held_until >= first.state.held_until + 60
    assert len(await locks.history("doc")) == 1


async def test_a_second_tab_of_the_same_person_is_busy(locks, ana, ana_elsewhere):
    await locks.acquire("doc", ana)
    busy = await locks.acquire("doc", ana_elsewhere)
    assert isinstance(busy, Busy)
    assert busy.state.holder.editor.user_id == ana_elsewhere.user_id
    assert not busy.state.is_held_by(ana_elsewhere)


async def test_the_tab_without_a_name_is_a_tab_like_any_other(locks, ana):
    nameless = replace(ana, tab="")
    await locks.acquire("doc", nameless)
    assert isinstance(await locks.acquire("doc", ana), Busy)
    assert isinstance(await locks.acquire("doc", nameless), Granted)


@pytest.mark.every_way_in
async def test_a_lock_moves_to_another_tab_of_the_same_person(locks, desk, ana, ana_elsewhere):
    before = await locks.acquire("doc", ana)
    moved = await locks.acquire("doc", ana_elsewhere, move=True)
    assert moved.fence > before.fence
    assert moved.state.is_held_by(ana_elsewhere)
    assert moved.saved is None
    assert desk.host["doc"].holder == ("user-ana", "tab-2")
    is_extended, state = await locks.heartbeat("doc", ana)
    assert not is_extended
    assert state.is_held_by(ana_elsewhere)


async def test_moving_never_takes_the_lock_of_another_person(locks, ana, bob):
    granted = await locks.acquire("doc", ana)
    busy = await locks.acquire("doc", bob, move=True)
    assert isinstance(busy, Busy)
    assert busy.state.version == granted.state.version


async def test_moving_is_refused_during_a_force_take(locks, ana, ana_elsewhere, olga):
    await locks.acquire("doc", ana)
    taking = asyncio.create_task(locks.force_take("doc", olga))
    await eventually_async(lambda: is_marked(locks))
    busy = await locks.acquire("doc", ana_elsewhere, move=True)
    assert isinstance(busy, Busy)
    assert busy.state.is_held_by(ana)
    await locks.release("doc", ana)
    assert isinstance(await taking, Granted)


async def test_moving_a_free_lock_acquires_it(locks, ana):
    assert isinstance(await locks.acquire("doc", ana, move=True), Granted)


async def test_a_heartbeat_extends_the_hold_and_changes_nothing_else(desk, ana):
    locks, other = await desk.worker(), await desk.worker(times=Times(ttl=120, heartbeat=10))
    granted = await locks.acquire("doc", ana)
    is_extended, state = await other.heartbeat("doc", ana)
    assert is_extended
    assert state.version == granted.state.version
    assert state.holder == granted.state.holder
    assert state.held_until == pytest.approx(state.read_at + 120, abs=0.001)


@pytest.mark.every_way_in
async def test_a_heartbeat_reports_the_idle_time(locks, ana):
    await locks.acquire("doc", ana)
    _, state = await locks.heartbeat("doc", ana, idle_for=12.5)
    assert state.holder.idle_since == pytest.approx(state.read_at - 12.5, abs=0.002)
    assert (await locks.state("doc")).holder.idle_since == state.holder.idle_since
    _, state = await locks.heartbeat("doc", ana, idle_for=0)
    assert state.holder.idle_since == pytest.approx(state.read_at, abs=0.002)
    _, state = await locks.heartbeat("doc", ana)
    assert state.holder.idle_since is None


@pytest.mark.parametrize("idle_for", [-1, math.nan, math.inf, "3"])
async def test_an_impossible_idle_time_is_refused(valkey_locks, ana, idle_for):
    with pytest.raises(InvalidRequest):
        await valkey_locks.heartbeat("doc", ana, idle_for=idle_for)


async def test_a_heartbeat_of_another_editor_changes_nothing(locks, ana, ana_elsewhere, bob):
    granted = await locks.acquire("doc", ana)
    for stranger in (bob, ana_elsewhere):
        is_extended, state = await locks.heartbeat("doc", stranger)
        assert not is_extended
        assert (state.version, state.held_until) == (granted.state.version, granted.state.held_until)


async def test_a_heartbeat_never_re_creates_a_hold_that_has_ended(desk, ana):
    locks = await desk.worker(times=SOON_OVER)
    await locks.acquire("doc", ana)
    await eventually_async(lambda: is_free(locks))
    is_extended, state = await locks.heartbeat("doc", ana)
    assert not is_extended
    assert not state.is_locked
    assert state.last.reason == "expired"


@pytest.mark.every_way_in
async def test_releasing_frees_it_and_releasing_twice_is_harmless(locks, ana, bob):
    granted = await locks.acquire("doc", ana)
    state = await locks.release("doc", ana)
    assert not state.is_locked
    assert state.version == (granted.fence, ENDED)
    assert state.last.reason == "released"
    again = await locks.release("doc", ana)
    assert (again.version, again.last) == (state.version, state.last)
    assert (await locks.acquire("doc", bob)).fence > granted.fence


async def test_an_editor_cannot_release_the_lock_of_another(locks, ana, ana_elsewhere, bob):
    granted = await locks.acquire("doc", ana)
    for stranger in (bob, ana_elsewhere):
        state = await locks.release("doc", stranger)
        assert state.version == granted.state.version
        assert state.is_held_by(ana)


@pytest.mark.every_way_in
async def test_a_hold_that_is_not_extended_expires(desk, ana, bob):
    locks = await desk.worker(times=SOON_OVER)
    granted = await locks.acquire("doc", ana)
    await eventually_async(lambda: is_free(locks))
    state = await locks.state("doc")
    assert state.version == (granted.fence, ENDED)
    assert state.last.ended_at == granted.state.held_until
    assert (await locks.acquire("doc", bob)).fence > granted.fence


@pytest.mark.every_way_in
async def test_many_states_at_once_are_those_of_each(locks, desk, ana, bob):
    desk.host.documents |= dict.fromkeys(("a", "b"), desk.host["doc"])
    await locks.acquire("a", ana)
    await locks.acquire("b", bob)
    await locks.release("b", bob)
    states = await locks.states(["b", "c", "a"])
    assert [state.document_id for state in states] == ["b", "c", "a"]
    assert [state.is_locked for state in states] == [False, False, True]
    assert states[2].holder.editor == ana
    assert await locks.states([]) == []


@pytest.mark.every_way_in
async def test_names_of_people_and_documents_may_be_anything(locks, desk):
    document_id = "ein {Entwurf} %\n✍"
    desk.host.documents[document_id] = desk.host["doc"]
    editor = Editor('u"\\{}', 'Zoë "✍" \\ \u0000\U0001f600/', "%s\ttab")
    granted = await locks.acquire(document_id, editor)
    assert granted.state.holder.editor == editor
    assert granted.state.document_id == document_id
    state = await locks.release(document_id, editor)
    assert state.last.person == editor.person


@pytest.mark.parametrize(
    "document_id", ["", "a\0b", "x" * 513, "\ud800"], ids=["empty", "nul", "long", "surrogate"]
)
async def test_an_invalid_document_id_is_refused(valkey_locks, ana, document_id):
    for verb in (valkey_locks.acquire, valkey_locks.heartbeat, valkey_locks.release, valkey_locks.force_take):
        with pytest.raises(InvalidRequest):
            await verb(document_id, ana)
    for ask in (valkey_locks.state, valkey_locks.history):
        with pytest.raises(InvalidRequest):
            await ask(document_id)
    with pytest.raises(InvalidRequest):
        await valkey_locks.states(["doc", document_id])


@pytest.mark.parametrize("text", ["\ud800", "x" * 513], ids=["surrogate", "long"])
async def test_an_invalid_editor_is_refused(valkey_locks, text):
    for editor in (Editor(text, "A", "t"), Editor("a", text, "t"), Editor("a", "A", text)):
        with pytest.raises(InvalidRequest):
            await valkey_locks.acquire("doc", editor)


async def is_free(locks):
    return not (await locks.state("doc")).is_locked


async def is_marked(locks):
    return (await locks.state("doc")).taking is not None
