"""Taking a lock by force: the holder may save first, and cannot prevent it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from tests.documents.cancellation import CancelledAt, give_up
from tests.documents.conftest import HASTY, TIMES, passed
from tests.support.eventually import LIMIT, eventually_async

from leasehold.documents import Busy, Editor, Granted, Holder, LockState, Save, Taking, Times, Version
from leasehold.documents.force_take import ForceTake
from leasehold.documents.state import ENDED
from leasehold.documents.store.lock_store import DocumentLockStore

pytestmark = pytest.mark.usefixtures("patient_undo")


async def begin(locks, taker):
    """A force-take that has asked the holder to save."""
    task = asyncio.create_task(locks.force_take("doc", taker))
    await eventually_async(lambda: is_marked_by(locks, taker))
    return task


async def is_marked_by(locks, taker):
    taking = (await locks.state("doc")).taking
    return taking is not None and taking.by == taker


def meet(monkeypatch, takers=2):
    """Hold back each taker's first reply until all of them have called. The returned set grows with them."""
    take, asks = DocumentLockStore.take, set()

    async def look(lock_store, *args, ask, **options):
        answer = await take(lock_store, *args, ask=ask, **options)
        asks.add(ask)
        await eventually_async(lambda: len(asks) >= takers)
        return answer

    monkeypatch.setattr(DocumentLockStore, "take", look)
    return asks


async def test_the_holder_is_asked_to_save_and_has_time_for_it(locks, ana, olga):
    granted = await locks.acquire("doc", ana)
    taking = await begin(locks, olga)
    state = await locks.state("doc")
    assert state.is_held_by(ana)
    assert state.version == (granted.fence, 1)
    assert state.taking.by == olga
    assert 0 < state.taking.save_until - state.read_at <= 30
    await give_up(taking)


@pytest.mark.every_way_in
async def test_a_holder_who_saves_hands_over_at_once(locks, desk, ana, olga):
    granted = await locks.acquire("doc", ana)
    taking = await begin(locks, olga)
    answer = await locks.save(Save("doc", ana, "the last words", 0, granted.fence), release=True)
    assert (answer.outcome.version, answer.lock_lost) == (1, False)
    taken = await asyncio.wait_for(taking, LIMIT)
    assert isinstance(taken, Granted)
    assert taken.saved is True
    assert taken.content_version == 1
    assert taken.fence > granted.fence
    assert taken.state.is_held_by(olga)
    assert taken.state.held_until == pytest.approx(taken.state.read_at + 60, abs=0.001)
    assert desk.host["doc"].holder == ("user-olga", "tab-1")


@pytest.mark.parametrize("is_saved", [True, False])
async def test_two_calls_of_one_tab_both_get_the_outcome(desk, monkeypatch, ana, olga, is_saved):
    """As when a page asks again because the first answer was lost."""
    locks = await desk.worker(times=Times(ttl=60, heartbeat=10, save_within=30))
    granted = await locks.acquire("doc", ana)
    asks = meet(monkeypatch)
    calls = [asyncio.create_task(locks.force_take("doc", olga)) for _ in range(2)]
    await eventually_async(lambda: len(asks) == 2)
    save = Save("doc", ana, "the last words", 0 if is_saved else 7, granted.fence)
    await locks.save(save, release=True)
    taken = [await asyncio.wait_for(call, LIMIT) for call in calls]
    assert [one.saved for one in taken] == [is_saved, is_saved]
    assert taken[0].fence == taken[1].fence
    assert (await locks.force_take("doc", olga)).saved is None


async def test_a_holder_who_only_releases_hands_over_at_once(locks, ana, olga):
    await locks.acquire("doc", ana)
    taking = await begin(locks, olga)
    state = await locks.release("doc", ana)
    assert state.is_held_by(olga)
    taken = await asyncio.wait_for(taking, LIMIT)
    assert taken.saved is False
    assert taken.fence == state.version.fence


async def test_a_save_that_became_a_draft_does_not_count_as_a_save_before_the_hand_over(locks, ana, olga):
    granted = await locks.acquire("doc", ana)
    taking = await begin(locks, olga)
    answer = await locks.save(Save("doc", ana, "from an old version", 7, granted.fence), release=True)
    assert answer.outcome.reason == "stale_base"
    assert (await locks.state("doc")).is_held_by(olga)
    assert (await asyncio.wait_for(taking, LIMIT)).saved is False


@pytest.mark.every_way_in
async def test_a_silent_holder_loses_the_lock_when_its_time_is_over(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    granted = await locks.acquire("doc", ana)
    taking = asyncio.create_task(locks.force_take("doc", olga))
    taken = await taking
    assert taken.saved is False
    assert taken.state.is_held_by(olga)
    assert taken.fence > granted.fence
    before, after = reversed(await locks.history("doc"))
    assert (before.reason, before.ended_by) == ("taken", olga.person)
    # On the server's clock, so to the millisecond.
    assert before.ended_at == after.acquired_at >= granted.state.read_at + 0.299
    is_extended, _ = await locks.heartbeat("doc", ana)
    assert not is_extended


async def test_a_late_save_of_the_previous_holder_is_rescued(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    granted = await locks.acquire("doc", ana)
    await locks.force_take("doc", olga)
    answer = await locks.save(Save("doc", ana, "too late", 0, granted.fence), release=True)
    assert (answer.outcome.reason, answer.lock_lost) == ("stale_fence", True)
    assert desk.host["doc"].drafts[answer.outcome.draft_id].content == "too late"
    assert (await locks.state("doc")).is_held_by(olga)


async def test_heartbeats_do_not_prevent_a_force_take(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    await locks.acquire("doc", ana)
    taking = asyncio.create_task(locks.force_take("doc", olga))
    while not taking.done():
        await locks.heartbeat("doc", ana)
        await asyncio.sleep(0.01)
    assert isinstance(await taking, Granted)


async def test_a_holder_who_is_marked_extends_and_saves_as_usual(locks, ana, olga):
    granted = await locks.acquire("doc", ana)
    taking = await begin(locks, olga)
    is_extended, state = await locks.heartbeat("doc", ana)
    assert is_extended
    assert state.held_until == pytest.approx(state.read_at + 60, abs=0.001)
    assert state.taking.by == olga
    again = await locks.acquire("doc", ana)
    assert again.fence == granted.fence
    answer = await locks.save(Save("doc", ana, "on the way", 0, granted.fence))
    assert (answer.outcome.version, answer.lock_lost) == (1, False)
    await give_up(taking)


async def test_a_marked_lock_is_granted_to_no_other_editor(locks, ana, bob, olga):
    await locks.acquire("doc", ana)
    taking = await begin(locks, olga)
    busy = await locks.acquire("doc", bob)
    assert isinstance(busy, Busy)
    assert busy.state.taking.by == olga
    await locks.release("doc", ana)
    assert isinstance(await locks.acquire("doc", bob), Busy)
    assert isinstance(await taking, Granted)


async def test_a_free_lock_is_simply_acquired(locks, olga):
    taken = await asyncio.wait_for(locks.force_take("doc", olga), LIMIT)
    assert taken.saved is None
    assert taken.state.is_held_by(olga)


async def test_ones_own_lock_at_another_tab_is_moved(locks, ana, ana_elsewhere):
    before = await locks.acquire("doc", ana)
    taken = await asyncio.wait_for(locks.force_take("doc", ana_elsewhere), LIMIT)
    assert taken.saved is None
    assert taken.fence > before.fence
    assert (await locks.history("doc"))[1].reason == "moved"


async def test_a_holder_who_takes_its_own_lock_keeps_it(locks, olga):
    before = await locks.acquire("doc", olga)
    taken = await locks.force_take("doc", olga)
    assert (taken.fence, taken.saved) == (before.fence, None)


@pytest.mark.every_way_in
async def test_a_marked_hold_that_expires_goes_to_the_taker_at_once(desk, ana, bob, olga):
    locks = await desk.worker()
    await locks.acquire("doc", ana)
    taking = await begin(locks, olga)
    hasty = await desk.worker(times=Times(ttl=0.3, heartbeat=0.1))
    _, state = await hasty.heartbeat("doc", ana)
    save_until = state.taking.save_until
    taken = await asyncio.wait_for(taking, LIMIT)
    assert taken.saved is False
    before = (await locks.history("doc"))[1]
    assert (before.reason, before.ended_at, before.ended_by) == ("expired", state.held_until, None)
    assert taken.state.holder.acquired_at < save_until
    assert isinstance(await locks.acquire("doc", bob), Busy)


async def test_the_first_call_after_a_marked_hold_expired_hands_it_over(desk, ana, bob, olga):
    locks = await desk.worker()
    await locks.acquire("doc", ana)
    await locks._lock_store.take("doc", olga, ask="slow", floor=0, expect_fence=None)
    hasty = await desk.worker(times=Times(ttl=0.2, heartbeat=0.05))
    _, before = await hasty.heartbeat("doc", ana)
    await passed(desk.server, before.held_until)
    busy = await locks.acquire("doc", bob)
    assert isinstance(busy, Busy)
    assert busy.state.is_held_by(olga)
    assert busy.state.version.fence > before.version.fence
    verdict, state = await locks._lock_store.take("doc", olga, ask="slow", floor=0, expect_fence=None)
    assert (verdict, state.version) == ("unsaved", busy.state.version)


async def test_of_two_takers_one_wins_and_the_other_gets_its_name(desk, monkeypatch, ana, olga):
    meet(monkeypatch)
    paul = Editor("user-paul", "Paul", "tab-1")
    locks, other = await desk.worker(times=HASTY), await desk.worker(times=HASTY)
    await locks.acquire("doc", ana)
    outcomes = await asyncio.gather(locks.force_take("doc", olga), other.force_take("doc", paul))
    (won,) = [outcome for outcome in outcomes if isinstance(outcome, Granted)]
    (lost,) = [outcome for outcome in outcomes if isinstance(outcome, Busy)]
    assert lost.state.version.fence == won.fence
    assert lost.state.holder.editor == won.state.holder.editor
    assert len(await locks.history("doc")) == 2


@pytest.mark.every_way_in
async def test_the_second_taker_is_busy_as_soon_as_the_first_has_the_lock(desk, monkeypatch, ana, olga):
    asks = meet(monkeypatch)
    paul = Editor("user-paul", "Paul", "tab-1")
    locks, other = await desk.worker(), await desk.worker()
    await locks.acquire("doc", ana)
    first = await begin(locks, olga)
    second = asyncio.create_task(other.force_take("doc", paul))
    await eventually_async(lambda: len(asks) == 2)
    assert not second.done()
    await locks.release("doc", ana)
    assert isinstance(await asyncio.wait_for(first, LIMIT), Granted)
    busy = await asyncio.wait_for(second, LIMIT)
    assert busy.state.is_held_by(olga)


async def test_the_second_taker_goes_on_if_the_first_gives_up(desk, monkeypatch, ana, olga):
    asks = meet(monkeypatch)
    paul = Editor("user-paul", "Paul", "tab-1")
    locks, other = await desk.worker(), await desk.worker()
    granted = await locks.acquire("doc", ana)
    first = await begin(locks, olga)
    second = asyncio.create_task(other.force_take("doc", paul))
    await eventually_async(lambda: len(asks) == 2)
    await give_up(first)
    await eventually_async(lambda: is_marked_by(locks, paul))
    assert (await locks.state("doc")).version == (granted.fence, 3)
    await locks.release("doc", ana)
    assert (await asyncio.wait_for(second, LIMIT)).state.is_held_by(paul)


async def test_two_calls_of_the_same_owner_both_get_the_lock(desk, ana, olga):
    locks, other = await desk.worker(times=HASTY), await desk.worker(times=HASTY)
    await locks.acquire("doc", ana)
    both = await asyncio.gather(locks.force_take("doc", olga), other.force_take("doc", olga))
    assert both[0].fence == both[1].fence == (await locks.state("doc")).version.fence
    assert len(await locks.history("doc")) == 2


@pytest.mark.every_way_in
async def test_a_taker_who_is_cancelled_leaves_the_lock_where_it_was(locks, ana, bob, olga):
    granted = await locks.acquire("doc", ana)
    taking = await begin(locks, olga)
    await give_up(taking)
    assert taking.cancelled()
    state = await locks.state("doc")
    assert state.is_held_by(ana)
    assert (state.version, state.taking) == ((granted.fence, 2), None)


class AlwaysAsked:
    """A lock_store whose lock stays with its holder, who has been asked to save."""

    def __init__(self, holder: Editor, taker: Editor) -> None:
        taking = Taking(taker, save_until=1000)
        self._state = LockState("doc", Version(1, 1), 0.0, Holder(holder, 0.0), 1000.0, taking)
        self.looks = 0

    async def take(self, *_args, **_options):
        self.looks += 1
        return "asked", self._state


@pytest.mark.parametrize("turns", range(5))
async def test_a_taker_cancelled_at_the_moment_of_an_event_is_cancelled(ana, olga, turns):
    """So many turns of the loop later: a wait that is just over must not swallow the cancellation."""
    lock_store, news = AlwaysAsked(ana, olga), asyncio.Event()
    take = ForceTake(lock_store, None, "doc", olga, ask="ask", times=TIMES)
    taking = asyncio.create_task(take.run(news))
    while not lock_store.looks:
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    news.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    taking.cancel()
    looks = lock_store.looks
    await eventually_async(lambda: taking.done() or lock_store.looks > looks)
    assert taking.cancelled()


async def test_a_taker_cancelled_at_any_await_leaves_the_lock_where_it_was(own_valkey_desk, ana, olga):
    """Until the moment at which the holder's time is over, and it is taken."""
    locks = await own_valkey_desk.worker(times=Times(ttl=60, heartbeat=10, save_within=0.25))
    for at in range(100):
        granted = await locks.acquire("doc", ana)
        attempt = CancelledAt(locks.force_take("doc", olga), at)
        with suppress(asyncio.CancelledError):
            await attempt
        state = await locks.state("doc")
        assert state.taking is None
        if not attempt.was_cancelled:
            assert state.is_held_by(olga)
            break
        if state.is_held_by(ana):
            assert state.version.fence == granted.fence
        else:
            # Cancelled after it was taken: then the lock is free.
            assert not state.is_locked
            assert state.last.person == olga.person
        await locks.release("doc", ana)
    assert at > 3


async def test_a_taker_cancelled_at_any_await_after_the_release_keeps_nothing(own_valkey_desk, ana, olga):
    """The holder releases as soon as it is asked; the taker gives up before it is notified."""
    locks = await own_valkey_desk.worker()
    other = await own_valkey_desk.worker()

    async def yield_when_asked():
        while not await is_marked_by(other, olga):
            await asyncio.sleep(0.005)
        await other.release("doc", ana)

    for at in range(100):
        await locks.acquire("doc", ana)
        yielding = asyncio.create_task(yield_when_asked())
        attempt = CancelledAt(locks.force_take("doc", olga), at)
        with suppress(asyncio.CancelledError):
            await attempt
        state = await locks.state("doc")
        await give_up(yielding)
        if not attempt.was_cancelled:
            break
        assert state.taking is None
        assert not state.is_held_by(olga)
        await locks.release("doc", ana)
    assert state.is_held_by(olga)
    assert at > 3


async def test_the_mark_of_a_dead_taker_lapses_and_the_holder_keeps_the_lock(desk, ana, bob, olga):
    locks = await desk.worker(times=HASTY)
    granted = await locks.acquire("doc", ana)
    verdict, marked = await locks._lock_store.take("doc", olga, ask="gone", floor=0, expect_fence=None)
    assert (verdict, marked.version.step) == ("asked", 1)

    async def is_over():
        state = await locks.state("doc")
        # A second more than the holder may save, and then it is as if withdrawn.
        assert (state.taking is None) == (state.read_at >= marked.taking.save_until + 1 - 0.001)
        return state if state.taking is None else None

    state = await eventually_async(is_over)
    assert state.version == (granted.fence, 2)
    assert state.is_held_by(ana)
    await locks.heartbeat("doc", ana)
    assert (await locks.state("doc")).version == (granted.fence, 2)
    await locks.release("doc", ana)
    assert isinstance(await locks.acquire("doc", bob), Granted)


async def test_a_lapsed_mark_is_followed_by_a_new_one(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    granted = await locks.acquire("doc", ana)
    await locks._lock_store.take("doc", olga, ask="gone", floor=0, expect_fence=None)
    await eventually_async(lambda: is_step(locks, 2))
    patient = await desk.worker()
    taking = asyncio.create_task(patient.force_take("doc", olga))
    await eventually_async(lambda: is_step(locks, 3))
    await locks.release("doc", ana)
    taken = await taking
    assert taken.fence > granted.fence


async def is_step(locks, step):
    return (await locks.state("doc")).version.step == step


async def test_a_hand_over_that_is_not_claimed_is_free_again_in_seconds(own_desk, ana, bob, olga):
    locks = await own_desk.worker()
    await locks.acquire("doc", ana)
    await locks._lock_store.take("doc", olga, ask="gone", floor=0, expect_fence=None)
    state = await locks.release("doc", ana)
    assert state.is_held_by(olga)
    assert state.held_until == pytest.approx(state.read_at + 5, abs=0.001)
    # The taker's page may beat, but only the call that asked can claim it: it alone registers the fence.
    is_extended, again = await locks.heartbeat("doc", olga)
    assert is_extended
    assert again.held_until == state.held_until
    granted = await eventually_async(lambda: try_acquire(locks, bob))
    assert granted.fence > state.version.fence
    assert (await locks.history("doc"))[1].reason == "expired"


async def try_acquire(locks, editor):
    outcome = await locks.acquire("doc", editor)
    return outcome if isinstance(outcome, Granted) else None


async def test_a_taker_who_acquires_claims_the_hand_over(locks, desk, ana, olga):
    await locks.acquire("doc", ana)
    await locks._lock_store.take("doc", olga, ask="gone", floor=0, expect_fence=None)
    handed = await locks.release("doc", ana)
    granted = await locks.acquire("doc", olga)
    assert granted.fence == handed.version.fence
    assert granted.state.held_until == pytest.approx(granted.state.read_at + 60, abs=0.001)
    assert desk.host["doc"].fence == granted.fence
    # What the call that is gone may still withdraw is not this.
    verdict, state = await locks._lock_store.withdraw("doc", ask="gone")
    assert verdict == "gone"
    assert state.is_held_by(olga)


async def test_a_taker_does_not_wait_for_other_takers_for_ever(own_valkey_desk, ana, bob, olga):
    """Others mark it again and again and never take it."""
    locks = await own_valkey_desk.worker(times=Times(ttl=60, heartbeat=10, save_within=0.1))
    await locks.acquire("doc", ana)

    async def pester():
        for number in range(1000):
            await locks._lock_store.take("doc", olga, ask=f"pest-{number}", floor=0, expect_fence=None)
            await asyncio.sleep(0.005)

    pestering = asyncio.create_task(pester())
    await eventually_async(lambda: is_marked_by(locks, olga))
    began = time.monotonic()
    busy = await asyncio.wait_for(locks.force_take("doc", bob), LIMIT)
    if isinstance(busy, Busy):
        assert time.monotonic() - began > 3
        assert busy.state.is_held_by(ana)
    await give_up(pestering)


async def test_the_version_at_the_end_is_after_every_other(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    await locks.acquire("doc", ana)
    taken = await locks.force_take("doc", olga)
    state = await locks.release("doc", olga)
    assert state.version == (taken.fence, ENDED)
