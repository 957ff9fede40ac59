"""What a checker has to say, and what several of them want to know about a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.faults import LATE_AT_MOST
from tests.simulation.history import Called, Minted, Returned
from tests.simulation.scenario import START, TIMEOUT

if TYPE_CHECKING:
    from tests.simulation.scenario import Run

# After a storm: what is still late, request and reply, and one silence that must be sat out.
_RECOVERED_AFTER = 2 * LATE_AT_MOST + 2 * TIMEOUT


class Violation(NamedTuple):
    """A promise that a run has broken."""

    promise: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.promise} at {self.at - START:.4f} s: {self.what}"


@dataclass(slots=True)
class Call:
    """One call of a worker from its beginning to its end, if it came to one."""

    called: Called
    tokens: list[str]
    returned_at: float = math.inf
    outcome: str = "nothing"


def calls_of(run: Run) -> dict[int, Call]:
    """Every call by its number."""
    calls: dict[int, Call] = {}
    for event in run.events:
        match event:
            case Called():
                calls[event.call] = Call(event, [])
            case Minted():
                calls[event.call].tokens.append(event.token)
            case Returned():
                calls[event.call].returned_at = event.at
                calls[event.call].outcome = event.outcome
    return calls


def is_well(run: Run, client: int, start: float, end: float) -> bool:
    """Whether nothing but news went wrong for this client from ``start`` till ``end``, and has not for a while."""
    weather = run.weather[client]
    spans = [*weather.storms, *weather.pauses]
    if any(span.meets(start - _RECOVERED_AFTER, end) for span in spans):
        return False
    return weather.crashes_at is None or end < weather.crashes_at


def well_from(run: Run, client: int, start: float, seconds: float) -> float:
    """The first moment from ``start`` on at which the client is well, for so many seconds; infinite if there is none."""
    weather = run.weather[client]
    spans = [*weather.storms, *weather.pauses]
    moments = [start, *sorted(span.end + _RECOVERED_AFTER + 0.001 for span in spans if span.end > start)]
    return next((moment for moment in moments if is_well(run, client, moment, moment + seconds)), math.inf)


def short(token: str) -> str:
    """A token as people can tell it apart: client and number."""
    client, number = token[:2], token[2:]
    return f"{int(client, 16)}/{int(number, 16)}"
