"""Acquire: granted, busy, waiting; names, holders, fences."""

from __future__ import annotations

import asyncio
import getpass
import os
import re
import socket
import time

import pytest
from tests.contract.queues import LONG
from tests.support.eventually import LIMIT, eventually_async

from leasehold import AcquireTimeout, InvalidRequest, LockBusy, StoreRefused
from leasehold.core.replies import DONE, Busy, Ended, Renewal


async def asked_at_least(admin, times):
    """Waits until the scripts have been called this often since the last CONFIG RESETSTAT."""

    def calls():
        stats = admin.info("commandstats")
        return sum(stats.get(f"cmdstat_{command}", {}).get("calls", 0) for command in ("evalsha", "eval"))

    await eventually_async(lambda: calls() >= times)


# Granted or busy


@pytest.mark.topologies
@pytest.mark.decoded
async def test_a_free_lock_is_granted(locks):
    before = time.time()
    lease = await locks.acquire("a", ttl=300)
    assert (lease.name, lease.mode) == ("a", "exclusive")
    assert isinstance(lease.fence, int)
    assert lease.fence > 0
    assert re.fullmatch(r"[0-9a-f]{32}", lease.token)
    assert 200 < lease.remaining() <= 300 * 0.99 - 0.002
    assert not lease.is_lost
    lease.check()
    info = await locks.inspect("a")
    assert info.is_held
    assert before - 5 < info.held_since < time.time() + 5


@pytest.mark.decoded
async def test_a_held_lock_is_busy_with_its_holder_and_the_time_left(locks, rival):
    await locks.acquire("a", ttl=300, holder="alice")
    with pytest.raises(LockBusy) as busy:
        await rival.acquire("a", wait=0)
    assert not isinstance(busy.value, AcquireTimeout)
    assert (busy.value.name, busy.value.holder) == ("a", "alice")
    assert 200 < busy.value.retry_after <= 300


async def test_a_lock_is_not_reentrant(locks):
    await locks.acquire("a")
    assert await locks.try_acquire("a") is None


async def test_try_acquire_answers_none_when_the_lock_is_held(locks, rival):
    first = await locks.try_acquire("a")
    assert first is not None
    assert await rival.try_acquire("a") is None
    await first.release()
    second = await rival.try_acquire("a")
    assert second is not None
    assert second.fence > first.fence


async def test_a_wait_for_a_held_lock_ends_after_about_the_wait(on_every_side):
    async def behaviour(locks, name):
        await locks.acquire(name, ttl=300, holder={"user": "alice"})
        started_at = time.monotonic()
        with pytest.raises(AcquireTimeout) as timeout:
            await locks.acquire(name, wait=0.3)
        assert 0.29 < time.monotonic() - started_at < LIMIT
        assert isinstance(timeout.value, TimeoutError)
        assert (timeout.value.holder, timeout.value.waited) == ({"user": "alice"}, 0.3)
        assert 200 < timeout.value.retry_after <= 300

    await on_every_side(behaviour)


@pytest.mark.topologies
async def test_a_waiter_gets_the_lock_when_it_is_released(locks, rival, admin):
    first = await locks.acquire("a")
    admin.config_resetstat()
    waiting = asyncio.create_task(rival.acquire("a", wait=LONG))
    await asked_at_least(admin, 2)
    assert not waiting.done()
    await first.release()
    second = await waiting
    assert second.fence > first.fence


async def test_a_waiter_without_limit_gets_the_lock_in_the_end(locks, rival, admin):
    first = await locks.acquire("a")
    admin.config_resetstat()
    waiting = asyncio.create_task(rival.acquire("a", wait=None))
    await asked_at_least(admin, 3)
    assert not waiting.done()
    await first.release()
    assert (await waiting).fence > first.fence


async def test_a_waiter_gets_the_lock_when_the_holder_expires(locks, rival):
    first = await locks.acquire("a", ttl=0.2)
    second = await rival.acquire("a", wait=LONG)
    assert second.fence > first.fence
    assert first.is_lost  # the old holder's deadline is before any other client can get the lock


async def test_of_many_concurrent_acquires_one_gets_the_lock(locks):
    answers = await asyncio.gather(*(locks.try_acquire("a") for _ in range(8)))
    assert len([answer for answer in answers if answer]) == 1


async def test_a_wrong_request_sends_nothing(locks, admin):
    admin.config_resetstat()
    for wrong in ({"ttl": 0}, {"ttl": float("nan")}, {"wait": -1}, {"holder": 7}, {"mode": "both"}):
        with pytest.raises(InvalidRequest):
            await locks.acquire("a", **wrong)
    with pytest.raises(InvalidRequest):
        await locks.acquire("")
    assert not {"cmdstat_eval", "cmdstat_evalsha"} & admin.info("commandstats").keys()
    assert admin.dbsize() == 0


# The same token

TOKEN = "c0ffee" + "0" * 26


@pytest.mark.decoded
@pytest.mark.topologies
async def test_a_repeated_token_gets_the_same_fence_and_the_remaining_time(locks):
    fence, remaining, _ = await locks.ask("a", TOKEN, ttl=300)
    assert remaining == 300
    fence_again, left, _ = await locks.ask("a", TOKEN, ttl=600)
    assert fence_again == fence
    assert 200 < left <= 300  # the remaining time, not extended by the repetition


async def test_a_repeated_token_with_a_higher_floor_gets_the_same_fence(locks):
    fence, *_ = await locks.ask("a", TOKEN, ttl=30)
    fence_again, *_ = await locks.ask("a", TOKEN, floor=fence + 1_000)
    assert fence_again == fence
    assert (await locks.inspect("a")).fence == fence


async def test_another_token_is_busy_however_alike(locks):
    await locks.ask("a", TOKEN, ttl=30)
    answer = await locks.ask("a", TOKEN[:-1] + "1")
    assert isinstance(answer, Busy)
    assert answer.holder == "me"


async def test_a_take_with_the_same_token_gets_the_same_fence(locks):
    await locks.acquire("a")
    terms = ("a", TOKEN, 0, 300, 0, '"me"', "exclusive", None)
    fence, *_ = await locks.ask_store_in_time("take", *terms)
    fence_again, left, _ = await locks.ask_store_in_time("take", *terms)
    assert fence_again == fence
    assert 200 < left <= 300


# Fences


@pytest.mark.topologies
async def test_fences_grow_over_release_expiry_and_take(locks, rival):
    fences = []
    lease = await locks.acquire("a")
    fences.append(lease.fence)
    await lease.release()
    fences.append((await locks.acquire("a", ttl=0.2)).fence)
    fences.append((await rival.acquire("a", wait=LONG)).fence)
    fences.append((await locks.take("a")).fence)
    taken = await rival.take("a")
    fences.append(taken.fence)
    await taken.release()
    fences.append((await locks.acquire("a")).fence)
    assert fences == sorted(set(fences))


@pytest.mark.topologies
async def test_fences_grow_after_the_loss_of_all_data(locks, admin):
    first = await locks.acquire("a")
    admin.flushall()
    second = await locks.acquire("a")
    assert second.fence > first.fence


async def test_fences_of_two_clients_grow_in_the_order_of_their_grants(locks, rival):
    fences = []
    for _ in range(5):
        for client in (locks, rival):
            lease = await client.acquire("a")
            fences.append(lease.fence)
            await lease.release()
    assert fences == sorted(set(fences))


async def test_a_floor_is_honoured(locks):
    for ahead in (1, 10**6, 10**15):
        first = await locks.acquire("a")
        await first.release()
        second = await locks.acquire("a", floor=first.fence + ahead)
        assert second.fence >= first.fence + ahead
        taken = await locks.take("a", floor=second.fence + ahead)
        assert taken.fence >= second.fence + ahead
        await taken.release()
        last = await locks.acquire("a")
        assert last.fence > taken.fence
        await last.release()


async def test_every_grant_keeps_the_counter_for_longer_than_any_lease(locks, admin):
    for verb in (locks.acquire, locks.take, locks.take):
        lease = await verb("a", ttl=86_400)
        assert admin.ttl("lock:{a}:fence") > 86_400
        admin.expire("lock:{a}:fence", 100)
    await lease.release()
    await locks.acquire("a")
    assert admin.ttl("lock:{a}:fence") > 86_400


async def test_a_floor_below_the_counter_changes_nothing(locks):
    first = await locks.acquire("a")
    await first.release()
    second = await locks.acquire("a", floor=first.fence - 1)
    assert second.fence > first.fence


async def test_fences_grow_up_to_the_largest_floor_and_are_refused_rather_than_repeated(locks):
    """Lua counts in doubles: beyond 2**53 two grants would get the same fence."""
    fences = []
    try:
        for floor in (2**53 - 1, None, None, None):
            lease = await locks.acquire("a", floor=floor)
            fences.append(lease.fence)
            await lease.release()
    except (InvalidRequest, StoreRefused):
        pass
    assert fences == sorted(set(fences))


# Holders


@pytest.mark.decoded
async def test_a_holder_is_shown_as_it_was_given(locks, rival):
    flat = {"user": "alice", "tab": 3, "idle": None, "me": True, "x": 1.5}
    for holder in ("alice", 'with "quotes" and \\', "é😀\n\0", flat):
        lease = await locks.acquire("a", holder=holder)
        assert lease.holder == holder
        assert (await rival.inspect("a")).holder == holder
        with pytest.raises(LockBusy) as busy:
            await rival.acquire("a", wait=0)
        assert busy.value.holder == holder
        await lease.release()


@pytest.mark.decoded
async def test_an_empty_holder_is_shown_as_it_was_given(locks, rival):
    for holder in ("", {}):
        lease = await locks.acquire("a", holder=holder)
        assert (await rival.inspect("a")).holder == holder
        assert lease.holder == holder
        await lease.release()


async def test_by_default_the_holder_is_user_host_and_process(locks):
    expected = f"{getpass.getuser()}@{socket.gethostname()}:{os.getpid()}"
    lease = await locks.acquire("a")
    assert lease.holder == expected
    assert (await locks.inspect("a")).holder == expected


async def test_a_client_may_have_a_holder_of_its_own(combination, opened):
    locks = await opened(combination[1], holder={"service": "billing"})
    lease = await locks.acquire("a")
    assert lease.holder == {"service": "billing"}
    assert (await locks.inspect("a")).holder == {"service": "billing"}
    assert (await locks.take("a", holder="me")).holder == "me"


# Names

LOOKALIKES = [
    *["a", "{a}", "{a", "a}", "{a}b", "a{b}", "{}", "{", "}", "}{", "{{a}}"],
    *["%", "%25", "%7B", "%7Ba%7D", "%257Ba%257D", "a%", "a%0A", "%0"],
    *["a\n", "\na", "a\r", "a\r\n", "a\t", "\x01", "\x7f", "\x85", "%85"],
    *["a:fence", "a}:fence", "a:taken", "lock:{a}", "lock:{a}:fence", "lock:a", ":", "::"],
    *[
        "😀",
        "é",
        "e\u0301",
        "\uff21",
        "A",
        " a",
        "a ",
        " ",
        "a b",
        "\u200b",
        "\u2028",
        "*",
        "?",
        "[a]",
        "\\",
        "'",
        '"',
    ],
    *["x" * 512, "x" * 511 + "y", "é" * 256, "😀" * 128, "{" * 512, "%" * 512, "\n" * 512],
]


@pytest.mark.decoded
@pytest.mark.topologies
async def test_similar_names_are_different_locks(locks, admin):
    leases = {}
    for name in LOOKALIKES:
        lease = await locks.try_acquire(name, ttl=300, holder=f"holder of {name!r}")
        assert lease is not None, f"{name!r} is the same lock as another name"
        leases[name] = lease
    for name in LOOKALIKES:
        info = await locks.inspect(name)
        assert (info.name, info.holder, info.fence) == (name, f"holder of {name!r}", leases[name].fence)
    assert admin.dbsize() == 2 * len(LOOKALIKES)
    for lease in leases.values():
        await lease.renew()
        await lease.release()
    assert sum(key.endswith(b":fence") for key in admin.scan_iter()) == len(LOOKALIKES)


async def test_keys_have_the_documented_names(locks, admin):
    await locks.acquire("deal:42 {x}")
    await locks.take("deal:42 {x}")
    tag = b"lock:{deal:42 %7Bx%7D}"
    assert set(admin.keys()) == {tag, tag + b":fence", tag + b":taken"}


async def test_namespaces_are_separate(combination, opened, locks, admin):
    documents = await opened(combination[1], namespace="doc_lock")
    await locks.acquire("a", holder="lock")
    await documents.acquire("a", holder="document")
    assert (await locks.inspect("a")).holder == "lock"
    assert (await documents.inspect("a")).holder == "document"
    await documents.take("a")
    assert (await locks.inspect("a")).holder == "lock"
    assert admin.exists("lock:{a}", "doc_lock:{a}") == 2


# Versions


@pytest.mark.decoded
async def test_a_record_of_an_unknown_version_is_refused_and_left_alone(locks, admin):
    lease = await locks.acquire("a")
    for version in ("0", "3"):
        record = f"{version}x{lease.token}1 {{}}"
        admin.set("lock:{a}", record, px=60_000)
        for verb in (
            lease.renew,
            lambda: locks.acquire("a", wait=0),
            lambda: locks.take("a"),
            lambda: locks.inspect("a"),
            lambda: locks.ask_store("release", "a", lease.token, lease.fence, None),
        ):
            with pytest.raises(StoreRefused, match="version"):
                await verb()
        assert admin.get("lock:{a}") == record.encode()


@pytest.mark.decoded
@pytest.mark.parametrize("key", ["lock:{a}", "lock:{a}:fence"])
async def test_a_key_that_holds_something_else_is_refused_and_left_alone(locks, admin, key):
    admin.rpush(key, "somebody else's")
    admin.expire(key, 60)
    with pytest.raises(StoreRefused):
        await locks.acquire("a", wait=0)
    assert admin.lrange(key, 0, -1) == [b"somebody else's"]
    assert admin.dbsize() == 1  # refused means that nothing was changed


# Scripts that the server has lost


@pytest.mark.decoded
@pytest.mark.topologies
async def test_scripts_that_were_flushed_are_sent_again(locks, admin):
    for _ in range(2):
        admin.script_flush()
        lease = await locks.acquire("a")
        admin.script_flush()
        await lease.renew()
        admin.script_flush()
        assert (await locks.inspect("a")).is_held
        admin.script_flush()
        taken = await locks.take("a")
        admin.script_flush()
        await taken.release()
    assert not (await locks.inspect("a")).is_held


@pytest.mark.topologies
@pytest.mark.decoded
async def test_a_batch_of_renewals_survives_a_script_flush(locks, admin):
    leases = [await locks.acquire(f"lock-{number}") for number in range(20)]
    admin.script_flush()
    renewals = [Renewal(lease.name, lease.token, lease.fence, 30) for lease in leases]
    renewals.append(Renewal("never held", "0" * 32, 1, 30))
    assert await locks.ask_store("renew", renewals) == [DONE] * 20 + [Ended.EXPIRED]
