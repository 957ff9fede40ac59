"""The waiters of one contestant, in two processes that live for the whole run."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from time import monotonic
from typing import Any

from bench.hand_over.holds import Hold, Schedule
from bench.work import GRACE_SECONDS

PROCESSES = 2
WAITERS_EACH = 16
WAITERS = PROCESSES * WAITERS_EACH
NOTICE_SECONDS = 0.03  # from the order to the beginning: for its arrival and a garbage collection
RUN_IN_SECONDS = 0.05  # until all waiters are in the queue; not counted
LINE_BYTES = 1 << 26  # a line contains all holds of a schedule


class WaitersFailed(Exception):
    """A process of waiters reported an error or ended."""


class WaiterProcesses:
    def __init__(self) -> None:
        self._processes: list[Process] = []

    async def start(self, contestant: str, url: str, waiters: range) -> None:
        command = sys.executable, "-m", "bench.hand_over.process", contestant, url
        # Ctrl-C must not reach the process: it ends with its stdin, which only we hold.
        process = await asyncio.create_subprocess_exec(
            *command,
            str(waiters.start),
            str(waiters.stop),
            stdin=PIPE,
            stdout=PIPE,
            limit=LINE_BYTES,
            start_new_session=True,
        )
        self._processes.append(process)

    async def work(self, seconds: float) -> tuple[list[Hold], Schedule]:
        """Run all waiters for a counted period of ``seconds``, and return their holds."""
        begins_at = monotonic() + NOTICE_SECONDS
        counts_at = begins_at + RUN_IN_SECONDS
        schedule = Schedule(begins_at, counts_at, counts_at + seconds)
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(schedule).encode() + b"\n")
        answers = await self.answers(seconds + GRACE_SECONDS)
        return [Hold(*hold) for hold in chain.from_iterable(answer["holds"] for answer in answers)], schedule

    async def answers(self, seconds: float) -> list[dict[str, Any]]:
        try:
            # A contestant that hangs fails by name, instead of blocking the run.
            async with asyncio.timeout(seconds):
                return await asyncio.gather(*(_answer(process) for process in self._processes))
        except BaseException:
            await self.end()  # otherwise the remaining ones would disturb the next contestant
            raise

    async def end(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def start_waiters(contestant: str, url: str) -> AsyncIterator[WaiterProcesses]:
    """On entry all processes are connected, on exit they have ended."""
    processes = WaiterProcesses()
    try:
        for number in range(PROCESSES):
            waiters = range(number * WAITERS_EACH, (number + 1) * WAITERS_EACH)
            await processes.start(contestant, url, waiters)
        await processes.answers(GRACE_SECONDS)
        yield processes
    finally:
        await processes.end()


async def _answer(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise WaitersFailed("a process ended without an answer")
    answer = json.loads(line)
    if "error" not in answer:
        return answer
    if answer["error"] == ModuleNotFoundError.__name__:
        raise ModuleNotFoundError(answer["text"])
    raise WaitersFailed(f"{answer['error']}: {answer['text']}")
