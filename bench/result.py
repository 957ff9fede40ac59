"""The result of a target: checks against its bounds, and the series behind them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from bench.work import Sample

LIMIT = "limit"
OURS = "leasehold"
RIVAL = "redis-py"


@dataclass(slots=True)
class Series:
    """The samples of one contestant, or a note with the reason why there are none."""

    contestant: str
    commands: tuple[str, ...]
    samples: list[Sample] = field(default_factory=list)
    note: str | None = None

    @property
    def rates(self) -> list[float]:
        return [sample.per_second for sample in self.samples]

    def fact(self, name: str) -> list[float]:
        return [facts[name] for sample in self.samples if name in (facts := sample.facts)]

    @property
    def server_us_per_call(self) -> float | None:
        calls, usec = self._server_total()
        return usec / calls if calls else None

    @property
    def calls_per_cycle(self) -> float | None:
        cycles = sum(sample.cycles for sample in self.samples)
        return self._server_total()[0] / cycles if cycles else None

    def _server_total(self) -> tuple[int, int]:
        # Only the commands that the client sends: those inside a script are already part of the script's time.
        rows = [sample.commands.get(name, (0, 0)) for sample in self.samples for name in self.commands]
        return sum(calls for calls, _ in rows), sum(usec for _, usec in rows)


@dataclass(frozen=True, slots=True)
class Check:
    """A value that must be at least (or at most) its bound."""

    what: str
    bound: float
    value: float | None
    is_upper: bool = False

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        holds = self.value <= self.bound if self.is_upper else self.value >= self.bound
        return "pass" if holds else "miss"

    @property
    def target(self) -> str:
        return f"{'≤' if self.is_upper else '≥'} {self.bound:g}"


@dataclass(frozen=True, slots=True)
class Result:
    target: str
    work: str
    judged_by: str
    checks: list[Check]
    series: list[Series]
    workers: int | None = None
    unit: str = "cycles/s"
    facts: str = ""  # explains the facts of its samples

    def of(self, contestant: str) -> Series | None:
        return next((one for one in self.series if one.contestant == contestant), None)


Judge = Callable[[list[float], list[float]], float]


def median_of_ratios(ours: list[float], other: list[float]) -> float:
    """Compares each round with the same round of the other, so that a slow phase of the machine cancels out."""
    return median(mine / theirs for mine, theirs in zip(ours, other, strict=True))


def ratio_of_bests(ours: list[float], other: list[float]) -> float:
    """Compares the best rounds, so that a disturbed round of either side does not matter."""
    return max(ours) / max(other)


JUDGED_BY: dict[Judge, str] = {
    median_of_ratios: "median of the ratios of each round",
    ratio_of_bests: "best round of each",
}


def ratio(series: list[Series], other: str, judge: Judge) -> float | None:
    """Ours to the other's by the judge, or None when either was not measured in every round."""
    rates = {one.contestant: one.rates for one in series if one.note is None}
    ours, theirs = rates.get(OURS), rates.get(other)
    return judge(ours, theirs) if ours and theirs else None
