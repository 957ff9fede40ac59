"""The faults of one run, all drawn from the seed in advance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import random

Fate = Literal["fine", "request lost", "reply lost", "cut", "late", "stray"]
"""The fate of a request: ``cut`` fails at once, executed or not; ``late`` is slow, and so is everything on
the connection behind it; a ``stray`` was in a connection that broke or fell silent, and arrives after its caller gave it
up, even seconds later."""

_OTHER_FATES: tuple[Fate, ...] = ("request lost", "reply lost", "cut", "late")

LATE_AT_MOST = 1.5
STRAY_FOR = (0.3, 2.5, 8.0)
"""Up to how many seconds a stray is on its way."""


@dataclass(frozen=True, slots=True)
class Span:
    """A start and an end."""

    start: float
    end: float

    def meets(self, start: float, end: float) -> bool:
        return self.start <= end and start <= self.end


@dataclass(slots=True)
class ClientFaults:
    """The faults of one client: outages of its connection and their severity, pauses, and the crash."""

    outages: list[Span] = field(default_factory=list)
    severity: float = 0.0
    strays: float = 0.2
    pauses: list[Span] = field(default_factory=list)
    crashes_at: float | None = None

    @property
    def delivers_late(self) -> bool:
        return self.strays > 0.5

    def is_failing(self, at: float) -> bool:
        return any(outage.start <= at < outage.end for outage in self.outages)

    def fate(self, at: float, rng: random.Random) -> Fate:
        """The fate of a request that is sent now."""
        if not self.is_failing(at) or rng.random() >= self.severity:
            return "fine"
        return "stray" if rng.random() < self.strays else rng.choice(_OTHER_FATES)


@dataclass(frozen=True, slots=True)
class NotificationFaults:
    """How often notifications get lost, arrive twice, or arrive late. Notifications are hints, so that is always allowed."""

    lost: float
    doubled: float
    late: float


@dataclass(frozen=True, slots=True)
class ClockStep:
    """The server's clock is set forward, or back if ``by`` is negative."""

    at: float
    by: float


def draw_clock_steps(rng: random.Random, start: float, end: float) -> list[ClockStep]:
    """When the server's clock is set, and by how much: not at all in most runs, and back in few."""
    if rng.random() < 0.6:
        return []
    sizes = (0.2, 1.0, 3.0, 20.0) if rng.random() < 0.6 else (-0.2, -1.0, -5.0, 1.0)
    moments = sorted(rng.uniform(start, end) for _ in range(rng.choice((1, 2, 4))))
    return [ClockStep(at, rng.choice(sizes)) for at in moments]


def draw_client_faults(rng: random.Random, start: float, end: float) -> ClientFaults:
    """Draws a client's faults between two instants."""
    length = end - start
    faults = ClientFaults(severity=rng.choice((0.1, 0.4, 1.0)))
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        begins = start + rng.random() * length
        faults.outages.append(Span(begins, min(end, begins + rng.choice((0.2, 1.0, 4.0)))))
    if rng.random() < 0.25:
        # A network that cuts connections all the time, and delivers what was in them.
        faults.outages, faults.severity, faults.strays = [Span(start, end)], 0.3, 0.9
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        begins = start + rng.random() * length
        faults.pauses.append(Span(begins, begins + rng.choice((0.05, 0.4, 1.7, 2.5, 6.0)) * rng.random()))
    if rng.random() < 0.12:
        faults.crashes_at = start + rng.random() * length
    return faults


def draw_notification_faults(rng: random.Random) -> NotificationFaults:
    return NotificationFaults(
        lost=rng.choice((0.0, 0.0, 0.3, 1.0)),
        doubled=rng.choice((0.0, 0.3)),
        late=rng.choice((0.0, 0.1, 0.5)),
    )
