"""The holds that all processes report, and the hand-overs derived from them.

Instants are CLOCK_MONOTONIC, which is one clock for all processes of a machine.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from bench.hand_over.round_trip import RoundTrip
from bench.work import Sample


class Schedule(NamedTuple):
    """The times at which waiters begin, counting begins, and waiters stop."""

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
    is_to_itself: bool  # the waiter that released it got it again, before all others


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOvers(Sample):
    """One measurement: every hold is a cycle; those within the counted time are analysed."""

    round_trip: RoundTrip
    hand_overs: tuple[HandOver, ...]  # the fastest first
    holds_of: tuple[int, ...]  # of each waiter in the counted time

    @property
    def in_round_trips(self) -> list[float]:
        unit = self.round_trip.seconds
        return [one.seconds / unit for one in self.hand_overs]

    @property
    def facts(self) -> dict[str, float]:
        if not self.hand_overs:  # the machine was so busy that a short round had no hand-over
            return {}
        ordered = self.in_round_trips
        return {
            "p50": percentile(ordered, 0.50),
            "p90": percentile(ordered, 0.90),
            "p99": percentile(ordered, 0.99),
            "max": ordered[-1],
            "jain": jain(self.holds_of),
            "to itself": sum(one.is_to_itself for one in self.hand_overs) / len(self.hand_overs),
        }


def summarize(holds: list[Hold], schedule: Schedule, *, waiters: int, round_trip: RoundTrip) -> HandOvers:
    """The measurement from the holds of one schedule. Two holds at once are an error, not a fast hand-over."""
    holds = sorted(holds, key=lambda hold: hold.order)
    hand_overs: list[HandOver] = []
    for before, after in pairwise(holds):
        if after.acquired_at < before.releases_at:
            raise RuntimeError(f"waiters {before.waiter} and {after.waiter} held the lock at once")
        if schedule.counts(before.releases_at):
            hand_overs.append(HandOver(after.acquired_at - before.releases_at, after.waiter == before.waiter))
    counted = Counter(hold.waiter for hold in holds if schedule.counts(hold.releases_at))
    return HandOvers(
        len(holds),
        max([schedule.ends_at, *(hold.releases_at for hold in holds)]) - schedule.begins_at,
        round_trip=round_trip,
        hand_overs=tuple(sorted(hand_overs)),
        holds_of=tuple(counted[waiter] for waiter in range(waiters)),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def jain(shares: Sequence[int]) -> float:
    """Jain's index of fairness: 1 if all shares are equal, 1/n if one waiter has all holds."""
    return sum(shares) ** 2 / (len(shares) * sum(share * share for share in shares))
