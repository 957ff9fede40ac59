"""P1–P3: cycles per second by 1, 100 and 1,000 tasks, each on its own keys."""

from bench import contest, leasehold_locks, limit, peers
from bench.contest import Contestant
from bench.plan import Bench
from bench.result import (
    JUDGED_BY,
    LIMIT,
    OURS,
    RIVAL,
    Check,
    Judge,
    Result,
    median_of_ratios,
    ratio,
    ratio_of_bests,
)
from bench.work import measure_tasks

CONTESTANTS = [
    Contestant(LIMIT, limit.tasks, ("set", "evalsha")),
    Contestant(OURS, leasehold_locks.tasks, ("evalsha", "delifeq")),
    Contestant(RIVAL, peers.redis_py_tasks, ("set", "evalsha")),
    Contestant("valkey-glide", peers.glide_tasks, ("set", "evalsha"), is_context=True),
    Contestant("pottery", peers.pottery_tasks, ("set", "evalsha"), is_context=True),
]


async def one(bench: Bench) -> list[Result]:
    return [await _run(bench, "P1", tasks=1, judge=median_of_ratios, of_rival=1.7, of_limit=0.80)]


async def hundred(bench: Bench) -> list[Result]:
    return [await _run(bench, "P2", tasks=100, judge=ratio_of_bests, of_rival=10, of_limit=0.55)]


async def thousand(bench: Bench) -> list[Result]:
    return [await _run(bench, "P3", tasks=1000, judge=ratio_of_bests, of_rival=20, of_limit=0.50)]


async def _run(
    bench: Bench, target: str, *, tasks: int, judge: Judge, of_rival: float, of_limit: float
) -> Result:
    work = f"{tasks:,} task{'s' if tasks > 1 else ''}"
    series = await contest.hold(
        CONTESTANTS, measure=measure_tasks, workers=tasks, bench=bench, title=f"{target} {work}"
    )
    checks = [
        Check("times redis-py", of_rival, ratio(series, RIVAL, judge)),
        Check("of the limit", of_limit, ratio(series, LIMIT, judge)),
    ]
    return Result(target, work, JUDGED_BY[judge], checks, series, workers=tasks)
