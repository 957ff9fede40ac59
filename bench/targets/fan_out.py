"""P9: one lock change to 2,000 sockets of one worker: the time until all receive it, and the memory of an idle socket."""

from dataclasses import replace
from statistics import median

from bench import contest
from bench.contest import Contestant
from bench.documents import fan_out
from bench.documents.fan_out import SOCKETS
from bench.documents.processes import raise_file_limit
from bench.plan import Bench
from bench.result import OURS, Check, Result, Series

BARE = "websockets.broadcast"

CONTESTANTS = [
    Contestant(BARE, fan_out.bare_broadcast, ()),
    Contestant(OURS, fan_out.leasehold_service, ()),
]


async def run(bench: Bench) -> list[Result]:
    raise_file_limit()
    series = await contest.hold(
        CONTESTANTS,
        measure=fan_out.measure,
        workers=SOCKETS,
        bench=_adjusted(bench),
        title=f"P9 {SOCKETS:,} sockets",
    )
    bare, ours = series
    each = ours.fact("KiB each")
    checks = [
        Check("p99 in times bare", 3, _ratio(ours, bare), is_upper=True),
        Check("KiB per idle socket", 48, median(each) if each else None, is_upper=True),
    ]
    return [
        Result(
            "P9",
            f"one change to {SOCKETS:,} sockets",
            "median of the ratios of each round",
            checks,
            series,
            workers=SOCKETS,
            unit="changes/s",
            facts="first … p99: from the request of the change (over HTTP, or over a socket of the bare one) to its "
            "arrival at a socket; KiB each: resident memory of the worker for each idle socket",
        )
    ]


def _adjusted(bench: Bench) -> Bench:
    """A shorter plan, because every change is 2,000 arrivals."""
    return replace(bench, plan=replace(bench.plan, rounds=max(7, bench.plan.rounds), warmup_seconds=0.5))


def _ratio(ours: Series, bare: Series) -> float | None:
    mine, theirs = ours.fact("p99 ms"), bare.fact("p99 ms")
    if not mine or len(mine) != len(theirs):
        return None
    return median(a / b for a, b in zip(mine, theirs, strict=True))
