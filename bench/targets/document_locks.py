"""P8: locking and releasing documents over HTTP, by one worker."""

from dataclasses import replace

from bench import contest
from bench.contest import Contestant
from bench.documents import lock_cycles
from bench.documents.lock_cycles import CLIENTS
from bench.plan import Bench
from bench.result import JUDGED_BY, OURS, Check, Result, median_of_ratios, ratio

BARE = "bare FastAPI"

CONTESTANTS = [
    Contestant(BARE, lock_cycles.bare_application, ("set", "evalsha", "publish")),
    Contestant(OURS, lock_cycles.leasehold_service, ("evalsha",)),
]


async def run(bench: Bench) -> list[Result]:
    work = f"lock+release over HTTP, {CLIENTS} clients"
    series = await contest.hold(
        CONTESTANTS,
        measure=lock_cycles.measure,
        workers=CLIENTS,
        bench=_lengthened(bench),
        title=f"P8 {CLIENTS} HTTP clients",
    )
    checks = [Check("times bare FastAPI", 0.6, ratio(series, BARE, median_of_ratios))]
    facts = "worker's CPU ms: of all its threads, for one lock and its release"
    return [Result("P8", work, JUDGED_BY[median_of_ratios], checks, series, workers=CLIENTS, facts=facts)]


def _lengthened(bench: Bench) -> Bench:
    """A longer plan, because a cycle is two requests and a disk write, so short rounds would have too few cycles."""
    rounds = 9 if bench.plan.mode == "quick" else 15
    return replace(
        bench,
        plan=replace(bench.plan, rounds=rounds, seconds=max(0.7, bench.plan.seconds), warmup_seconds=1.0),
    )
