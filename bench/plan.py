"""The lengths of measurements, and the context of a target's run."""

from dataclasses import dataclass, replace
from typing import Self

from bench.progress import Progress
from bench.server import Server


@dataclass(frozen=True, slots=True)
class Plan:
    mode: str
    rounds: int
    seconds: float
    context_rounds: int  # rounds of the contestants that no target is judged against
    warmup_seconds: float
    slices: int  # into how many shorter rounds a round of one worker is cut

    def sliced(self) -> Self:
        """The same time in more and shorter rounds, for work with a single worker.

        Its rate depends on the machine's wake-up latency, which alternates between two states for seconds at a time
        (the limit: 4,000 or 10,000 cycles/s). Ratios of short adjacent rounds mostly compare the same state: the limit
        against itself, three times each, gave 0.96 to 0.99 in 7 rounds of 1 s, 1.00 to 1.01 in 70 of 0.1 s.
        """
        return replace(
            self,
            rounds=self.rounds * self.slices,
            context_rounds=self.context_rounds * self.slices,
            seconds=self.seconds / self.slices,
        )


FULL = Plan(mode="full", rounds=7, seconds=1.0, context_rounds=7, warmup_seconds=0.3, slices=10)
# Sized for 45 seconds for all targets, on an otherwise idle machine.
QUICK = Plan(mode="quick", rounds=5, seconds=0.2, context_rounds=2, warmup_seconds=0.05, slices=5)


@dataclass(frozen=True, slots=True)
class Bench:
    """The context of a target's run."""

    server: Server
    plan: Plan
    progress: Progress
