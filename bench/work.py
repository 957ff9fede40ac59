"""Measures cycles of acquire and release by many tasks or threads, each on its own names."""

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field

NAMES_EACH = 8
GRACE_SECONDS = 10


@dataclass(slots=True)
class Window:
    """The measured period, in which workers run. A flag, because reading a clock costs the limit 1 % of its cycle."""

    is_open: bool = True

    def close(self) -> None:
        self.is_open = False


# A worker makes cycles until the window closes and returns their number. Each contestant has its own loop, so that
# the limit does not pay for an extra call.
Names = Iterator[str]
AsyncCycles = Callable[[Names, Window], Awaitable[int]]
BlockingCycles = Callable[[Names, Window], int]


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement: the cycles that began in the window, and the time until the last one ended."""

    cycles: int
    seconds: float
    commands: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def per_second(self) -> float:
        return self.cycles / self.seconds

    @property
    def facts(self) -> dict[str, float]:
        """Further figures besides the rate."""
        return {}


def own_names(worker: int) -> Names:
    """Ordinary names that no other worker uses: deal:8, deal:9, … round and round."""
    first = worker * NAMES_EACH
    return itertools.cycle([f"deal:{number}" for number in range(first, first + NAMES_EACH)])


async def measure_tasks(cycles: AsyncCycles, tasks: int, seconds: float) -> Sample:
    window = Window()
    names = [own_names(worker) for worker in range(tasks)]
    # A contestant that hangs fails by name, instead of blocking the run.
    async with asyncio.timeout(seconds + GRACE_SECONDS):
        began_at = time.perf_counter()
        asyncio.get_running_loop().call_later(seconds, window.close)
        async with asyncio.TaskGroup() as group:
            workers = [group.create_task(_as_coroutine(cycles, own, window)) for own in names]
        ended_at = time.perf_counter()
    return Sample(sum(worker.result() for worker in workers), ended_at - began_at)


async def measure_threads(cycles: BlockingCycles, threads: int, seconds: float) -> Sample:
    """Blocks the event loop on purpose, so that only the threads run."""
    window = Window()
    start = threading.Barrier(threads + 1)
    outcomes: list[tuple[int, float]] = []
    errors: list[Exception] = []

    def worker(names: Names) -> None:
        start.wait()
        try:
            outcomes.append((cycles(names, window), time.perf_counter()))
        except Exception as error:  # noqa: BLE001  carried over to the measuring thread, which raises it
            errors.append(error)

    workers = [
        threading.Thread(target=worker, args=(own_names(number),), daemon=True) for number in range(threads)
    ]
    for thread in workers:
        thread.start()
    start.wait()
    began_at = time.perf_counter()
    time.sleep(seconds)
    window.close()
    join_until = time.monotonic() + GRACE_SECONDS
    for thread in workers:
        thread.join(max(0, join_until - time.monotonic()))
    if errors:
        raise errors[0]
    if len(outcomes) < threads:
        raise TimeoutError(f"{threads - len(outcomes)} of {threads} threads hang")
    return Sample(sum(count for count, _ in outcomes), max(ended_at for _, ended_at in outcomes) - began_at)


async def _as_coroutine(cycles: AsyncCycles, names: Names, window: Window) -> int:
    return await cycles(names, window)
