"""The hub sends newer states only, and to each viewer its own form of them."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.documents.host import DictStore
from tests.documents.workers import TIMES, Roles
from tests.support.eventually import eventually_async

import leasehold
from leasehold import StoreRefused, StoreUnavailable
from leasehold.documents import DocumentLocks, Editor, Event, Hold, Holder, LockState, Taking, Version
from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.live.expiry_timers import ExpiryTimers
from leasehold.documents.live.hub import Hub
from leasehold.documents.live.messages import FROM_SERVER, CloseCode
from leasehold.documents.live.rendering import EventRenderer, infer_event
from leasehold.documents.live.worker_notices import WorkerNotices
from leasehold.documents.state import ENDED

ANA, ANA_ELSEWHERE = Editor("ana", "Ana", "tab-1"), Editor("ana", "Ana", "tab-2")
OLGA, BOB = Editor("olga", "Olga", "tab-1"), Editor("bob", "Bob", "tab-1")


def held(
    by: Editor = ANA, *, fence: int = 5, step: int = 0, taker: Editor | None = None, read_at: float = 100
):
    taking = None if taker is None else Taking(taker, read_at + 3)
    return LockState("doc", Version(fence, step), read_at, Holder(by, 90.0), read_at + 45, taking)


def free(*, fence: int = 5, reason: str | None = "released", by: Editor | None = ANA, read_at: float = 100):
    last = None
    if reason is not None:
        last = Hold(fence, ANA.person, 90.0, read_at, reason, None if by is None else by.person)
    return LockState("doc", Version(fence, ENDED), read_at, last=last)


@pytest.mark.parametrize(
    ("known", "now", "kind", "by"),
    [
        pytest.param(free(), held(fence=6), "document_locked", ANA, id="acquired"),
        pytest.param(held(), free(), "document_unlocked", ANA, id="released"),
        pytest.param(held(), free(reason="idle"), "document_unlocked", ANA, id="idle"),
        pytest.param(held(), free(by=None), "document_unlocked", ANA, id="released, by an unknown user"),
        pytest.param(held(), free(reason="expired", by=None), "document_lock_expired", None, id="expired"),
        pytest.param(held(), held(step=1, taker=OLGA), "document_force_save_requested", OLGA, id="marked"),
        pytest.param(held(step=1, taker=OLGA), held(step=2), "document_locked", ANA, id="mark withdrawn"),
        pytest.param(
            held(step=1, taker=OLGA), held(OLGA, fence=6), "document_force_taken", OLGA, id="taken"
        ),
        pytest.param(
            held(step=1, taker=OLGA), held(BOB, fence=7), "document_locked", BOB, id="marked, and then another"
        ),
        pytest.param(held(), held(ANA_ELSEWHERE, fence=6), "document_locked", ANA, id="moved"),
        pytest.param(held(), held(BOB, fence=7), "document_locked", BOB, id="another one"),
        pytest.param(
            held(), held(BOB, fence=7, step=1, taker=OLGA), "document_force_save_requested", OLGA,
            id="another one, marked",
        ),
        pytest.param(held(), free(fence=9, reason=None), "document_unlocked", None, id="all is forgotten"),
        pytest.param(free(), free(fence=9), "document_unlocked", ANA, id="held and released in between"),
    ],
)  # fmt: skip
def test_a_lost_event_is_inferred_from_the_states(known, now, kind, by) -> None:
    event = infer_event(known, now)
    assert (event.kind, event.state, event.saved) == (kind, now, None)
    assert event.triggered_by == (by and by.person)


def test_a_free_lock_that_the_store_has_lost_is_no_event() -> None:
    assert infer_event(free(), free(fence=9, reason=None)) is None
    assert infer_event(free(reason=None), free(fence=9, reason=None)) is None


def test_each_viewer_sees_whether_it_is_the_holder() -> None:
    news = EventRenderer(Event("document_locked", held(), ANA.person))
    texts = [news.for_others(), news.for_holder(ANA_ELSEWHERE), news.for_holder(ANA)]
    seen = []
    for text in texts:
        message = FROM_SERVER.validate_json(text)
        assert message.data.lock_holder == message.data.lock.lock_holder
        seen.append((message.data.lock_holder.same_user, message.data.lock_holder.tab_is_mine))
        assert "tab-1" not in text
    assert seen == [(False, False), (True, False), (True, True)]


def test_a_change_is_rendered_once_for_all_others() -> None:
    news = EventRenderer(Event("document_locked", held(), ANA.person))
    assert news.for_others() is news.for_others()
    assert news.for_holder(ANA) is news.for_holder(replace(ANA))


class Watcher:
    """Stands in for a socket: keeps the messages and the close code."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.outbox = self
        self.told: list[dict] = []
        self.code: CloseCode | None = None

    def close(self, code) -> None:
        self.code = code

    def publish(self, topic, text) -> None:
        assert topic == "doc"
        self.told.append(json.loads(text))

    @property
    def kinds(self) -> list[str]:
        return [message["type"] for message in self.told]


@asynccontextmanager
async def watched(valkey):
    """A hub without a subscription, the document's room, and a watcher."""
    async with leasehold.connect(valkey.url) as client:
        documents = DocumentLocks(client, DictStore("doc"), times=TIMES)
        hub = Hub(
            documents,
            permissions=PermissionCheck(Roles()),
            notices=WorkerNotices(client.store_access.transport),
        )
        watcher = Watcher(BOB)
        async with hub.joining("doc") as room:
            room.members.add(watcher)
        try:
            yield hub, room, watcher
        finally:
            await hub.close()


def newest(room, **changes) -> LockState:
    """A state that is newer than that of the room."""
    version = Version(room.state.version.fence + 1000, 0)
    return replace(held(read_at=room.state.read_at + 1), version=version, **changes)


async def test_a_state_that_is_not_newer_is_dropped(valkey) -> None:
    async with watched(valkey) as (hub, room, watcher):
        state = newest(room)
        learn_late = hub.begin_read()  # what it reads may be from before
        hub.on_event(Event("document_locked", state, ANA.person))
        assert watcher.kinds == ["document_locked"]
        hub.on_event(Event("document_locked", state, ANA.person))
        fence = state.version.fence
        older = [
            replace(state, version=Version(fence - 1, 0)),
            replace(state, version=Version(fence - 1, ENDED), holder=None, held_until=None),
            replace(
                state, version=Version(0, ENDED), holder=None, held_until=None, read_at=state.read_at + 9
            ),
        ]
        for each in older:
            hub.on_event(Event("document_unlocked", each, ANA.person))
            learn_late(each)
        assert watcher.kinds == ["document_locked"]
        assert room.state == state
        assert watcher.code is None


async def test_a_read_after_the_last_update_is_right_although_it_is_older(valkey) -> None:
    """The store has lost data. Watchers would drop the older state, and so have to reconnect."""
    async with watched(valkey) as (hub, room, watcher):
        state = newest(room)
        hub.on_event(Event("document_locked", state, ANA.person))
        # The clock of the machine that took over may be behind, too.
        before = replace(
            state,
            version=Version(state.version.fence - 1, 0),
            holder=Holder(OLGA, 80.0),
            read_at=70,
            held_until=75,
        )
        hub.begin_read()(before)
        assert room.state == before
        assert watcher.kinds == ["document_locked"]
        assert watcher.code == CloseCode.GOING_AWAY
        (timer,) = hub._timers._timers.values()
        assert timer.when() - asyncio.get_running_loop().time() < 6  # the end of Olga's hold, not of Ana's
        hub.on_event(Event("document_locked", state, ANA.person))
        assert room.state == state  # from a process that is behind; the next read corrects it


async def test_a_read_that_was_overtaken_by_another_counts_only_if_it_is_newer(valkey) -> None:
    async with watched(valkey) as (hub, room, watcher):
        first, second = hub.begin_read(), hub.begin_read()
        state = newest(room)
        older = replace(state, version=Version(state.version.fence - 1, 0))
        second(state)
        first(older)
        assert room.state == state
        assert watcher.code is None
        newer = replace(
            state, version=Version(state.version.fence, 1), taking=Taking(OLGA, state.read_at + 3)
        )
        first(newer)
        assert room.state == newer
        assert watcher.kinds == ["document_locked", "document_force_save_requested"]


async def test_steps_of_one_hold_come_in_their_order(valkey) -> None:
    async with watched(valkey) as (hub, room, watcher):
        state = newest(room)
        fence = state.version.fence
        marked = replace(state, version=Version(fence, 1), taking=Taking(OLGA, state.read_at + 3))
        ended = replace(state, version=Version(fence, ENDED), holder=None, held_until=None)
        hub.on_event(Event("document_force_save_requested", marked, OLGA.person))
        hub.on_event(Event("document_locked", state, ANA.person))
        hub.on_event(Event("document_unlocked", ended, ANA.person))
        hub.on_event(Event("document_force_save_requested", marked, OLGA.person))
        assert watcher.kinds == ["document_force_save_requested", "document_unlocked"]


async def test_an_extended_hold_is_no_event_but_updates_the_state(valkey) -> None:
    async with watched(valkey) as (hub, room, watcher):
        state = newest(room)
        learn = hub.begin_read()
        learn(state)
        extended = replace(state, read_at=state.read_at + 10, held_until=state.held_until + 10)
        learn(extended)
        assert room.state == extended
        learn(state)
        assert room.state == extended
        assert watcher.kinds == ["document_locked"]


async def test_a_hold_that_was_shortened_in_the_store_is_read_when_it_ends(valkey, ana) -> None:
    """The timer is that of the newest state, and the state that it reads is sent, although no event came."""
    async with watched(valkey) as (hub, _, watcher):
        granted = await hub.documents.acquire("doc", ana)
        hub.begin_read()(granted.state)
        valkey.call("DEL", "doc_lock:{doc}", "doc_lock:{doc}:history", "doc_lock:{doc}:held_until")
        hub.begin_read()(
            replace(granted.state, read_at=granted.state.read_at + 1, held_until=granted.state.read_at + 1.01)
        )
        await eventually_async(lambda: watcher.kinds == ["document_locked", "document_unlocked"])


async def test_an_empty_room_is_removed_with_its_timer(valkey, ana) -> None:
    async with watched(valkey) as (hub, _, watcher):
        hub.begin_read()((await hub.documents.acquire("doc", ana)).state)
        assert hub._timers._timers
        hub.leave(watcher, "doc")
        assert not hub._rooms
        assert not hub._timers._timers
        hub.leave(watcher, "doc")


async def test_a_document_that_is_not_watched_has_no_state(valkey) -> None:
    async with watched(valkey) as (hub, _, watcher):
        hub.on_event(Event("document_locked", replace(held(), document_id="other"), ANA.person))
        assert list(hub._rooms) == ["doc"]
        assert not watcher.told


async def test_a_join_that_fails_leaves_no_room_behind(valkey, own_server) -> None:
    server = own_server("valkey9")
    async with leasehold.connect(server.url, timeout=0.3) as client:
        documents = DocumentLocks(client, DictStore("doc"), times=TIMES)
        hub = Hub(
            documents,
            permissions=PermissionCheck(Roles()),
            notices=WorkerNotices(client.store_access.transport),
        )
        server.kill()
        with pytest.raises(StoreUnavailable):
            async with hub.joining("doc"):
                pass
        assert not hub._rooms


class Reading:
    """Answers reads as given, and keeps what was read."""

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []
        self.learnt: list[str] = []
        self.let_go = asyncio.Event()
        self.let_go.set()

    async def read(self, document_ids):
        self.asked.append(list(document_ids))
        await self.let_go.wait()
        answer = self.answers.pop(0) if self.answers else set(document_ids)
        if isinstance(answer, Exception):
            raise answer
        return [replace(free(), document_id=each) for each in document_ids if each in answer]

    def learn(self, state) -> None:
        self.learnt.append(state.document_id)


@asynccontextmanager
async def looking(*answers):
    reading = Reading(*answers)
    timers = ExpiryTimers(reading.read, lambda: reading.learn)
    try:
        yield reading, timers
    finally:
        await timers.close()


async def test_a_read_is_repeated_until_the_store_answers() -> None:
    failures = [StoreUnavailable("away")] * 3
    async with looking(*failures) as (reading, timers):
        timers.read_now(["a", "b"])
        await eventually_async(lambda: reading.learnt == ["a", "b"])
        assert reading.asked == [["a", "b"]] * 4


async def test_one_unreadable_lock_does_not_hide_the_others() -> None:
    async with looking(StoreRefused("what is this?"), StoreRefused("what is this?")) as (reading, timers):
        timers.read_now(["bad", "good", "better"])
        await eventually_async(lambda: reading.learnt == ["good", "better"])
        assert reading.asked == [["bad", "good", "better"], ["bad"], ["good"], ["better"]]
        assert list(timers._timers) == ["bad"]  # it will be asked again


async def test_an_unreadable_lock_is_read_again_later(monkeypatch) -> None:
    monkeypatch.setattr("leasehold.documents.live.expiry_timers._UNREADABLE_EVERY", 0.05)
    async with looking({"good"}, set()) as (reading, timers):
        timers.read_now(["bad", "good"])
        await eventually_async(lambda: reading.learnt == ["good", "bad"])
        assert reading.asked == [["bad", "good"], ["bad"], ["bad"]]


async def test_many_due_locks_are_read_in_batches() -> None:
    async with looking() as (reading, timers):
        timers.read_now([str(number) for number in range(250)])
        await eventually_async(lambda: len(reading.learnt) == 250)
        assert [len(batch) for batch in reading.asked] == [100, 100, 50]


async def test_a_lock_requested_during_its_read_is_read_again() -> None:
    """The answer that is on its way may be from before the change that was missed."""
    async with looking() as (reading, timers):
        reading.let_go.clear()
        timers.read_now(["a", "b"])
        await eventually_async(lambda: reading.asked)
        timers.read_now(["b", "c"])
        reading.let_go.set()
        await eventually_async(lambda: reading.learnt == ["a", "b", "b", "c"])
        assert reading.asked == [["a", "b"], ["b", "c"]]


async def test_locks_of_a_failed_read_come_before_later_ones() -> None:
    async with looking(StoreUnavailable("away")) as (reading, timers):
        reading.let_go.clear()
        timers.read_now(["a", "b"])
        await eventually_async(lambda: reading.asked)
        timers.read_now(["b", "c"])
        reading.let_go.set()
        await eventually_async(lambda: reading.learnt == ["a", "b", "c"])
        assert reading.asked == [["a", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("answer", [set(), StoreUnavailable("away")], ids=["unreadable", "unavailable"])
async def test_a_lock_dropped_during_its_read_is_not_read_again(answer) -> None:
    async with looking(answer) as (reading, timers):
        reading.let_go.clear()
        timers.read_now(["gone"])
        await eventually_async(lambda: reading.asked)
        timers.drop("gone")
        reading.let_go.set()
        await eventually_async(lambda: timers._reading is None)
        assert not timers._timers
        assert reading.asked == [["gone"]]


async def test_a_lock_is_read_when_its_mark_lapses_and_when_its_hold_ends() -> None:
    async with looking() as (_, timers):
        loop = asyncio.get_running_loop()
        for state, left in ((held(), 45), (held(step=1, taker=OLGA), 4)):
            before = loop.time()
            timers.set(state)
            (timer,) = timers._timers.values()
            assert before + left <= timer.when() <= loop.time() + left + 0.5
        timers.set(free())
        assert not timers._timers
