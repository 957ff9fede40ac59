"""Hand-over among many: processes that die in the queue, threads, several locks at once, a million locks to list."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import json
import random
import statistics
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import eventually, eventually_async
from tests.support.grants import GrantRecorder

import leasehold
from leasehold import blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import redis
    from tests.conftest import Count
    from tests.support.processes import Child
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

QUEUE = "lock:{deal}:queue"


def displaced(order: Sequence[int]) -> int:
    """How many of these would have to be taken out for the rest to be in order."""
    piles: list[int] = []
    for number in order:
        at = bisect.bisect_left(piles, number)
        piles[at : at + 1] = [number]
    return len(order) - len(piles)


def test_displaced_counts_those_out_of_order() -> None:
    assert [displaced(order) for order in ([], [1, 2, 3], [2, 3, 1], [3, 2, 1], [1, 9, 2, 3, 0])] == [
        0,
        0,
        1,
        2,
        2,
    ]


# Many processes in one queue


def wait_many(parent: Any, url: str, log: str, waiters: int) -> None:
    """Many waiters for one lock. Each holder records its grant and releases."""
    import asyncio
    import json
    import os

    import leasehold

    history = os.open(log, os.O_WRONLY | os.O_APPEND)

    async def run() -> None:
        async with leasehold.connect(url, retry_interval=1, timeout=10) as locks:

            async def one() -> None:
                lease = await locks.acquire("deal", ttl=60, wait=None)
                line = {"token": lease.token, "fence": lease.fence, "is_lost": lease.is_lost}
                os.write(history, json.dumps(line).encode() + b"\n")
                await lease.release()

            parent.send(ready=True)
            await asyncio.gather(*[one() for _ in range(waiters)])
            parent.send(done=True)

    asyncio.run(run())


@pytest.mark.timeout(300)
async def test_waiters_in_many_processes_are_served_in_their_order_also_when_some_are_killed(
    valkey: Server, spawn: Callable[..., Child], tmp_path: Path, count: Count
) -> None:
    many, killed = count(full=300, quick=40), count(full=100, quick=15)
    sizes = [many, killed, many, many]
    log = tmp_path / "served"
    log.write_bytes(b"")
    async with leasehold.connect(valkey.url) as locks:
        held = await locks.acquire("deal", ttl=300)
        children: list[Child] = []
        for size in sizes:
            # One after another, so that the waiters that die are between live ones.
            child = spawn(wait_many, valkey.url, str(log), size)
            assert await child.aread() == {"ready": True}
            children.append(child)
            joined = sum(sizes[: len(children)])
            await eventually_async(lambda n=joined: valkey.call("ZCARD", QUEUE) == n, every=0.05)
        victim = children.pop(1)
        members = valkey.call("ZRANGE", QUEUE, 0, -1)  # each begins with its token
        queue = {member[:32].decode(): place for place, member in enumerate(members)}
        await asyncio.to_thread(victim.kill)
        with GrantRecorder(valkey, "deal") as recorder:
            await held.release()
            for child in children:
                assert await child.aread(120) == {"done": True}
            granted_dead = [hold for hold in recorder.stop() if hold.pid == victim.pid]
        print(f"{sum(sizes)} waiters, {killed} killed: {len(granted_dead)} dead ones granted")
        # As soon as a client counts as dead, after four seconds, all of its waiters do: until then each of them costs
        # a claim window of two seconds.
        assert len(granted_dead) <= 3
        served = [json.loads(line) for line in log.read_text().splitlines()]
        places = [queue[one["token"]] for one in sorted(served, key=lambda one: one["fence"])]
        assert len(places) == 3 * many, "a waiter was not served, or a dead one was"
        assert len(set(places)) == len(places), "a waiter was served twice"
        assert not any(one["is_lost"] for one in served)
        # A waiter that the machine paused for longer than its claim window has joined again, later.
        assert displaced(places) <= len(places) // 10
        assert [one["fence"] for one in served] == sorted(one["fence"] for one in served)
        info = await locks.inspect("deal")
        assert (info.is_held, info.waiters) == (False, 0)


def contend(parent: Any, url: str, log: str, threads: int, rounds: int) -> None:
    """Threads of one blocking client that want the lock again and again."""
    import json
    import os
    import threading

    from leasehold import blocking
    from leasehold.runtime import clock

    history = os.open(log, os.O_WRONLY | os.O_APPEND)

    with blocking.connect(url, timeout=10) as locks:

        def one(number: int) -> None:
            for _ in range(rounds):
                lease = locks.acquire("deal", ttl=30, wait=None)
                since = clock.now()
                lease.check()
                # Read before the release: from then on the lock may have another holder.
                line = {
                    "who": [os.getpid(), number],
                    "fence": lease.fence,
                    "since": since,
                    "until": clock.now(),
                }
                os.write(history, json.dumps(line).encode() + b"\n")
                lease.release()

        running = [threading.Thread(target=one, args=(number,)) for number in range(threads)]
        parent.send(ready=True)
        parent.receive()
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        parent.send(done=True)


def check_exclusion(holds: list[dict[str, Any]]) -> None:
    """No two at once, and fences that grow with time."""
    holds = sorted(holds, key=lambda hold: hold["since"])
    for one, other in itertools.pairwise(holds):
        assert one["until"] <= other["since"], f"two at once: {one} {other}"
        assert one["fence"] < other["fence"], f"fences do not grow: {one} {other}"


@pytest.mark.parametrize(
    "second", [{"since": 1.5, "until": 3.0, "fence": 2}, {"since": 2.5, "until": 3.0, "fence": 1}]
)
def test_the_check_of_exclusion_can_fail(second: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match=r"two at once|do not grow"):
        check_exclusion([{"since": 1.0, "until": 2.0, "fence": 1}, second])


@pytest.mark.timeout(180)
def test_threads_of_two_processes_never_hold_at_once_and_are_all_served(
    valkey: Server, spawn: Callable[..., Child], tmp_path: Path, count: Count
) -> None:
    log = tmp_path / "holds"
    log.write_bytes(b"")
    rounds = count(full=50, quick=5)
    children = [spawn(contend, valkey.url, str(log), 16, rounds) for _ in range(2)]
    for child in children:
        assert child.read() == {"ready": True}
    for child in children:
        child.send()
    for child in children:
        assert child.read(90) == {"done": True}
    holds = [json.loads(line) for line in log.read_text().splitlines()]
    check_exclusion(holds)
    assert len(holds) == 32 * rounds
    assert len({tuple(hold["who"]) for hold in holds}) == 32


# What waiting costs the server


def calls_of(server: Server) -> int:
    """All scripts that were called since the last reset."""
    stats = server.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


@pytest.mark.parametrize(("kind", "waiters"), [("async", 300), ("blocking", 100)])
async def test_the_commands_of_a_client_do_not_grow_with_its_waiters(
    own_server: Callable[..., Server], kind: str, waiters: int
) -> None:
    interval = 0.1
    server = own_server()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(waiters + 8))
    async with leasehold.connect(server.url) as others:
        held = await others.acquire("deal", ttl=300)
        if kind == "async":
            locks = await leasehold.connect(server.url, timeout=10, retry_interval=interval).__aenter__()
            waiting = [asyncio.create_task(locks.acquire("deal", ttl=60, wait=None)) for _ in range(waiters)]
        else:
            locks = blocking.connect(server.url, timeout=10, retry_interval=interval)
            waiting = [
                asyncio.ensure_future(asyncio.to_thread(locks.acquire, "deal", ttl=60, wait=None))
                for _ in range(waiters)
            ]
        await eventually_async(lambda: server.call("ZCARD", QUEUE) == waiters, every=0.05)
        began_at = time.monotonic()
        server.call("CONFIG", "RESETSTAT")
        await eventually_async(lambda: calls_of(server) >= 10, every=interval)
        calls = calls_of(server)
        took = time.monotonic() - began_at
        ends = asyncio.gather(*waiting, return_exceptions=True)
        await locks.close() if kind == "async" else await asyncio.to_thread(locks.close)
        await ends
        await held.release()
    print(f"{kind}: {calls} looks in {took:.1f} s")
    # One look for all of them in an interval, of which the jitter takes a fifth; a busy machine looks less often. Once
    # for each waiter would be a hundred times as many.
    assert calls <= took / (0.8 * interval) + 2


# A million locks


PLANT = """
for number = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local record = '2x' .. string.format('%032x', number) .. string.rep('0', 16) .. number .. ' 0 1700000000000 "me"'
  redis.call('SET', 'lock:{deal ' .. number .. '}', record, 'PX', 3600000)
end
"""


def list_all(parent: Any, url: str) -> None:
    """Count the locks, and report by how many megabytes this process has grown."""
    import asyncio
    import re
    from pathlib import Path

    import leasehold

    def peak() -> float:
        # Not ru_maxrss, which begins with the size of the parent process.
        (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(kilobytes) / 1024

    async def run() -> None:
        async with leasehold.connect(url, timeout=30) as locks:
            async for _ in locks.list("nothing like that *"):
                pass
            before = peak()
            parent.send(ready=True)
            parent.receive()
            found = 0
            async for info in locks.list("deal *"):
                assert info.holder == "me"
                found += 1
            parent.send(found=found, grown=peak() - before)

    asyncio.run(run())


def ping_until(admin: redis.Redis, is_over: Callable[[], bool]) -> list[float]:
    """How long PINGs take, one after another, in milliseconds."""
    took: list[float] = []
    while not is_over():
        began_at = time.monotonic()
        admin.ping()
        took.append((time.monotonic() - began_at) * 1000)
        time.sleep(0.002)
    return sorted(took)


@pytest.mark.timeout(600)
def test_listing_very_many_locks_delays_no_other_command_and_needs_little_memory(
    own_server: Callable[..., Server], spawn: Callable[..., Child], count: Count, full: bool
) -> None:
    locks = count(full=1_000_000, quick=10_000)
    server = own_server()
    with server.admin(socket_timeout=60) as admin, server.admin(socket_timeout=60) as other:
        for first in range(1, locks + 1, 10_000):
            admin.eval(PLANT, 0, first, first + 9_999)
        assert admin.dbsize() == locks
        child = spawn(list_all, server.url)
        assert child.read() == {"ready": True}
        answers: list[dict[str, Any]] = []
        listing = threading.Thread(target=lambda: answers.append(child.read(500)))
        child.send()
        listing.start()
        pings = ping_until(admin, lambda: not listing.is_alive())
        listing.join()

        admin.config_set("slowlog-log-slower-than", 0)
        asking = threading.Thread(target=other.execute_command, args=("KEYS", "*"))
        asking.start()
        control = ping_until(admin, lambda: not asking.is_alive())
        asking.join()
        # The whole command, because a slow script, whose source contains KEYS, is in the log as well.
        (keys_ms,) = [
            entry["duration"] / 1000 for entry in admin.slowlog_get(128) if entry["command"] == b"KEYS *"
        ]
    (answer,) = answers
    print(
        f"{locks} locks: {answer}, {len(pings)} pings, median {statistics.median(pings):.2f} ms,"
        f" 99 % {pings[len(pings) * 99 // 100]:.2f} ms, worst {pings[-1]:.2f} ms;"
        f" KEYS took {keys_ms:.1f} ms, worst ping beside it {control[-1] if control else 0:.1f} ms"
    )
    # SCAN may show a lock twice, and never leaves one out.
    assert locks <= answer["found"] <= locks * 1.05
    assert answer["grown"] < 48
    if full:
        # A ping beside KEYS waits for all of it; beside a listing it waits for a page at most.
        assert pings[len(pings) * 99 // 100] < keys_ms / 2
    else:
        assert len(pings) > 3, "no other command was served while the locks were listed"


# Several locks at once


NAMES = ["a", "b", "c"]


def hold_all(parent: Any, kind: str, url: str, log: str) -> None:
    """Hold all locks again and again, asked for in any order, and record when, until the test ends it."""
    import asyncio
    import json
    import os
    import random
    import threading

    import leasehold
    from leasehold import LeaseLost, blocking
    from leasehold.runtime import clock

    history = os.open(log, os.O_WRONLY | os.O_APPEND)
    is_over = threading.Event()

    def note(leases: Any, since: float) -> None:
        until = clock.now()
        # A holder that lost them held them until its deadline at the latest, which is not known here.
        if leases.is_lost:
            return
        line = {"who": os.getpid(), "fences": leases.fences, "since": since, "until": until}
        os.write(history, json.dumps(line).encode() + b"\n")

    async def by_task() -> None:
        async with leasehold.connect(url, timeout=10) as locks:
            while not is_over.is_set():
                names = random.sample(["a", "b", "c"], random.choice([2, 3]))
                try:
                    async with locks.lock_all(names, ttl=4, wait=None) as leases:
                        since = clock.now()
                        await asyncio.sleep(random.random() * 0.01)
                        note(leases, since)
                except LeaseLost:
                    continue

    def by_thread() -> None:
        import time

        with blocking.connect(url, timeout=10) as locks:
            while not is_over.is_set():
                names = random.sample(["a", "b", "c"], random.choice([2, 3]))
                try:
                    with locks.lock_all(names, ttl=4, wait=None) as leases:
                        since = clock.now()
                        time.sleep(random.random() * 0.01)
                        note(leases, since)
                except LeaseLost:
                    continue

    def listen() -> None:
        parent.receive()
        is_over.set()

    threading.Thread(target=listen, daemon=True).start()
    parent.send(ready=True)
    asyncio.run(by_task()) if kind == "async" else by_thread()
    parent.send(done=True)


@pytest.mark.timeout(300)
def test_holders_of_several_locks_in_any_order_never_block_each_other_for_good(
    valkey: Server, spawn: Callable[..., Child], tmp_path: Path, count: Count
) -> None:
    log = tmp_path / "holds"
    log.write_bytes(b"")

    def start(kind: str) -> Child:
        child = spawn(hold_all, kind, valkey.url, str(log))
        assert child.read() == {"ready": True}
        return child

    def rounds() -> int:
        return log.read_bytes().count(b"\n")

    children = [start(kind) for kind in ("async", "blocking", "async", "blocking")]
    for _ in range(count(full=15, quick=2)):
        before = rounds()
        eventually(lambda b=before: rounds() > b + 20)
        children.pop(random.randrange(len(children))).kill()  # wherever it is
        # The dead process's locks are free within their ttl, and there is no deadlock.
        before = rounds()
        eventually(lambda b=before: rounds() > b + 20)
        children.append(start(random.choice(["async", "blocking"])))
    for child in children:
        child.send()
    for child in children:
        assert child.read() == {"done": True}
        assert child.wait() == 0
    holds = [json.loads(line) for line in log.read_text().splitlines()]
    for name in NAMES:
        check_exclusion([hold | {"fence": hold["fences"][name]} for hold in holds if name in hold["fences"]])
    with blocking.connect(valkey.url) as locks:
        for name in NAMES:
            eventually(lambda name=name: not locks.inspect(name).is_held)
            assert locks.inspect(name).waiters == 0


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_an_attempt_at_several_locks_that_lost_its_reply_leaves_none_held(
    valkey: Server, proxy: Callable[[Server], FaultProxy], kind: str
) -> None:
    """It was granted, the reply was lost, and a waiter came before the call was repeated."""
    through = proxy(valkey)
    # The first pause before asking again is up to a fifth of the interval.
    options: dict[str, Any] = {"timeout": 10, "retry_interval": 5}

    async def by_task() -> dict[str, int]:
        async with (
            leasehold.connect(through.url, **options) as locks,
            locks.lock_all(["a", "b"], ttl=60, wait=30) as leases,
        ):
            return leases.fences

    def by_thread() -> dict[str, int]:
        with (
            blocking.connect(through.url, **options) as locks,
            locks.lock_all(["a", "b"], ttl=60, wait=30) as leases,
        ):
            return leases.fences

    async with leasehold.connect(valkey.url) as others:
        has_lost = through.cut_after_request(b"lock:{b}")
        holding = asyncio.create_task(by_task() if kind == "async" else asyncio.to_thread(by_thread))
        await eventually_async(has_lost.is_set, every=0.0005)
        waiting = asyncio.create_task(others.acquire("b", ttl=60, wait=80))
        # Not when the ttl of an unknown lease has passed.
        async with asyncio.timeout(40):
            lease = await waiting
            await lease.release()
            fences = await holding
        assert fences["b"] != lease.fence
        for name in ("a", "b"):
            await eventually_async(lambda name=name: is_free(others, name), 40)


async def is_free(locks: leasehold.Client, name: str) -> bool:
    return not (await locks.inspect(name)).is_held
