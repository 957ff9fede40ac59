"""Violations, and the queries on a run that several checks share."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.faults import LATE_AT_MOST
from tests.simulation.history import Called, Returned, TokenCreated
from tests.simulation.scenario import START, TIMEOUT

if TYPE_CHECKING:
    from tests.simulation.scenario import Run

# After an outage: a late request and reply, and one timeout.
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
    """One call of a worker, from its start to its end, if it has ended."""

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
            case TokenCreated():
                calls[event.call].tokens.append(event.token)
            case Returned():
                calls[event.call].returned_at = event.at
                calls[event.call].outcome = event.outcome
    return calls


def is_well(run: Run, client: int, start: float, end: float) -> bool:
    """Whether this client had no faults but lost notifications from ``start`` till ``end``, and for a while before."""
    faults = run.faults[client]
    spans = [*faults.outages, *faults.pauses]
    if any(span.meets(start - _RECOVERED_AFTER, end) for span in spans):
        return False
    return faults.crashes_at is None or end < faults.crashes_at


def well_from(run: Run, client: int, start: float, seconds: float) -> float:
    """The first instant from ``start`` on at which the client is without faults for so many seconds; infinite if none."""
    faults = run.faults[client]
    spans = [*faults.outages, *faults.pauses]
    moments = [start, *sorted(span.end + _RECOVERED_AFTER + 0.001 for span in spans if span.end > start)]
    return next((moment for moment in moments if is_well(run, client, moment, moment + seconds)), math.inf)


def short(token: str) -> str:
    """A token in readable form: client and number."""
    client, number = token[:2], token[2:]
    return f"{int(client, 16)}/{int(number, 16)}"
