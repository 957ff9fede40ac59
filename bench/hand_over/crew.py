"""The waiters of one contestant, in two processes that stay for the whole run."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain
from time import monotonic
from typing import Any

from bench.hand_over.holds import Hold, Shift
from bench.work import GRACE_SECONDS

PROCESSES = 2
WAITERS_EACH = 16
WAITERS = PROCESSES * WAITERS_EACH
NOTICE_SECONDS = 0.03  # from the order to the beginning: for the order to arrive and the processes to tidy up
RUN_IN_SECONDS = 0.05  # until every waiter has found its place; not counted
LINE_BYTES = 1 << 26  # a line holds all holds of a shift


class CrewFailed(Exception):
    """A process of the crew reported an error or ended."""


class Crew:
    def __init__(self) -> None:
        self._processes: list[Process] = []

    async def hire(self, contestant: str, url: str, waiters: range) -> None:
        command = sys.executable, "-m", "bench.hand_over.process", contestant, url
        # Ctrl-C is for us alone: the process ends with its stdin, which only we hold.
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

    async def work(self, seconds: float) -> tuple[list[Hold], Shift]:
        """The holds of all waiters in a shift that counts for so many seconds."""
        begins_at = monotonic() + NOTICE_SECONDS
        counts_at = begins_at + RUN_IN_SECONDS
        shift = Shift(begins_at, counts_at, counts_at + seconds)
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(shift).encode() + b"\n")
        answers = await self.answers(seconds + GRACE_SECONDS)
        return [Hold(*hold) for hold in chain.from_iterable(answer["holds"] for answer in answers)], shift

    async def answers(self, seconds: float) -> list[dict[str, Any]]:
        try:
            # A contestant that hangs is a failure with a name, not a run without an end.
            async with asyncio.timeout(seconds):
                return await asyncio.gather(*(_answer(process) for process in self._processes))
        except BaseException:
            await self.end()  # or those that still work would disturb the next contestant
            raise

    async def end(self) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.kill()
            await process.wait()


@asynccontextmanager
async def gather_crew(contestant: str, url: str) -> AsyncIterator[Crew]:
    """On entry all processes are connected, on exit they have ended."""
    crew = Crew()
    try:
        for number in range(PROCESSES):
            waiters = range(number * WAITERS_EACH, (number + 1) * WAITERS_EACH)
            await crew.hire(contestant, url, waiters)
        await crew.answers(GRACE_SECONDS)
        yield crew
    finally:
        await crew.end()


async def _answer(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise CrewFailed("a process ended without an answer")
    answer = json.loads(line)
    if "error" not in answer:
        return answer
    if answer["error"] == ModuleNotFoundError.__name__:
        raise ModuleNotFoundError(answer["text"])
    raise CrewFailed(f"{answer['error']}: {answer['text']}")
