"""A process whose signal handler raises at random moments in all verbs of a blocking client; prints a report as JSON.

Run as ``python -m tests.integration.interrupted_client URL ROOT CALLS SEED``.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import random
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.eventually import eventually

import leasehold
from leasehold import blocking
from leasehold.files import FileSettings
from leasehold.files import blocking as files

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

HANGS_AFTER = 100
TTL = 2.0


class Interrupted(BaseException):
    """As KeyboardInterrupt."""


class TimeLimit(Exception):
    """As the time limits of task queues."""


KINDS = (Interrupted, TimeLimit, TimeoutError)


class Interrupter:
    """Raises from a signal handler while a call runs: once, or several times in a row."""

    def __init__(self) -> None:
        self.left = 0
        self.raised = 0
        self.kind: type[BaseException] = Interrupted
        self.is_over = False
        signal.signal(signal.SIGALRM, self._handle)
        signal.signal(signal.SIGUSR1, self._handle)
        self._main = threading.get_ident()
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def run(self, call: Callable[[], Any]) -> bool:
        """Whether ``call`` was over before it was interrupted."""
        self.kind = random.choice(KINDS)
        after = random.choice((random.uniform(1e-6, 4e-4), random.uniform(1e-5, 3e-3)))
        times = random.choice((1, 1, 1, 3))
        try:
            self.left = times
            signal.setitimer(signal.ITIMER_REAL, after, 2e-5 if times > 1 else 0)
            call()
            self.left = 0
        except KINDS:
            self.left = 0
            return False
        except leasehold.LeaseholdError:
            self.left = 0
        return True

    def close(self) -> None:
        self.is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._thread.join()
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.left > 0:
            self.left -= 1
            self.raised += 1
            raise self.kind("from a signal handler")

    def _send(self) -> None:
        while not self.is_over:
            time.sleep(random.uniform(0, 0.004))
            signal.pthread_kill(self._main, signal.SIGUSR1)


class Traffic:
    """All verbs on one client, and a session of files over it."""

    def __init__(self, locks: blocking.Client, root: Path, name: str) -> None:
        self.locks = locks
        self.name = name
        self.kept = [
            locks.acquire(f"kept {name} {n}", ttl=600, renew=n == 0, holder=f"{name} {n}") for n in range(3)
        ]
        root.mkdir()
        (root / "a.txt").write_text("a")
        settings = FileSettings(ttl=TTL, wait=0.01)
        self.session = files.FileLocks(locks, root=root, settings=settings).session(f"session-{name}")
        self.number = 0
        self.verbs = [
            self.hold,
            self.hold_several,
            self.share,
            self.wait,
            self.acquire,
            self.renew,
            self.take,
            self.once,
            self.first_time,
            self.inspect,
            self.list,
            self.edit_file,
            self.upgrade_file,
            self.reconnect,
        ]

    def new_name(self, verb: str) -> str:
        self.number += 1
        return f"{verb} {self.name} {self.number}"

    def hold(self) -> None:
        with self.locks.lock(self.new_name("hold"), ttl=TTL) as lease:
            lease.check()

    def hold_several(self) -> None:
        name = self.new_name("hold_several")
        with self.locks.lock_all([f"{name} a", f"{name} b"], ttl=TTL):
            pass

    def share(self) -> None:
        with self.locks.lock(self.new_name("share"), ttl=TTL, mode="shared"):
            pass

    def wait(self) -> None:
        with self.locks.lock(self.kept[1].name, ttl=TTL, wait=0.002):
            pass

    def acquire(self, ttl: float = TTL) -> None:
        lease = self.locks.try_acquire(self.new_name("acquire"), ttl=ttl)
        if lease is not None:
            lease.release()

    def renew(self) -> None:
        random.choice(self.kept).renew()

    def take(self) -> None:
        self.locks.take(self.new_name("take"), ttl=TTL).release()

    def once(self) -> None:
        name = self.new_name("once")
        assert self.locks.once(name, lambda: name, ttl=60, lease_ttl=TTL) == name

    def first_time(self) -> None:
        self.locks.first_time("operation", self.new_name("first_time"), ttl=60)

    def inspect(self) -> None:
        n = random.randrange(len(self.kept))
        info = self.locks.inspect(f"kept {self.name} {n}")
        assert (info.holder, info.fence) == (f"{self.name} {n}", self.kept[n].fence)

    def list(self) -> None:
        list(self.locks.list("kept *"))

    def edit_file(self) -> None:
        with self.session.write("a.txt"):
            self.session.read_file("a.txt")

    def upgrade_file(self) -> None:
        with self.session.read("a.txt") as file:
            file.upgrade()

    def reconnect(self) -> None:
        self.locks.store_access.transport.reset()
        self.inspect()


def open_sockets() -> int:
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the folder itself
            found += str(entry.readlink()).startswith("socket:")
    return found


def check_what_is_left(both: list[Traffic]) -> None:
    """Replies match requests, nothing is held but what is kept, and no place or waiter is left."""
    for traffic in both:
        for _ in range(20):
            traffic.inspect()
        for lease in traffic.kept:
            lease.check()
        traffic.session.release_session_locks()
    limited, free = [traffic.locks for traffic in both]

    def have_ended() -> bool:
        left = [info.name for info in free.list() if info.is_held and not info.name.startswith("kept ")]
        assert left == [], f"leases without an owner: {left}"
        return True

    eventually(have_ended)
    places = limited.store_access.transport._limit._places
    eventually(lambda: not places, message="places are free")
    eventually(lambda: free.inspect("kept free 1").waiters == 0, message="nothing waits any more")


def main(url: str, root: str, calls: int, seed: int) -> None:
    faulthandler.dump_traceback_later(HANGS_AFTER + calls / 20, exit=True)
    random.seed(seed)
    limited = blocking.connect(url, max_connections=2, timeout=10)
    free = blocking.connect(url, timeout=10)
    before = open_sockets(), threading.active_count()
    both = [Traffic(limited, Path(root, "limited"), "limited"), Traffic(free, Path(root, "free"), "free")]
    interrupter = Interrupter()
    progress: Counter[str] = Counter()
    failures: list[BaseException] = []

    def run_beside(traffic: Traffic) -> None:
        """The same verbs in another thread, which is never interrupted."""
        try:
            while not interrupter.is_over:
                traffic.inspect()
                traffic.renew()
                traffic.acquire(ttl=600)  # a busy machine may take longer than the short one
                progress[traffic.name] += 1
        except BaseException as error:  # noqa: BLE001 - reported
            failures.append(error)

    beside = [threading.Thread(target=run_beside, args=[traffic], daemon=True) for traffic in both]
    for thread in beside:
        thread.start()
    interrupted: Counter[str] = Counter()
    for number in range(calls):
        traffic = both[number % 2]
        verb = random.choice(traffic.verbs)
        if not interrupter.run(verb):
            interrupted[verb.__name__] += 1
    interrupter.close()
    for thread in beside:
        thread.join()
    gc.collect()
    check_what_is_left(both)
    for traffic in both:
        for lease in traffic.kept:
            lease.release()
        traffic.locks.close()
    gc.collect()
    eventually(
        lambda: (open_sockets(), threading.active_count()) == before, message="threads and sockets end"
    )
    report = {
        "interrupted": interrupted,
        "raised": interrupter.raised,
        "beside": progress,
        "failures": [repr(failure) for failure in failures],
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
