"""P4: cycles per second of the blocking API by 1 and 16 threads, each on its own keys."""

from bench import contest, leasehold_locks, limit, peers
from bench.contest import Contestant
from bench.plan import Bench
from bench.result import JUDGED_BY, LIMIT, OURS, RIVAL, Check, Result, median_of_ratios, ratio
from bench.work import measure_threads

CONTESTANTS = [
    Contestant(LIMIT, limit.threads, ("set", "evalsha"), is_context=True),
    Contestant(OURS, leasehold_locks.threads, ("evalsha", "delifeq")),
    Contestant(RIVAL, peers.redis_py_threads, ("set", "evalsha")),
    Contestant("python-redis-lock", peers.python_redis_lock_threads, ("set", "evalsha"), is_context=True),
    Contestant("pottery", peers.pottery_threads, ("set", "evalsha"), is_context=True),
]


async def run(bench: Bench) -> list[Result]:
    return [await _run(bench, threads) for threads in (1, 16)]


async def _run(bench: Bench, threads: int) -> Result:
    work = f"{threads} blocking thread{'s' if threads > 1 else ''}"
    series = await contest.hold(
        CONTESTANTS, measure=measure_threads, workers=threads, bench=bench, title=f"P4 {work}"
    )
    checks = [Check("times redis-py", 1.5, ratio(series, RIVAL, median_of_ratios))]
    return Result("P4", work, JUDGED_BY[median_of_ratios], checks, series, workers=threads)
