"""Who held the lock and when, as told by all processes, and what follows from it.

Instants are CLOCK_MONOTONIC, which is one clock for all processes of a machine.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from bench.hand_over.round_trip import RoundTrip
from bench.work import Sample


class Shift(NamedTuple):
    """When waiters begin, from when on it counts, and after when nobody asks again."""

    begins_at: float
    counts_at: float
    ends_at: float

    def counts(self, instant: float) -> bool:
        return self.counts_at <= instant < self.ends_at


class Hold(NamedTuple):
    waiter: int
    acquired_at: float  # acquire has returned
    releases_at: float  # just before release is sent
    order: float  # the fence, or the time where there is none


class HandOver(NamedTuple):
    seconds: float
    is_to_itself: bool  # the waiter that gave it back got it again, past all others


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOvers(Sample):
    """One measurement: every hold is a cycle; those within the counted time are looked at more closely."""

    round_trip: RoundTrip
    passed_on: tuple[HandOver, ...]  # the fastest first
    holds_of: tuple[int, ...]  # by each waiter in the counted time

    @property
    def in_round_trips(self) -> list[float]:
        unit = self.round_trip.seconds
        return [one.seconds / unit for one in self.passed_on]

    @property
    def facts(self) -> dict[str, float]:
        if not self.passed_on:  # on a machine so busy that a short round saw no hand-over at all
            return {}
        ordered = self.in_round_trips
        return {
            "p50": percentile(ordered, 0.50),
            "p90": percentile(ordered, 0.90),
            "p99": percentile(ordered, 0.99),
            "max": ordered[-1],
            "jain": jain(self.holds_of),
            "to itself": sum(one.is_to_itself for one in self.passed_on) / len(self.passed_on),
        }


def summarize(holds: list[Hold], shift: Shift, *, waiters: int, round_trip: RoundTrip) -> HandOvers:
    """The measurement that the holds of one shift make up. Two holds at once are an error, not a fast hand-over."""
    holds = sorted(holds, key=lambda hold: hold.order)
    passed_on: list[HandOver] = []
    for before, after in pairwise(holds):
        if after.acquired_at < before.releases_at:
            raise RuntimeError(f"waiters {before.waiter} and {after.waiter} held the lock at once")
        if shift.counts(before.releases_at):
            passed_on.append(HandOver(after.acquired_at - before.releases_at, after.waiter == before.waiter))
    counted = Counter(hold.waiter for hold in holds if shift.counts(hold.releases_at))
    return HandOvers(
        len(holds),
        max([shift.ends_at, *(hold.releases_at for hold in holds)]) - shift.begins_at,
        round_trip=round_trip,
        passed_on=tuple(sorted(passed_on)),
        holds_of=tuple(counted[waiter] for waiter in range(waiters)),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def jain(shares: Sequence[int]) -> float:
    """Jain's index of fairness: 1 when all have the same, 1/n when one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
