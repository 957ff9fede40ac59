"""Many processes, one lock, sudden deaths: hold windows never overlap (S1), and a dead holder's lock is soon free (L1)."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import eventually
from tests.support.grants import GrantRecorder

import leasehold
from leasehold import blocking
from leasehold.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Count
    from tests.support.grants import GrantedHold
    from tests.support.processes import Child
    from tests.support.servers import Server

TTL = 0.5
CLAIM_WINDOW = 2.0
RETRY_INTERVAL = 0.05
RESOLUTION = 0.002
"""Of the moments that the server writes down: whole milliseconds."""


def work(parent: Any, kind: str, url: str, directory: str) -> None:  # noqa: C901 - a child's code is one function
    """Increments the counter under the lock forever, and writes a history; with tasks, with threads, or without the lock."""
    import asyncio
    import json
    import os
    import threading
    import time
    from pathlib import Path

    import leasehold
    from leasehold import blocking
    from leasehold.runtime import clock

    # Appended in one write each: the lines of many processes do not mix, and outlive a SIGKILL.
    history = os.open(Path(directory) / "history", os.O_WRONLY | os.O_APPEND)
    counter = os.open(Path(directory) / "counter", os.O_RDWR)

    def note(**fields: Any) -> None:
        os.write(history, json.dumps({"pid": os.getpid(), **fields}).encode() + b"\n")

    def begin(lease: Any) -> tuple[float, float, int]:
        since = clock.now()
        note(op="begin", fence=lease.fence, since=since, until=since + lease.remaining())
        return since, since + lease.remaining(), int(os.pread(counter, 20, 0))

    def end(lease: Any, since: float, until: float, seen: int) -> None:
        if lease.is_lost:
            note(op="end", fence=lease.fence, since=since, until=until, counted=False)
            return
        os.pwrite(counter, b"%020d" % (seen + 1), 0)
        # A process that was stopped just before it wrote has written too late: no lease prevents that.
        is_late = lease.is_lost
        held_until = min(clock.now(), until)
        note(op="end", fence=lease.fence, since=since, until=held_until, counted=True, is_late=is_late)

    async def by_tasks() -> None:
        async with leasehold.connect(url) as locks:

            async def one() -> None:
                while True:
                    lease = await locks.acquire("counter", ttl=0.5, wait=None)
                    begun = begin(lease)
                    await asyncio.sleep(0.002)
                    end(lease, *begun)
                    try:
                        await lease.release()
                    except leasehold.LeaseLost:
                        note(op="lost")

            await asyncio.gather(*[one() for _ in range(3)])

    def by_threads() -> None:
        locks = blocking.connect(url)

        def one() -> None:
            while True:
                lease = locks.acquire("counter", ttl=0.5, wait=None)
                begun = begin(lease)
                time.sleep(0.002)
                end(lease, *begun)
                try:
                    lease.release()
                except leasehold.LeaseLost:
                    note(op="lost")

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    class Nothing:
        fence = 0
        is_lost = False

        def remaining(self) -> float:
            return 60

    def without_lock() -> None:
        while True:
            begun = begin(Nothing())
            time.sleep(0.002)
            end(Nothing(), *begun)

    parent.send(ready=True)
    if kind == "async":
        asyncio.run(by_tasks())
    else:
        (by_threads if kind == "blocking" else without_lock)()


@dataclass(frozen=True, order=True)
class Hold:
    since: float
    until: float
    fence: int
    pid: int


class Scene:
    """The counter, the history, and the processes that write both."""

    def __init__(self, directory: Path, spawn: Callable[..., Child], url: str) -> None:
        self.directory = directory
        self._spawn = spawn
        self._url = url
        self.running: dict[int, Child] = {}
        self.died_at: dict[int, float] = {}
        (directory / "history").write_bytes(b"")
        (directory / "counter").write_bytes(b"%020d" % 0)

    def start(self, kind: str) -> None:
        child = self._spawn(work, kind, self._url, str(self.directory))
        assert child.read() == {"ready": True}
        self.running[child.pid] = child

    def kill(self, pid: int) -> None:
        self.died_at[pid] = clock.now()
        self.running.pop(pid).kill()

    def end(self) -> None:
        for pid in list(self.running):
            self.kill(pid)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.directory / "history").read_text().splitlines()]

    def holds(self) -> list[Hold]:
        """The hold windows that the holders report; a dead one held it until it was killed."""
        open_holds: dict[tuple[int, float], Hold] = {}
        holds: list[Hold] = []
        for line in self.lines():
            if line["op"] == "begin":
                until = min(line["until"], self.died_at.get(line["pid"], line["until"]))
                open_holds[line["pid"], line["since"]] = Hold(
                    line["since"], until, line["fence"], line["pid"]
                )
            elif line["op"] == "end":
                del open_holds[line["pid"], line["since"]]
                holds.append(Hold(line["since"], line["until"], line["fence"], line["pid"]))
        return sorted([*holds, *open_holds.values()])

    def counter(self) -> int:
        return int((self.directory / "counter").read_bytes())

    def counted(self) -> int:
        return len([line for line in self.lines() if line["op"] == "end" and line["counted"]])

    def late_writes(self) -> int:
        return len([line for line in self.lines() if line.get("is_late")])


def check(holds: list[Hold]) -> None:
    """No two at once, and fences that grow in the order of time."""
    # A holder that was stopped between the grant and its first check found the lease lost: no hold.
    holds = [hold for hold in holds if hold.until > hold.since]
    for one, other in itertools.pairwise(holds):
        assert one.until <= other.since, (
            f"two holders at once, by {one.until - other.since:.4f} s: {one} {other}"
        )
    for one, other in itertools.pairwise(holds):
        assert one.fence < other.fence, f"fences do not grow: {one} {other}"


def find_holder(locks: blocking.Client) -> int | None:
    holder = locks.inspect("counter").holder
    return int(str(holder).rpartition(":")[2]) if holder else None


@dataclass(frozen=True)
class Death:
    """What the kill of a holder cost the others, in seconds on the server's clock."""

    until_grant: float
    """From the kill to the next grant to a live process."""
    lease_left: float
    """What was left of the lease of the killed process."""
    dead_waiters: int
    """Waiters of dead processes that were granted the lock before a live one; each costs its claim window."""


def died_holding(hold: GrantedHold, killed: dict[int, float]) -> bool:
    """Whether the holder was dead when its lease ended, or dead from the beginning."""
    return killed.get(hold.pid, math.inf) < hold.until


def check_deaths(holds: list[GrantedHold], killed: dict[int, float]) -> list[Death]:
    """What each kill (pid, moment) cost. A dead holder costs its ttl, a dead waiter its claim window.

    The claim window is the ttl if that is less than two seconds. Both ends are moments that the server wrote down,
    so no load of the machine changes them.
    """
    dead = [hold for hold in holds if died_holding(hold, killed)]
    for hold in dead:
        left = hold.until - max(hold.since, killed[hold.pid])
        assert left <= min(TTL, CLAIM_WINDOW) + RESOLUTION, f"a dead process kept the lock: {hold}"
    assert len({hold.token for hold in dead}) == len(dead), "granted twice to the same dead waiter"
    found: list[Death] = []
    for pid, moment in killed.items():
        alive = next(hold for hold in holds if hold.since > moment and not died_holding(hold, killed))
        held = [hold for hold in holds if hold.since <= moment][-1]  # or it had just given it back
        waited = [hold for hold in dead if moment < hold.since < alive.since]
        found.append(
            Death(alive.since - moment, held.until - moment if held.pid == pid else 0.0, len(waited))
        )
    return found


def wake_ups(holds: list[GrantedHold], killed: dict[int, float]) -> list[float]:
    """From the end of each dead lease to the grant that follows: the server's clock, the others' wake-up."""
    return [
        after.since - one.until
        for one, after in itertools.pairwise(holds)
        if died_holding(one, killed) and after.since >= one.until
    ]


def distribution(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p50, p95 = ordered[len(ordered) // 2], ordered[len(ordered) * 95 // 100]
    return f"p50 {p50 * 1000:.0f} ms, p95 {p95 * 1000:.0f} ms, max {ordered[-1] * 1000:.0f} ms"


@pytest.mark.timeout(1800)
def test_processes_whose_holders_are_killed_at_random_never_hold_at_once_and_lose_no_increment(
    valkey: Server, spawn: Callable[..., Child], tmp_path: Path, count: Count
) -> None:
    scene = Scene(tmp_path, spawn, valkey.url)
    killed: dict[int, float] = {}
    with blocking.connect(valkey.url) as locks, GrantRecorder(valkey, "counter") as recorder:
        for kind in ("async", "blocking", "async", "blocking"):
            scene.start(kind)
        for _ in range(count(full=200, quick=5)):
            time.sleep(random.random() * 0.2)
            victim = eventually(lambda: (pid := find_holder(locks)) in scene.running and pid, every=0.001)
            scene.kill(victim)
            killed[victim] = recorder.now()
            # The dead holder's lock is free within its ttl: another process continues counting.
            before = scene.counter()
            eventually(lambda before=before: scene.counter() > before + 1)
            scene.start(random.choice(["async", "blocking"]))
        granted = recorder.stop()
        scene.end()
    holds = scene.holds()
    check(holds)
    if not scene.late_writes():
        assert scene.counted() <= scene.counter() <= scene.counted() + len(scene.died_at)
    assert scene.counter() > 50
    assert len({hold.pid for hold in holds}) > 4
    costs, late = check_deaths(granted, killed), wake_ups(granted, killed)
    print(f"{len(holds)} holds, {scene.counter()} increments, {len(scene.died_at)} deaths")
    print(f"{len(costs)} kills to the next grant: {distribution([death.until_grant for death in costs])}")
    print(f"  left of the dead one's lease: {distribution([death.lease_left for death in costs])}")
    print(f"  dead waiters granted before: {sorted(Counter(death.dead_waiters for death in costs).items())}")
    print(f"  from the end of {len(late)} dead leases to the next grant: {distribution(late)}")
    # Waiters poll when the hold before them ends. The machine may be busy then, but not every time.
    assert min(late) < RETRY_INTERVAL


@pytest.mark.timeout(180)
def test_processes_that_are_stopped_for_longer_than_their_ttl_never_hold_at_once(
    valkey: Server, spawn: Callable[..., Child], tmp_path: Path, count: Count
) -> None:
    scene = Scene(tmp_path, spawn, valkey.url)
    with blocking.connect(valkey.url) as locks:
        for kind in ("async", "blocking", "async"):
            scene.start(kind)
        for _ in range(count(full=20, quick=3)):
            victim = eventually(lambda: (pid := find_holder(locks)) in scene.running and pid, every=0.001)
            scene.running[victim].pause()
            time.sleep(TTL + 0.2)
            before = len(scene.holds())
            scene.running[victim].resume()
            eventually(lambda before=before: len(scene.holds()) > before + 10)
        scene.end()
    check(scene.holds())


def test_a_process_that_does_not_lock_is_caught(
    valkey: Server, spawn: Callable[..., Child], tmp_path: Path
) -> None:
    """The negative control: the checker finds the overlap, and increments are lost."""
    scene = Scene(tmp_path, spawn, valkey.url)
    scene.start("reckless")
    scene.start("async")

    def is_caught() -> bool:
        try:
            check(scene.holds())
        except AssertionError as error:
            return "two holders at once" in str(error) and scene.counter() < scene.counted()
        return False

    eventually(is_caught)
    scene.end()


async def test_a_blocking_thread_and_an_async_task_exclude_each_other(valkey: Server) -> None:
    holds: list[Hold] = []
    rounds = 60

    def in_a_thread() -> None:
        with blocking.connect(valkey.url, retry_interval=0.01) as locks:
            for _ in range(rounds):
                with locks.lock("deal", ttl=20, wait=30) as lease:
                    since = clock.now()
                    time.sleep(0.001)
                    holds.append(Hold(since, clock.now(), lease.fence, threading.get_ident()))

    async with leasehold.connect(valkey.url, retry_interval=0.01) as locks:
        thread = asyncio.create_task(asyncio.to_thread(in_a_thread))
        for _ in range(rounds):
            async with locks.lock("deal", ttl=20, wait=30) as lease:
                since = clock.now()
                await asyncio.sleep(0.001)
                holds.append(Hold(since, clock.now(), lease.fence, 0))
        await thread
    assert len(holds) == 2 * rounds
    check(sorted(holds))
