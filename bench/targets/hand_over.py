"""P5: one lock, 32 waiters in two processes: speed, fairness and cost of hand-overs."""

from dataclasses import replace
from functools import partial
from statistics import median

from bench import contest
from bench.contest import Contestant
from bench.hand_over.holds import HandOvers, summarize
from bench.hand_over.round_trip import RoundTrip
from bench.hand_over.waiter_processes import PROCESSES, WAITERS, WaiterProcesses, start_waiters
from bench.hand_over.waiters import PYTHON_REDIS_LOCK
from bench.plan import Bench
from bench.result import LIMIT, OURS, RIVAL, Check, Result, Series

PING_SHARE = 0.1  # of a round's time, before it and again after it


def _contestant(name: str, *commands: str, is_context: bool = True) -> Contestant:
    return Contestant(name, partial(start_waiters, name), commands, is_context)


CONTESTANTS = [
    _contestant(LIMIT, "evalsha"),
    # The commands of normal operation, and those of a reconnection.
    _contestant(OURS, "evalsha", "delifeq", "eval", "hello", "script|load", "subscribe", is_context=False),
    _contestant(RIVAL, "set", "evalsha"),
    # And a GET for each acquire, which the statistics do not distinguish from the one inside its script.
    _contestant(PYTHON_REDIS_LOCK, "set", "blpop", "evalsha"),
]


async def run(bench: Bench) -> list[Result]:
    async with RoundTrip.measuring(bench.server.url) as round_trip:

        async def measure(processes: WaiterProcesses, waiters: int, seconds: float) -> HandOvers:
            await round_trip.ping(seconds * PING_SHARE)
            holds, schedule = await processes.work(seconds)
            await round_trip.ping(seconds * PING_SHARE)
            return summarize(holds, schedule, waiters=waiters, round_trip=round_trip)

        series = await contest.hold(
            CONTESTANTS,
            measure=measure,
            workers=WAITERS,
            bench=_shortened(bench),
            title=f"P5 {WAITERS} waiters",
        )
    ours = next(one for one in series if one.contestant == OURS)
    checks = [
        Check("p50 in round trips", 1.5, _median(ours, "p50"), is_upper=True),
        Check("p99 in round trips", 6, _median(ours, "p99"), is_upper=True),
        Check("Jain's index", 0.99, _median(ours, "jain")),
        Check("commands per hold", 2.1, ours.calls_per_cycle, is_upper=True),
    ]
    return [
        Result(
            "P5",
            f"{WAITERS} waiters, {PROCESSES} processes",
            "median of the rounds",
            checks,
            series,
            workers=WAITERS,
            unit="holds/s",
            facts=_explain(round_trip),
        )
    ]


def _shortened(bench: Bench) -> Bench:
    """Shorter rounds in a quick run, in which starting eight processes takes a third of the time."""
    if bench.plan.mode == "full":
        return bench
    return replace(bench, plan=replace(bench.plan, seconds=0.15))


def _median(series: Series, fact: str) -> float | None:
    values = series.fact(fact)
    return median(values) if values else None


def _explain(round_trip: RoundTrip) -> str:
    return (
        "p50 … max: from release sent until the next holder's acquire returned, in round trips; jain: fairness of "
        "the waiters' shares; to itself: share of releases after which the same waiter got the lock again; "
        f"a round trip is a PING over bare hiredis and uvloop, between the rounds: {round_trip}"
    )
