"""Measures all contestants in turn, round after round, on one server."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from bench.plan import Bench, Plan
from bench.result import Series
from bench.server import Server
from bench.work import Sample

Opening = AbstractAsyncContextManager[Any] | AbstractContextManager[Any]
Measure = Callable[[Any, int, float], Awaitable[Sample]]


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    open: Callable[[str], Opening]
    commands: tuple[str, ...]  # the commands that it sends; their server time is its server time
    is_context: bool = False  # no target refers to it: fewer rounds in a quick run


async def hold(
    contestants: list[Contestant], *, measure: Measure, workers: int, bench: Bench, title: str
) -> list[Series]:
    """Rounds A, B, C, A, B, C …, after a warm-up. A contestant that is missing or fails gets a note; the others go on."""
    plan = bench.plan.sliced() if workers == 1 else bench.plan
    progress = bench.progress
    entries = [(one, Series(one.name, one.commands)) for one in contestants]
    bench.server.flush()
    progress.begin(title, sum(_rounds(one, plan) for one in contestants) + len(contestants))
    async with AsyncExitStack() as stack:
        cycles: dict[str, Any] = {}
        for one, series in entries:
            with _RecordFailure(series, bench):
                cycles[one.name] = await _enter(stack, one.open(bench.server.url))
                await measure(cycles[one.name], workers, plan.warmup_seconds)
            progress.step(one.name)
        for number in range(plan.rounds):
            for one, series in entries:
                if number >= _rounds(one, plan):
                    continue
                if series.note is None:
                    with _RecordFailure(series, bench):
                        series.samples.append(
                            await _take(bench.server, plan, measure, cycles[one.name], workers)
                        )
                progress.step(one.name)
    progress.end()
    return [series for _, series in entries]


def _rounds(contestant: Contestant, plan: Plan) -> int:
    return plan.context_rounds if contestant.is_context else plan.rounds


async def _take(server: Server, plan: Plan, measure: Measure, cycles: Any, workers: int) -> Sample:
    await asyncio.sleep(0)  # threads block the loop for a whole measurement: Ctrl-C is handled here
    gc.collect()  # the garbage of the previous contestant is not charged to this one
    server.reset_stats()
    sample = await measure(cycles, workers, plan.seconds)
    return replace(sample, commands=server.command_stats())


async def _enter(stack: AsyncExitStack, opening: Opening) -> Any:
    if isinstance(opening, AbstractAsyncContextManager):
        return await stack.enter_async_context(opening)
    return stack.enter_context(opening)


class _RecordFailure:
    """Records the failure of one contestant as its note, so that the run continues without it."""

    def __init__(self, series: Series, bench: Bench) -> None:
        self._series, self._bench = series, bench

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        self._series.samples.clear()
        self._bench.server.flush()  # its remaining locks would block the others on the same names
        if isinstance(error, ModuleNotFoundError):
            self._series.note = "not installed"
        else:
            self._series.note = f"failed: {type(error).__name__}"
            self._bench.progress.say(f"{self._series.contestant} failed: {type(error).__name__}: {error}")
        return True
