"""What goes wrong in one run, all of it drawn from the seed beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import random

Fate = Literal["fine", "request lost", "reply lost", "cut", "late", "stray"]
"""What becomes of a request: ``cut`` ends in an error at once, done or not; ``late`` is slow, and everything on
the connection behind it; a ``stray`` was in a connection that broke, and arrives long after its caller was told so."""

_BAD_FATES: tuple[Fate, ...] = ("request lost", "reply lost", "cut", "late", "stray")

LATE_AT_MOST = 1.5


@dataclass(frozen=True, slots=True)
class Span:
    """From when till when."""

    start: float
    end: float

    def meets(self, start: float, end: float) -> bool:
        return self.start <= end and start <= self.end


@dataclass(slots=True)
class Weather:
    """One client's: when its connection is bad and how bad, when it stands still, and when it dies."""

    storms: list[Span] = field(default_factory=list)
    severity: float = 0.0
    pauses: list[Span] = field(default_factory=list)
    crashes_at: float | None = None

    def is_stormy(self, at: float) -> bool:
        return any(storm.start <= at < storm.end for storm in self.storms)

    def fate(self, at: float, rng: random.Random) -> Fate:
        """What becomes of a request that is sent now."""
        if not self.is_stormy(at) or rng.random() >= self.severity:
            return "fine"
        return rng.choice(_BAD_FATES)


@dataclass(frozen=True, slots=True)
class NewsWeather:
    """Everybody's: how often news get lost, come twice, or come late. News are hints, so that is always allowed."""

    lost: float
    doubled: float
    late: float


def draw_weather(rng: random.Random, start: float, end: float) -> Weather:
    """A client's weather between two moments."""
    length = end - start
    weather = Weather(severity=rng.choice((0.1, 0.4, 1.0)))
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        begins = start + rng.random() * length
        weather.storms.append(Span(begins, min(end, begins + rng.choice((0.2, 1.0, 4.0)))))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        begins = start + rng.random() * length
        weather.pauses.append(Span(begins, begins + rng.choice((0.05, 0.4, 1.7, 2.5, 6.0)) * rng.random()))
    if rng.random() < 0.12:
        weather.crashes_at = start + rng.random() * length
    return weather


def draw_news_weather(rng: random.Random) -> NewsWeather:
    return NewsWeather(
        lost=rng.choice((0.0, 0.0, 0.3, 1.0)),
        doubled=rng.choice((0.0, 0.3)),
        late=rng.choice((0.0, 0.1, 0.5)),
    )
