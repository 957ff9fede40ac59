"""Events of document locks, in every process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

from tests.documents.cancellation import give_up
from tests.documents.conftest import HASTY, passed
from tests.support.eventually import eventually_async

from leasehold.documents import DocumentLocks, Times
from leasehold.documents.state import ENDED


class EventRecorder:
    """Listens to everything, and can wait for it."""

    def __init__(self, locks: DocumentLocks) -> None:
        self.events = []
        self.gaps = 0
        self.end = locks.listen(self.events.append, self._resumed)

    def _resumed(self) -> None:
        self.gaps += 1

    async def ready(self) -> None:
        await eventually_async(lambda: self.gaps)

    async def kinds(self, count: int) -> list[str]:
        await eventually_async(lambda: len(self.events) >= count)
        return [event.kind.removeprefix("document_") for event in self.events]


async def listening(desk, **options):
    locks = await desk.worker(**options)
    recorder = EventRecorder(locks)
    await recorder.ready()
    return locks, recorder


async def test_every_change_is_published_to_every_process_with_its_state(own_desk, ana, bob, olga):
    # So long that no mark lapses and is made again, however slow the machine.
    locks = await own_desk.worker(times=replace(HASTY, save_within=2))
    _, recorder = await listening(own_desk)
    granted = await locks.acquire("doc", ana)
    taken = await locks.force_take("doc", olga)
    released = await locks.release("doc", olga)
    assert await recorder.kinds(4) == ["locked", "force_save_requested", "force_taken", "unlocked"]
    locked, asked, handed, unlocked = recorder.events
    assert (locked.state, locked.triggered_by, locked.saved) == (granted.state, ana.person, None)
    assert asked.state.version == (granted.fence, 1)
    assert asked.state.taking.by == olga
    assert asked.state.is_held_by(ana)
    assert (asked.triggered_by, asked.saved) == (olga.person, None)
    assert handed.state.version == taken.state.version
    assert handed.state.holder == taken.state.holder
    assert (handed.triggered_by, handed.saved) == (olga.person, False)
    assert (unlocked.state, unlocked.triggered_by, unlocked.saved) == (released, olga.person, None)


async def test_an_event_names_its_document_for_any_name(own_desk, ana):
    locks, recorder = await listening(own_desk)
    document_id = 'ein {Entwurf} %7B "✍"\n'
    own_desk.host.documents[document_id] = own_desk.host["doc"]
    granted = await locks.acquire(document_id, ana)
    await recorder.kinds(1)
    assert recorder.events[0].state == granted.state


async def test_a_call_that_changes_nothing_publishes_no_event(own_desk, ana, bob):
    locks, recorder = await listening(own_desk)
    await locks.acquire("doc", ana)
    await locks.acquire("doc", ana)
    await locks.acquire("doc", bob)
    await locks.heartbeat("doc", ana)
    await locks.heartbeat("doc", bob)
    await locks.release("doc", bob)
    await locks.state("doc")
    await locks.history("doc")
    await locks.release("doc", ana)
    await locks.release("doc", ana)
    await locks.state("doc")
    assert await recorder.kinds(2) == ["locked", "unlocked"]


async def test_a_move_is_published_as_a_new_hold(own_desk, ana, ana_elsewhere):
    locks, recorder = await listening(own_desk)
    await locks.acquire("doc", ana)
    moved = await locks.acquire("doc", ana_elsewhere, move=True)
    assert await recorder.kinds(2) == ["locked", "locked"]
    assert recorder.events[1].state == moved.state


async def test_a_force_take_that_was_given_up_is_published_as_locked_with_a_newer_version(
    own_desk, ana, olga
):
    locks, recorder = await listening(own_desk, times=Times(save_within=30))
    granted = await locks.acquire("doc", ana)
    taking = asyncio.create_task(locks.force_take("doc", olga))
    await recorder.kinds(2)
    await give_up(taking)
    assert await recorder.kinds(3) == ["locked", "force_save_requested", "locked"]
    assert recorder.events[2].state.version == (granted.fence, 2)
    assert recorder.events[2].state.taking is None
    assert recorder.events[2].triggered_by == olga.person


async def test_an_expiry_is_published_once_by_the_first_call_that_finds_it(own_desk, ana, bob):
    locks, recorder = await listening(own_desk, times=Times(ttl=0.2, heartbeat=0.05))
    other = await own_desk.worker()
    granted = await locks.acquire("doc", ana)

    async def is_free():
        return not any(state.is_locked for state in (await locks.state("doc"), await other.state("doc")))

    await eventually_async(is_free)
    await other.acquire("doc", bob)
    assert await recorder.kinds(3) == ["locked", "lock_expired", "locked"]
    expired = recorder.events[1]
    assert expired.state.version == (granted.fence, ENDED)
    assert expired.state.last.ended_at == granted.state.held_until
    assert expired.triggered_by is None


async def test_an_acquire_that_finds_an_expired_hold_publishes_both(own_desk, ana, bob):
    locks, recorder = await listening(own_desk, times=Times(ttl=0.2, heartbeat=0.05))
    granted = await locks.acquire("doc", ana)
    await passed(own_desk.server, granted.state.held_until)
    other = await own_desk.worker()
    await other.acquire("doc", bob)
    assert await recorder.kinds(3) == ["locked", "lock_expired", "locked"]
    assert [event.state.version > granted.state.version for event in recorder.events[1:]] == [True, True]
    assert recorder.events[2].state.is_held_by(bob)


async def test_a_listener_that_fails_does_not_affect_the_others(own_valkey_desk, ana, caplog):
    locks = await own_valkey_desk.worker()

    def fail(*_):
        raise ValueError("not today")

    locks.listen(fail, fail)
    recorder = EventRecorder(locks)
    await recorder.ready()
    await locks.acquire("doc", ana)
    assert await recorder.kinds(1) == ["locked"]
    assert "a listener to document events failed" in caplog.text


async def test_an_unreadable_event_is_dropped(own_valkey_desk, ana):
    locks, recorder = await listening(own_valkey_desk)
    strange = [b"", b"\xff", b"[]", b"{}", b"null", b'{"key": 1}', b'{"key": "doc_lock:{a}", "kind": "x"}']
    hold = {"fence": "many", "step": 0}
    strange.append(json.dumps({"key": "doc_lock:{a}", "kind": "x", "by": None, "saved": None}).encode())
    strange.append(
        json.dumps(
            {
                "key": "doc_lock:{a}",
                "kind": "document_locked",
                "by": None,
                "saved": None,
                "state": {"now_us": 1, "hold": hold},
            }
        ).encode()
    )
    for payload in strange:
        assert own_valkey_desk.server.call("PUBLISH", "doc_lock:events", payload) == 1
    await locks.acquire("doc", ana)
    assert await recorder.kinds(1) == ["locked"]


async def test_a_listener_that_ended_gets_no_events(own_valkey_desk, ana):
    locks, recorder = await listening(own_valkey_desk)
    other = EventRecorder(locks)
    recorder.end()
    recorder.end()
    await locks.acquire("doc", ana)
    await other.kinds(1)
    assert recorder.events == []


async def test_several_locks_on_one_client_all_get_events(own_valkey_desk, ana):
    locks, recorder = await listening(own_valkey_desk)
    other = EventRecorder(DocumentLocks(own_valkey_desk.clients[0], own_valkey_desk.host))
    await other.ready()
    await locks.acquire("doc", ana)
    assert await recorder.kinds(1) == await other.kinds(1) == ["locked"]


async def test_after_a_gap_listeners_are_resumed(own_valkey_desk, proxy, ana, bob):
    front = proxy(own_valkey_desk.server)
    _, recorder = await listening(own_valkey_desk, url=front.url)
    locks = await own_valkey_desk.worker()
    await locks.acquire("doc", ana)
    await recorder.kinds(1)
    before = recorder.gaps
    front.cut()
    await eventually_async(lambda: recorder.gaps > before)
    await locks.release("doc", ana)
    assert (await recorder.kinds(2))[-1] == "unlocked"


async def test_a_listener_that_starts_during_an_outage_gets_events_later(own_valkey_desk, proxy, ana):
    front = proxy(own_valkey_desk.server)
    locks = await own_valkey_desk.worker(url=front.url)
    front.refuse(accept_first=True)
    front.cut()
    refused = front.connections
    recorder = EventRecorder(locks)
    await eventually_async(lambda: front.connections > refused)
    assert not recorder.gaps
    front.refuse(False)
    await recorder.ready()
    await locks.acquire("doc", ana)
    assert await recorder.kinds(1) == ["locked"]


async def test_without_pub_sub_listeners_are_resumed_every_second(lent_desk):
    locks, recorder = await listening(lent_desk)
    await eventually_async(lambda: recorder.gaps >= 3)
    recorder.end()
    await eventually_async(locks._events._listening.done)
    assert recorder.events == []
