"""The history of a document: its holds, their times, and why they ended."""

from __future__ import annotations

import pytest
from tests.documents.conftest import HASTY
from tests.support.eventually import eventually_async

from leasehold import InvalidRequest
from leasehold.documents import Hold, Person, Times


@pytest.mark.every_way_in
async def test_every_reason_is_stored_with_its_exact_times(desk, ana, ana_elsewhere, bob, olga):
    locks = await desk.worker(times=HASTY)
    short = await desk.worker(times=Times(ttl=0.2, heartbeat=0.05))
    people = {editor.user_id: editor.person for editor in (ana, bob, olga)}

    first = await locks.acquire("doc", ana)
    moved = await locks.acquire("doc", ana_elsewhere, move=True)
    taken = await locks.force_take("doc", olga)
    released = await locks.release("doc", olga)
    idle = await locks.acquire("doc", bob)
    gone_idle = await locks.release("doc", bob, reason="idle")
    crashed = await short.acquire("doc", ana)
    await eventually_async(lambda: is_free(locks))
    last = await locks.acquire("doc", bob)

    held_since = {
        granted.fence: granted.state.holder.acquired_at for granted in (first, moved, idle, crashed)
    }
    history = await locks.history("doc")
    assert [hold.reason for hold in history] == [None, "expired", "idle", "released", "taken", "moved"]
    assert [hold.fence for hold in history] == sorted({hold.fence for hold in history}, reverse=True)
    assert history == [
        Hold(last.fence, people["user-bob"], last.state.holder.acquired_at, None, None, None),
        Hold(
            crashed.fence,
            people["user-ana"],
            held_since[crashed.fence],
            crashed.state.held_until,
            "expired",
            None,
        ),
        Hold(
            idle.fence,
            people["user-bob"],
            held_since[idle.fence],
            gone_idle.last.ended_at,
            "idle",
            people["user-bob"],
        ),
        Hold(
            taken.fence,
            people["user-olga"],
            taken.state.holder.acquired_at,
            released.last.ended_at,
            "released",
            people["user-olga"],
        ),
        Hold(
            moved.fence,
            people["user-ana"],
            held_since[moved.fence],
            taken.state.holder.acquired_at,
            "taken",
            people["user-olga"],
        ),
        Hold(
            first.fence,
            people["user-ana"],
            held_since[first.fence],
            held_since[moved.fence],
            "moved",
            people["user-ana"],
        ),
    ]
    assert gone_idle.last == history[2]
    assert released.read_at == pytest.approx(released.last.ended_at, abs=0.001)


async def is_free(locks):
    return not (await locks.state("doc")).is_locked


async def test_a_heartbeat_moves_the_end_that_an_expiry_is_stored_with(desk, ana):
    locks, short = await desk.worker(), await desk.worker(times=Times(ttl=0.3, heartbeat=0.1))
    granted = await locks.acquire("doc", ana)
    is_extended, state = await short.heartbeat("doc", ana)
    assert is_extended
    await eventually_async(lambda: is_free(locks))
    (hold,) = await locks.history("doc")
    assert hold.ended_at == state.held_until < granted.state.held_until


async def test_reading_the_history_stores_an_expiry(desk, ana):
    locks = await desk.worker(times=Times(ttl=0.2, heartbeat=0.05))
    await locks.acquire("doc", ana)

    async def has_ended():
        (hold,) = await locks.history("doc")
        return hold.reason

    assert await eventually_async(has_ended) == "expired"


async def test_the_history_is_newest_first_and_limited(locks, ana):
    fences = []
    for _ in range(5):
        fences.append((await locks.acquire("doc", ana)).fence)
        await locks.release("doc", ana)
    assert [hold.fence for hold in await locks.history("doc", limit=3)] == fences[:1:-1]
    assert [hold.fence for hold in await locks.history("doc")] == fences[::-1]


async def test_two_hundred_are_kept(own_desk, ana):
    locks = await own_desk.worker()
    for _ in range(203):
        latest = await locks.acquire("doc", ana)
        await locks.release("doc", ana)
    history = await locks.history("doc", limit=200)
    assert len(history) == 200
    assert history[0].fence == latest.fence
    assert own_desk.server.call("LLEN", "doc_lock:{doc}:history") == 200


@pytest.mark.parametrize("limit", [0, -1, 201])
async def test_an_impossible_limit_is_refused(valkey_locks, limit):
    with pytest.raises(InvalidRequest):
        await valkey_locks.history("doc", limit=limit)


async def test_a_document_that_was_never_held_has_no_history(locks):
    assert await locks.history("doc") == []


async def test_a_history_deleted_by_hand_stops_no_verb(locks, desk, ana, bob):
    granted = await locks.acquire("doc", ana)
    desk.server.call("DEL", "doc_lock:{doc}:history")
    state = await locks.release("doc", ana)
    assert state.last is None
    assert state.version.fence == granted.fence
    again = await locks.acquire("doc", bob)
    assert again.fence > granted.fence
    assert [hold.person for hold in await locks.history("doc")] == [Person("user-bob", "Bob")]


async def test_every_key_expires(desk, ana, olga):
    locks = await desk.worker(times=HASTY)
    await locks.acquire("doc", ana)
    await locks._lock_store.take("doc", olga, ask="gone", floor=0, expect_fence=None)
    with desk.server.admin() as admin:
        keys = sorted(admin.scan_iter("*"))
        assert keys == [
            b"doc_lock:{doc}",
            b"doc_lock:{doc}:fence",
            b"doc_lock:{doc}:held_until",
            b"doc_lock:{doc}:history",
        ]
        ends = {key: admin.pttl(key) / 1000 for key in keys}
        assert 0 < ends[b"doc_lock:{doc}"] <= 60
        assert 0 < ends[b"doc_lock:{doc}:fence"] <= 2 * 86400
        assert 0 < ends[b"doc_lock:{doc}:held_until"] <= 90 * 86400
        assert 0 < ends[b"doc_lock:{doc}:history"] <= 90 * 86400
        await locks.release("doc", ana)
        assert all(admin.pttl(key) > 0 for key in admin.scan_iter("*"))
        await locks.release("doc", olga)
        assert sorted(admin.scan_iter("*")) == [b"doc_lock:{doc}:fence", b"doc_lock:{doc}:history"]
        assert all(admin.pttl(key) > 0 for key in admin.scan_iter("*"))
