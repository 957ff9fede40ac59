"""How long to measure, and what a target is given to do so."""

from dataclasses import dataclass

from bench.progress import Progress
from bench.server import Server


@dataclass(frozen=True, slots=True)
class Plan:
    mode: str
    rounds: int
    seconds: float
    context_rounds: int  # rounds of the contestants that no target is judged against
    warmup_seconds: float


FULL = Plan(mode="full", rounds=7, seconds=1.0, context_rounds=7, warmup_seconds=0.3)
# Sized so that P1-P4 take about 30 of the 45 seconds promised.
QUICK = Plan(mode="quick", rounds=5, seconds=0.25, context_rounds=2, warmup_seconds=0.05)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a target needs to run."""

    server: Server
    plan: Plan
    progress: Progress
