"""Document locks under faults of the store and of processes."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest
from tests.documents.conftest import HASTY
from tests.documents.host import Document
from tests.documents.test_locks_events import EventRecorder
from tests.support.eventually import LIMIT, eventually, eventually_async

from leasehold import StoreRefused, StoreUnavailable
from leasehold.documents import Busy, DocumentLocks, Granted, Save
from leasehold.documents.state import ENDED
from leasehold.documents.store import scripts


async def is_marked(locks):
    return (await locks.state("doc")).taking is not None


async def take_and_die(_parent, url):
    """A worker that takes two documents by force, and is killed as soon as both holders have been asked to save."""
    import asyncio
    import os
    import signal

    from tests.documents.host import DictStore

    import leasehold
    from leasehold.documents import DocumentLocks, Editor, Times
    from leasehold.documents.store.lock_store import DocumentLockStore

    take, asked = DocumentLockStore.take, set()

    async def look(lock_store, document_id, *args, **options):
        answer = await take(lock_store, document_id, *args, **options)
        asked.add(document_id)
        if len(asked) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    DocumentLockStore.take = look
    olga = Editor("user-olga", "Olga", "tab-1")
    async with leasehold.connect(url) as client:
        await asyncio.gather(
            *[
                DocumentLocks(client, DictStore(name), times=Times(save_within=within)).force_take(name, olga)
                for name, within in (("doc", 5), ("other", 30))
            ]
        )


async def test_a_taker_whose_process_is_killed_leaves_the_lock_usable(own_valkey_desk, spawn, ana, bob, olga):
    """One of two documents is marked and stays so for a while; the other one is handed over, and free in seconds."""
    desk = own_valkey_desk
    desk.host.documents["other"] = Document()
    locks = await desk.worker()
    kept, handed = await locks.acquire("doc", ana), await locks.acquire("other", ana)
    child = spawn(take_and_die, desk.server.url)
    assert await asyncio.to_thread(child.wait, LIMIT) == -signal.SIGKILL, child.stderr()

    is_extended, state = await locks.heartbeat("doc", ana)
    assert is_extended
    assert state.version == (kept.fence, 1)
    save_until = state.taking.save_until

    answer = await locks.save(Save("other", ana, "saved in time", 0, handed.fence), release=True)
    assert answer.lock_lost is False
    assert (await locks.state("other")).is_held_by(olga)
    assert isinstance(await locks.acquire("other", bob), Busy)
    again = await eventually_async(lambda: has_acquired(locks, bob, "other"))
    assert again.content_version == 1
    assert (await locks.history("other"))[1].reason == "expired"

    async def unmarked():
        state = await locks.state("doc")
        assert (state.taking is None) == (state.read_at >= save_until + 1 - 0.001)
        return state if state.taking is None else None

    state = await eventually_async(unmarked)
    assert state.version == (kept.fence, 2)
    assert state.is_held_by(ana)
    await locks.save(Save("doc", ana, "nothing lost", 0, kept.fence), release=True)
    assert isinstance(await locks.acquire("doc", bob), Granted)
    assert desk.host["doc"].versions[-1] == "nothing lost"


async def has_acquired(locks, editor, document_id):
    outcome = await locks.acquire(document_id, editor)
    return outcome if isinstance(outcome, Granted) else None


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_verb_whose_reply_was_lost_is_repeated(own_valkey_desk, proxy, ana, ana_elsewhere, bob, when):
    front = proxy(own_valkey_desk.server)
    locks = await own_valkey_desk.worker(url=front.url)

    def cut(script):
        return (front.cut_before_request if when == "before" else front.cut_after_request)(script.sha)

    sprung = cut(scripts.ACQUIRE)
    granted = await locks.acquire("doc", ana)
    assert granted.state.version == (granted.fence, 0)
    assert sprung.wait(LIMIT)

    sprung = cut(scripts.ACQUIRE)
    moved = await locks.acquire("doc", ana_elsewhere, move=True)
    assert [hold.fence for hold in await locks.history("doc")] == [moved.fence, granted.fence]
    assert sprung.wait(LIMIT)

    sprung = cut(scripts.HEARTBEAT)
    assert (await locks.heartbeat("doc", ana_elsewhere))[0]
    assert sprung.wait(LIMIT)

    sprung = cut(scripts.INSPECT)
    assert (await locks.state("doc")).version == moved.state.version
    assert sprung.wait(LIMIT)

    sprung = cut(scripts.RELEASE)
    answer = await locks.save(Save("doc", ana_elsewhere, "words", 0, moved.fence), release=True)
    assert answer.lock_lost is False
    assert sprung.wait(LIMIT)

    sprung = cut(scripts.HISTORY)
    assert len(await locks.history("doc")) == 2
    assert sprung.wait(LIMIT)
    assert isinstance(await locks.acquire("doc", bob), Granted)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("script", [scripts.TAKE, scripts.CLAIM], ids=["take", "claim"])
async def test_a_force_take_goes_on_after_a_lost_reply(own_valkey_desk, proxy, ana, olga, script, when):
    front = proxy(own_valkey_desk.server)
    locks = await own_valkey_desk.worker(times=HASTY, url=front.url)
    granted = await locks.acquire("doc", ana)
    cut = front.cut_before_request if when == "before" else front.cut_after_request
    sprung = cut(script.sha)
    taken = await locks.force_take("doc", olga)
    assert sprung.wait(LIMIT)
    assert taken.saved is False
    assert taken.fence > granted.fence
    assert (await locks.state("doc")).version == taken.state.version
    assert len(await locks.history("doc")) == 2


async def test_a_force_take_that_loses_the_store_raises_and_its_mark_expires(
    own_valkey_desk, proxy, ana, olga
):
    front = proxy(own_valkey_desk.server)
    locks = await own_valkey_desk.worker()
    granted = await locks.acquire("doc", ana)
    slow = await own_valkey_desk.worker(url=front.url)
    taking = asyncio.create_task(slow.force_take("doc", olga))
    await eventually_async(lambda: is_marked(locks))
    front.refuse()
    front.cut()
    with pytest.raises(StoreUnavailable):
        await taking
    state = await locks.state("doc")
    assert state.is_held_by(ana)
    assert state.version.fence == granted.fence
    front.refuse(False)


async def test_a_force_take_survives_a_short_cut(own_valkey_desk, proxy, ana, olga):
    front = proxy(own_valkey_desk.server)
    taker = await own_valkey_desk.worker(url=front.url)
    locks = await own_valkey_desk.worker()
    granted = await locks.acquire("doc", ana)
    taking = asyncio.create_task(taker.force_take("doc", olga))
    await eventually_async(lambda: is_marked(locks))
    front.cut()
    await locks.save(Save("doc", ana, "words", 0, granted.fence), release=True)
    taken = await asyncio.wait_for(taking, LIMIT)
    assert (taken.saved, taken.content_version) == (True, 1)


async def test_a_force_take_works_although_every_push_is_lost(own_valkey_desk, proxy, ana, olga):
    front = proxy(own_valkey_desk.server)
    front.drop_pushes()
    taker = await own_valkey_desk.worker(url=front.url)
    locks = await own_valkey_desk.worker()
    granted = await locks.acquire("doc", ana)
    taking = asyncio.create_task(taker.force_take("doc", olga))
    await eventually_async(lambda: is_marked(locks))
    await locks.save(Save("doc", ana, "words", 0, granted.fence), release=True)
    taken = await asyncio.wait_for(taking, LIMIT)
    assert taken.saved is True
    assert front.pushes_dropped


@pytest.mark.every_way_in
async def test_scripts_are_loaded_again_into_a_server_that_lost_them(desk, ana, bob, olga):
    locks = await desk.worker(times=HASTY)

    def forget():
        desk.server.call("SCRIPT", "FLUSH")

    forget()
    granted = await locks.acquire("doc", ana)
    forget()
    assert (await locks.heartbeat("doc", ana))[0]
    forget()
    assert [state.is_locked for state in await locks.states(["doc", "other"])] == [True, False]
    forget()
    assert (await locks.force_take("doc", olga)).fence > granted.fence
    forget()
    assert len(await locks.history("doc")) == 2
    forget()
    assert not (await locks.release("doc", olga)).is_locked


@pytest.mark.parametrize(
    "record",
    ["nonsense", '"text"', "7", "[]", '{"version":2}', "{}"],
    ids=lambda record: record.strip('"{}[]'),
)
@pytest.mark.every_way_in
async def test_an_unreadable_record_is_refused_and_not_changed(locks, desk, ana, olga, record):
    desk.server.call("SET", "doc_lock:{doc}", record, "PX", 60_000)
    for verb in (locks.acquire, locks.heartbeat, locks.release, locks.force_take):
        with pytest.raises(StoreRefused, match="another version"):
            await verb("doc", ana)
    for ask in (locks.state, locks.history):
        with pytest.raises(StoreRefused):
            await ask("doc")
    assert desk.server.call("GET", "doc_lock:{doc}") == record.encode()


async def test_an_unreadable_history_is_refused(locks, desk, ana):
    await locks.acquire("doc", ana)
    await locks.release("doc", ana)
    desk.server.call("LSET", "doc_lock:{doc}:history", 0, "nonsense")
    for ask in (locks.state, locks.history):
        with pytest.raises(StoreRefused):
            await ask("doc")
    assert isinstance(await locks.acquire("doc", ana), Granted)


async def test_a_key_of_another_type_is_refused_and_not_changed(locks, desk, ana):
    desk.server.call("RPUSH", "doc_lock:{doc}", "something")
    desk.server.call("PEXPIRE", "doc_lock:{doc}", 60_000)
    with pytest.raises(StoreRefused):
        await locks.acquire("doc", ana)
    assert desk.server.call("LRANGE", "doc_lock:{doc}", 0, -1) == [b"something"]


async def test_one_unreadable_record_does_not_hide_the_others(locks, desk, ana, caplog):
    await locks.acquire("doc", ana)
    desk.server.call("SET", "doc_lock:{broken}", '{"version":99}', "PX", 60_000)
    states = await locks.states(["broken", "doc", "free"])
    assert [state.document_id for state in states] == ["doc", "free"]
    assert "'broken' cannot be read" in caplog.text


@pytest.mark.every_way_in
async def test_many_states_of_a_store_that_is_away_are_unknown(valkey_desk, proxy):
    front = proxy(valkey_desk.server)
    locks = await valkey_desk.worker(url=front.url)
    await locks.states(["doc"])
    front.refuse()
    front.cut()
    with pytest.raises(StoreUnavailable):
        await locks.states(["doc"])


@pytest.mark.every_way_in
async def test_after_a_flush_fences_and_versions_grow(desk, ana, bob):
    locks = await desk.worker()
    granted = await locks.acquire("doc", ana)
    desk.server.call("FLUSHALL")
    state = await locks.state("doc")
    assert not state.is_locked
    assert state.version > granted.state.version
    is_extended, _ = await locks.heartbeat("doc", ana)
    assert not is_extended
    again = await locks.acquire("doc", bob)
    assert again.state.version > state.version
    late = await locks.save(Save("doc", ana, "late", 0, granted.fence))
    assert (late.outcome.reason, late.lock_lost) == ("stale_fence", True)


async def test_after_a_restart_from_an_older_snapshot_fences_grow(own_server, own_valkey_desk, ana, bob):
    server = own_server()
    locks = await own_valkey_desk.worker(url=server.url)
    first = await locks.acquire("doc", ana)
    snapshot = server.save_snapshot()
    await locks.release("doc", ana)
    second = await locks.acquire("doc", bob)
    await locks.release("doc", bob)
    server.restart_from_snapshot(snapshot)

    async def reached():
        try:
            return await locks.state("doc")
        except StoreUnavailable:
            return None

    state = await eventually_async(reached)
    assert state.version.fence == first.fence
    await locks.release("doc", ana)
    third = await locks.acquire("doc", bob)
    assert third.fence > second.fence > first.fence


async def test_a_server_without_memory_grants_nothing_but_extends_holds(own_server, own_desk, ana, bob):
    server = own_server(maxmemory="100mb")
    locks = await own_desk.worker(url=server.url)
    own_desk.host.documents["other"] = own_desk.host["doc"]
    granted = await locks.acquire("doc", ana)
    server.call("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(StoreRefused):
        await locks.acquire("other", bob)
    assert (await locks.heartbeat("doc", ana))[0]
    assert isinstance(await locks.acquire("doc", bob), Busy)
    state = await locks.release("doc", ana)
    assert state.version == (granted.fence, ENDED)
    assert state.last.reason == "released"
    server.call("CONFIG", "SET", "maxmemory", "100mb")
    assert not (await locks.state("other")).is_locked
    assert isinstance(await locks.acquire("other", bob), Granted)


async def test_a_user_who_may_not_publish_can_still_edit(own_server, own_desk, ana, olga):
    """Events are hints: without them everything is merely slower."""
    server = own_server(user=["mute on >pw ~* resetchannels +@all"])
    locks = await own_desk.worker(times=HASTY, url=server.url_for(username="mute", password="pw"))
    recorder = EventRecorder(locks)
    await locks.acquire("doc", ana)
    assert (await locks.force_take("doc", olga)).saved is False
    await locks.release("doc", olga)
    other = EventRecorder(DocumentLocks(own_desk.clients[0], own_desk.host))
    for each in (recorder, other):
        await eventually_async(lambda each=each: each.gaps >= 2)
        assert each.events == []
        each.end()


async def test_an_event_has_the_whole_state(desk, ana):
    """The hold is in the event as it is stored, so that listeners need not read it."""
    locks = await desk.worker()
    with desk.server.admin() as admin:
        channel = admin.pubsub(ignore_subscribe_messages=True)
        channel.subscribe("doc_lock:events")
        eventually(lambda: desk.server.call("PUBSUB", "NUMSUB", "doc_lock:events")[1])
        granted = await locks.acquire("doc", ana)
        message = eventually(lambda: channel.get_message(timeout=0.1))
        event = json.loads(message["data"])
        assert event["key"] == "doc_lock:{doc}"
        assert event["state"]["hold"]["fence"] == str(granted.fence)
        channel.close()
