"""Listing: locks with a holder or waiters, by pattern, and nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.contract.queues import LONG, end_hold, join, run_out, token

from leasehold import InvalidRequest

ODD = [
    *[
        "{}",
        "{a}",
        "a}:fence",
        "}{",
        "%",
        "%7B",
        "100%",
        "%s",
        "a*b",
        "a?b",
        "[ab]",
        "a\\b",
        "\\*",
        "^",
        "[^a]",
    ],
    *[
        "a\nb",
        "\r\n",
        "\t",
        "\x01",
        "\x7f",
        "\x85",
        "é",
        "e\u0301",
        "😀",
        "\u2028",
        " ",
        "a b",
        "lock:{a}",
        ":fence",
    ],
    *["x" * 512, "{" * 512, "😀" * 128],
]


async def names_of(locks, pattern="*"):
    return sorted(info.name for info in await locks.list(pattern))


@pytest.mark.topologies
@pytest.mark.decoded
async def test_locks_are_listed_by_pattern(locks, rival):
    for name in ("deal:1", "deal:2", "deal:30", "doc:1", "Deal:1", "deal"):
        await rival.acquire(name, ttl=60)
    for pattern, expected in {
        "deal:*": ["deal:1", "deal:2", "deal:30"],
        "deal:?": ["deal:1", "deal:2"],
        "d*:1": ["deal:1", "doc:1"],
        "deal:[13]*": ["deal:1", "deal:30"],
        "deal:[^1]*": ["deal:2", "deal:30"],
        "deal:[1-2]": ["deal:1", "deal:2"],
        "[dD]eal:1": ["Deal:1", "deal:1"],
        "deal": ["deal"],
        "*": ["Deal:1", "deal", "deal:1", "deal:2", "deal:30", "doc:1"],
        "nothing*": [],
        "eal:1": [],
        "deal:": [],
    }.items():
        assert await names_of(locks, pattern) == expected, pattern


async def test_without_a_pattern_all_are_listed(locks):
    assert await locks.list() == []
    await locks.acquire("a")
    assert [info.name for info in await locks.list()] == ["a"]


@pytest.mark.decoded
@pytest.mark.topologies
async def test_the_list_shows_the_same_as_inspect(locks, rival):
    asked_at = time.time()
    lease = await locks.acquire("writer", ttl=60, holder={"user": "alice"})
    readers = [await client.acquire("read", ttl=60, mode="shared") for client in (locks, rival)]
    waiting = await join(rival, "writer")
    found = {info.name: info for info in await rival.list()}
    assert sorted(found) == ["read", "writer"]
    writer, read = found["writer"], found["read"]
    assert (writer.mode, writer.fence, writer.holder) == ("exclusive", lease.fence, {"user": "alice"})
    assert (writer.waiters, len(writer.holds)) == (1, 1)
    assert abs(writer.held_since - asked_at) < 30
    assert 30 < writer.remaining <= 60
    assert (read.mode, read.waiters, len(read.holds)) == ("shared", 0, 2)
    assert {hold.fence for hold in read.holds} == {reader.fence for reader in readers}
    shown = repr(found)
    assert not [each for each in (lease, *readers) if each.token in shown]
    await lease.release()
    await waiting


async def test_free_locks_are_not_listed(locks, rival):
    for name in ("released", "read", "taken"):
        await (await locks.acquire(name, ttl=60)).release()
    await (await locks.acquire("read", ttl=60, mode="shared")).release()
    await (await rival.take("taken", ttl=60)).release()
    await locks.acquire("held", ttl=60)
    await locks.acquire("expired", ttl=0.2)
    await locks.acquire("read and expired", ttl=0.2, mode="shared")
    await run_out(locks, "expired")
    await run_out(locks, "read and expired")
    assert await names_of(rival) == ["held"]


async def test_a_lock_that_is_only_waited_for_is_listed(combination, opened, locks):
    """Its hold has expired, and the first waiter has not polled yet."""
    slow = await opened(combination[1], retry_interval=5)
    fence, *_ = await locks.ask("a", token(1))
    await slow.ask("a", token(2), wait=LONG)
    await end_hold(locks, "a", token(1), fence)
    (info,) = await locks.list()
    assert (info.name, info.is_held, info.waiters, info.holds) == ("a", False, 1, ())


async def test_listing_changes_nothing(locks, admin):
    await locks.acquire("a", ttl=60)
    await locks.acquire("b", ttl=60, mode="shared")
    before = {key: (admin.type(key), admin.dump(key)) for key in admin.scan_iter()}
    await locks.list()
    assert {key: (admin.type(key), admin.dump(key)) for key in admin.scan_iter()} == before


async def test_other_namespaces_are_not_listed(combination, opened, locks):
    for namespace in ("doc_lock", "lock:lock", "loc", "lock2", "x:lock"):
        other = await opened(combination[1], namespace=namespace)
        await other.acquire(f"of {namespace}", ttl=60)
        assert await names_of(other) == [f"of {namespace}"]
    await locks.acquire("mine", ttl=60)
    assert await names_of(locks) == ["mine"]


@pytest.mark.decoded
async def test_names_are_listed_as_they_were_given(locks, rival):
    async with locks.lock_all(ODD, ttl=60):
        assert await names_of(rival) == sorted(ODD)


async def test_a_name_is_a_pattern_for_itself(locks, rival):
    """Special characters of a pattern are literal behind a backslash; no other escaping is needed."""
    async with locks.lock_all(ODD, ttl=60):
        for name in ODD:
            pattern = "".join(f"\\{sign}" if sign in "*?[]\\^" else sign for sign in name)
            if len(pattern.encode()) <= 512:
                assert await names_of(rival, pattern) == [name], pattern


async def test_a_star_matches_any_characters(locks, rival):
    names = ["a{1}b", "a%b", "a\nb", "aéb", "ab", "a😀b", "a*b"]
    await locks.acquire("b{1}a", ttl=60)
    async with locks.lock_all(names, ttl=60):
        assert await names_of(rival, "a*b") == sorted(names)
        assert await names_of(rival, "a{*") == ["a{1}b"]
        assert await names_of(rival, "*%*") == ["a%b"]
        assert await names_of(rival, "*\n*") == ["a\nb"]


@pytest.mark.topologies
async def test_more_than_fits_on_a_page(every_side):
    """Several thousand, from every side, each once."""
    names = [f"lock-{number:04}" for number in range(2_500)]
    holder = every_side["async"]
    scopes = [holder.lock_all(names[start : start + 250], ttl=100) for start in range(0, len(names), 250)]
    for scope in scopes:
        await scope.__aenter__()
    for side, locks in every_side.items():
        found = await locks.list()
        assert len(found) >= len(names), side
        assert sorted({info.name for info in found}) == names, side
        assert all(info.is_held for info in found)
        assert sorted({info.name for info in await locks.list("lock-12*")}) == names[1200:1300]
        cursor, first = await locks.ask_store("page", "*", 0)
        assert cursor != 0
        assert 0 < len(first) < len(names)
    for scope in scopes:
        await scope.__aexit__(None, None, None)


@pytest.mark.topologies
async def test_a_lock_that_is_there_all_the_time_is_listed_while_others_come_and_go(locks, rival):
    staying = [f"stays-{number}" for number in range(200)]
    is_over = False

    async def come_and_go():
        while not is_over:
            async with rival.lock_all([f"goes-{number}" for number in range(50)], ttl=60):
                await asyncio.sleep(0)

    async with locks.lock_all(staying, ttl=60):
        coming = asyncio.create_task(come_and_go())
        for _ in range(3):
            found = await names_of(locks)
            assert set(staying) <= set(found)
        is_over = True
        await coming


async def test_keys_of_other_programs_are_ignored(locks, admin):
    """Keys that resemble a lock's: another type, another hash tag, bytes that are no text."""
    await locks.acquire("a", ttl=60)
    admin.hset("lock:{hash}", "field", "value")
    admin.zadd("lock:{zset}", {"member": 1})
    admin.set("lock:{a}:{b}", "x")
    admin.set("lock:x", "x")
    admin.set(b"lock:{\xff\xfe}", "x")
    for key in admin.scan_iter():
        if admin.ttl(key) == -1:
            admin.expire(key, 100)
    assert await names_of(locks) == ["a"]


async def test_a_bad_pattern_is_refused_and_nothing_is_sent(on_every_side, admin):
    admin.config_resetstat()

    async def behaviour(locks, name):
        for pattern in ("", "x" * 513, "é" * 257, "a\0", 7, None, b"a*", "\ud800", ["a"]):
            with pytest.raises(InvalidRequest, match="pattern"):
                await locks.list(pattern)

    await on_every_side(behaviour)
    assert "cmdstat_scan" not in admin.info("commandstats")
