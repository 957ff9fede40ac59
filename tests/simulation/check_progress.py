"""Checks of progress: S7, L1, L2, and calls that end."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.findings import Violation, calls_of, is_well, short, well_from
from tests.simulation.history import (
    AcquireRepeated,
    Arrived,
    ClockStepped,
    CountsAsEnded,
    CountsAsHeld,
    HoldBegan,
    HoldEnded,
    HoldExtended,
    HoldShifted,
    Joined,
    LeftQueue,
    UnexpectedError,
)
from tests.simulation.scenario import INTERVAL, TIMEOUT

from leasehold.core.waiters import alive_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.findings import Call
    from tests.simulation.scenario import Run

# The retry interval and a few quick round trips.
_SOON = INTERVAL + 0.03
# An orphan cleanup that gets no reply tries again after a quarter of a second.
_SETTLED_SOON = 0.5
_ROUNDING = 0.002


@dataclass(slots=True)
class _Stay:
    """The time that a token spent in the queue of a lock, or holding it."""

    name: str
    token: str
    client: int
    start: float
    end: float = float("inf")
    is_claimed: bool = True
    delayed: float = 0.0


def check_calls(run: Run) -> Iterator[Violation]:
    """A call ends with its wait, plus the timeout of a silent store; it raises no unexpected error."""
    for event in run.events:
        if isinstance(event, UnexpectedError):
            yield Violation("calls", event.at, f"client {event.client}: {event.what}")
    for call in calls_of(run).values():
        faults = run.faults[call.called.client]
        if call.called.wait is None or faults.crashes_at is not None:
            continue
        paused = sum(pause.end - pause.start for pause in faults.pauses)
        due = call.called.at + call.called.wait + 2 * TIMEOUT + 0.3 + paused
        if call.returned_at > due:
            late = call.returned_at - due
            yield Violation("calls", due, f"call {call.called.call} ended {late:.3f} s too late")


def check_orphan_cleanup(run: Run) -> Iterator[Violation]:
    """S7: a failed call's entries in the store are cleaned up, or gone within their ttl. So are released leases.

    At once if the client has no faults; in any case it does not renew them.
    """
    over_at = _over_at(run)
    last_asked: dict[str, float] = {}
    sent_at = 0.0
    for event in run.events:
        match event:
            case Arrived():
                sent_at = event.sent_at
                if event.verb in {"acquire", "take", "acquire_all"}:
                    last_asked.update(dict.fromkeys(event.tokens, event.at))
            case HoldExtended(at=at, token=token) if sent_at > over_at.get(token, sent_at):
                yield Violation("S7", at, f"{short(token)} is kept alive although its call has ended")
    for stay in [*_stays_in_queue(run), *_holds(run)]:
        over = over_at.get(stay.token)
        if over is None or stay.end <= over:
            continue
        if last_asked[stay.token] > over:
            continue  # a stray request; its effect expires
        due = well_from(run, stay.client, max(over, stay.start), _SETTLED_SOON) + _SETTLED_SOON
        if stay.end > due:
            left = stay.end - over
            yield Violation("S7", due, f"{short(stay.token)} stays for {left:.3f} s without its owner")


def check_dead_clients(run: Run) -> Iterator[Violation]:
    """L1: a dead client's lock is free within its ttl, and a client that is silent for long is granted none."""
    ttl: dict[str, float] = {}
    last_words: dict[int, float] = {}
    stepped_back = 0.0
    for event in run.events:
        if isinstance(event, Arrived):
            crashed_at = run.faults[event.client].crashes_at
            if crashed_at is not None and event.sent_at <= crashed_at:
                last_words[event.client] = event.at
        if isinstance(event, ClockStepped):
            stepped_back += max(0.0, -event.by)
        if isinstance(event, HoldBegan):
            ttl[event.token] = max(event.ttl, ttl.get(event.token, 0.0))
        if isinstance(event, HoldExtended):
            ttl[event.token] = max(event.until - event.at, ttl.get(event.token, 0.0))
    for hold in _holds(run):
        crashed_at = run.faults[hold.client].crashes_at
        if crashed_at is None:
            continue
        last_word = max(crashed_at, last_words.get(hold.client, 0.0))
        begins_by = last_word + alive_for(INTERVAL) + stepped_back + _ROUNDING
        ends_by = max(last_word, hold.start) + ttl[hold.token] + hold.delayed + _ROUNDING
        if hold.start > begins_by or hold.end > ends_by:
            yield Violation("L1", last_word, f"{short(hold.token)} outlives its dead client")


def check_hand_over(run: Run) -> Iterator[Violation]:
    """L2: a free lock goes to a live waiter within the retry interval, and the waiter knows it as soon, also without notifications."""
    call_of = _calls_by_token(run)
    queue = _stays_in_queue(run)
    for name, start, end in _free_times(run):
        for stay in queue:
            if stay.name != name or stay.token not in call_of:
                continue
            since = max(start, stay.start)
            until = min(end, stay.end, call_of[stay.token].returned_at)
            if until > since + _SOON and is_well(run, stay.client, since, since + _SOON):
                idle = until - since
                yield Violation(
                    "L2", since, f"{name!r} is free for {idle:.3f} s while {short(stay.token)} waits"
                )
    counted_at: dict[str, float] = {}
    for event in run.events:
        if isinstance(event, CountsAsHeld):
            counted_at.setdefault(event.token, event.at)
    for hold in _holds(run):
        if hold.is_claimed or hold.token not in call_of:
            continue
        due = hold.start + _SOON
        known_at = min(counted_at.get(hold.token, hold.end), call_of[hold.token].returned_at, hold.end)
        if (
            known_at > due
            and call_of[hold.token].returned_at > hold.start
            and is_well(run, hold.client, hold.start, due)
        ):
            yield Violation("L2", due, f"{short(hold.token)} does not know that it was given {hold.name!r}")


def _calls_by_token(run: Run) -> dict[str, Call]:
    return {token: call for call in calls_of(run).values() for token in call.tokens}


def _over_at(run: Run) -> dict[str, float]:
    """Since when a token is unused: its call failed, or its lease was released."""
    over = {
        token: call.returned_at
        for call in calls_of(run).values()
        if call.outcome not in {"granted", "nothing"}
        for token in call.tokens
    }
    for event in run.events:
        if isinstance(event, CountsAsEnded) and event.reason == "released":
            over.setdefault(event.token, event.at)
    return over


def _stays_in_queue(run: Run) -> list[_Stay]:
    """Every wait in the store, to its deadline at the latest: a waiter past its deadline is skipped."""
    deadlines: dict[str, float] = {}
    stays: list[_Stay] = []
    current: dict[str, _Stay] = {}
    for event in run.events:
        match event:
            case Joined():
                current[event.token] = _Stay(event.name, event.token, event.client, event.at)
                stays.append(current[event.token])
                deadlines[event.token] = event.deadline
            case AcquireRepeated():
                deadlines[event.token] = event.deadline
            case LeftQueue(token=token):
                current.pop(token).end = min(event.at, deadlines[token])
    for token, stay in current.items():
        stay.end = min(run.ended_at, deadlines[token])
    return stays


def _holds(run: Run) -> list[_Stay]:
    """Every hold in the store, to its true end."""
    stays: list[_Stay] = []
    current: dict[str, _Stay] = {}
    for event in run.events:
        match event:
            case HoldBegan():
                stay = _Stay(event.name, event.token, event.client, event.at, event.until, event.is_claimed)
                current[event.token] = stay
                stays.append(stay)
            case HoldExtended():
                current[event.token].end = event.until
            case HoldShifted() if event.token in current:
                stay = current[event.token]
                stay.delayed += max(0.0, event.until - stay.end)
                stay.end = max(event.at, event.until)
            case HoldEnded() if event.token in current:
                current[event.token].end = event.at
    return stays


def _free_times(run: Run) -> list[tuple[str, float, float]]:
    """The times at which a lock was free: name, from, to."""
    holds: defaultdict[str, list[_Stay]] = defaultdict(list)
    for stay in _holds(run):
        holds[stay.name].append(stay)
    free: list[tuple[str, float, float]] = []
    for name, stays in holds.items():
        held_until = 0.0
        for stay in stays:
            if held_until and stay.start > held_until:
                free.append((name, held_until, stay.start))
            held_until = max(held_until, stay.end)
        free.append((name, held_until, run.ended_at))
    return free
