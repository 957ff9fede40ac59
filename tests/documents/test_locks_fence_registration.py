"""No grant is reported before its fence is registered with the document."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from tests.documents.cancellation import CancelledAt
from tests.documents.conftest import HASTY
from tests.support.eventually import LIMIT, eventually_async

from leasehold import NotFound, StaleFence
from leasehold.documents import Busy, Granted, Save

pytestmark = pytest.mark.usefixtures("patient_undo")


class PermissionCheck:
    """Stands before the host's `register`: holds it up, or fails it."""

    def __init__(self, host) -> None:
        self._register = host.register
        self.asked = asyncio.Event()
        self.open = asyncio.Event()
        self.error: Exception | None = None
        host.register = self._pass

    async def _pass(self, grant):
        self.asked.set()
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return await self._register(grant)


async def test_a_grant_that_was_overtaken_is_busy(desk, ana, olga):
    """The editor's worker pauses between the grant and its registration, while an owner takes the lock."""
    locks = await desk.worker()
    gate = PermissionCheck(desk.host)
    acquiring = asyncio.create_task(locks.acquire("doc", ana))
    await gate.asked.wait()
    hasty = await desk.worker(times=HASTY)
    taking = asyncio.create_task(hasty.force_take("doc", olga))
    await eventually_async(lambda: is_held_by(locks, olga))
    newer = (await locks.state("doc")).version.fence
    desk.host["doc"].fence, desk.host["doc"].holder = newer, ("user-olga", "tab-1")
    gate.open.set()
    busy = await acquiring
    assert isinstance(busy, Busy)
    assert busy.state.is_held_by(olga)
    assert (await taking).fence == newer


async def is_held_by(locks, editor):
    return (await locks.state("doc")).is_held_by(editor)


@pytest.mark.every_way_in
async def test_a_document_that_has_seen_a_newer_fence_is_granted_above_it(locks, desk, ana):
    """The store of locks has lost its data, and its clock was set back."""
    ahead = (await locks.state("doc")).version.fence + 10**9
    desk.host["doc"].fence = ahead
    granted = await locks.acquire("doc", ana)
    assert granted.fence == ahead + 1 == desk.host["doc"].fence
    assert granted.state.is_held_by(ana)
    await locks.release("doc", ana)
    assert (await locks.acquire("doc", ana)).fence > ahead + 1


async def test_a_hold_older_than_the_documents_fence_is_replaced(locks, desk, ana):
    """Also one that the editor had before: under its fence no save succeeds."""
    first = await locks.acquire("doc", ana)
    desk.host["doc"].fence = first.fence + 10**9
    second = await locks.acquire("doc", ana)
    assert second.fence == first.fence + 10**9 + 1


async def test_a_force_take_of_a_document_that_has_seen_a_newer_fence_is_granted_above_it(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    granted = await locks.acquire("doc", ana)
    ahead = granted.fence + 10**9
    desk.host["doc"].fence = ahead
    taken = await locks.force_take("doc", olga)
    assert isinstance(taken, Granted)
    assert taken.fence == ahead + 1
    assert taken.saved is False


async def test_a_document_that_refuses_every_fence_ends_the_retries(desk, ana):
    locks = await desk.worker()
    gate = PermissionCheck(desk.host)
    gate.error = StaleFence(seen=5, given=4)
    gate.open.set()
    with pytest.raises(StaleFence):
        await asyncio.wait_for(locks.acquire("doc", ana), LIMIT)
    assert not (await locks.state("doc")).is_locked


@pytest.mark.parametrize(
    "error", [NotFound("gone"), RuntimeError("no database")], ids=["not-found", "broken"]
)
@pytest.mark.every_way_in
async def test_a_grant_that_cannot_be_registered_is_released(locks, desk, ana, bob, error):
    gate = PermissionCheck(desk.host)
    gate.error = error
    gate.open.set()
    with pytest.raises(type(error)):
        await locks.acquire("doc", ana)
    assert not (await locks.state("doc")).is_locked
    gate.error = None
    assert isinstance(await locks.acquire("doc", bob), Granted)


async def test_a_taken_lock_that_cannot_be_registered_is_released(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    await locks.acquire("doc", ana)
    gate = PermissionCheck(desk.host)
    gate.error = RuntimeError("no database")
    gate.open.set()
    with pytest.raises(RuntimeError):
        await locks.force_take("doc", olga)
    assert not (await locks.state("doc")).is_locked


@pytest.mark.every_way_in
async def test_an_editor_who_gives_up_before_the_answer_holds_nothing(locks, desk, ana):
    gate = PermissionCheck(desk.host)
    acquiring = asyncio.create_task(locks.acquire("doc", ana))
    await gate.asked.wait()
    assert (await locks.state("doc")).is_held_by(ana)
    acquiring.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acquiring
    assert not (await locks.state("doc")).is_locked


async def test_an_editor_cancelled_at_any_await_holds_nothing(own_valkey_desk, ana):
    locks = await own_valkey_desk.worker()
    for at in range(20):
        attempt = CancelledAt(locks.acquire("doc", ana), at)
        with suppress(asyncio.CancelledError):
            await attempt
        state = await locks.state("doc")
        if not attempt.was_cancelled:
            assert state.is_held_by(ana)
            break
        assert not state.is_locked
    assert at >= 2


async def test_a_holder_keeps_the_lock_when_a_repeated_call_is_cancelled(own_valkey_desk, ana):
    locks = await own_valkey_desk.worker()
    granted = await locks.acquire("doc", ana)
    for at in range(20):
        attempt = CancelledAt(locks.acquire("doc", ana), at)
        with suppress(asyncio.CancelledError):
            await attempt
        state = await locks.state("doc")
        assert state.is_held_by(ana)
        assert state.version == granted.state.version
        if not attempt.was_cancelled:
            break
    assert at >= 2


async def test_a_cancelled_call_does_not_release_the_grant_of_another_call_of_its_tab(locks, desk, ana):
    """Two requests of one tab at once: the first is cancelled after the second was granted the same hold."""
    gate = PermissionCheck(desk.host)
    first = asyncio.create_task(locks.acquire("doc", ana))
    await gate.asked.wait()
    gate.asked.clear()
    second = asyncio.create_task(locks.acquire("doc", ana))
    await gate.asked.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    gate.open.set()
    granted = await second
    assert isinstance(granted, Granted)
    assert (await locks.state("doc")).version == granted.state.version


async def test_a_taker_who_registers_too_late_is_busy(own_valkey_desk, ana, bob, olga):
    """The claim window passes while the host's database hangs."""
    desk = own_valkey_desk
    locks, other = await desk.worker(), await desk.worker()
    await locks.acquire("doc", ana)
    gate = PermissionCheck(desk.host)
    taking = asyncio.create_task(locks.force_take("doc", olga))
    await eventually_async(lambda: is_marked(locks))
    handed = await locks.release("doc", ana)
    await gate.asked.wait()
    gate.asked.clear()
    acquiring = asyncio.create_task(eventually_async(lambda: has_acquired(other, bob)))
    await eventually_async(lambda: is_held_by(other, bob))
    gate.open.set()
    granted = await acquiring
    assert granted.fence > handed.version.fence
    busy = await taking
    assert isinstance(busy, Busy)
    assert busy.state.is_held_by(bob)
    assert desk.host["doc"].fence == granted.fence


async def has_acquired(locks, editor):
    outcome = await locks.acquire("doc", editor)
    return outcome if isinstance(outcome, Granted) else None


async def is_marked(locks):
    return (await locks.state("doc")).taking is not None


async def test_a_save_under_the_old_fence_is_rescued_as_soon_as_the_new_grant_is_reported(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    granted = await locks.acquire("doc", ana)
    taken = await locks.force_take("doc", olga)
    late = await locks.save(Save("doc", ana, "late", 0, granted.fence))
    assert (late.outcome.reason, late.lock_lost) == ("stale_fence", True)
    fresh = await locks.save(Save("doc", olga, "fresh", 0, taken.fence))
    assert (fresh.outcome.version, fresh.lock_lost) == (1, False)
