"""Checks of holds: S1, S2, S5, S6, and growing fences."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from tests.simulation.findings import Violation, short
from tests.simulation.history import (
    Arrived,
    ClockStepped,
    CountsAsEnded,
    CountsAsHeld,
    HoldBegan,
    HoldEnded,
    HoldExtended,
    HoldShifted,
    LeftQueue,
)
from tests.simulation.promised import Promised
from tests.simulation.scenario import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.history import Event
    from tests.simulation.scenario import Run

# Far below every time that matters, far above the rounding of floats.
_ROUNDING = 1e-6
# A not-after is in whole milliseconds, and the clocks differ in rate.
_INEXACT = 0.02


@dataclass(slots=True)
class _Window:
    """The time in which a client counted a lease as held."""

    name: str
    token: str
    mode: str
    start: float
    until: float
    cut_at: float

    @property
    def end(self) -> float:
        return min(self.until, self.cut_at)


def _windows(run: Run) -> Iterator[_Window]:
    """When each lease counted as held by its client, as far as that is promised.

    A take ends the window of the old holder, which cannot know of the take before its notification. So does a step of
    the server's clock, at the end that the store has for the lease.
    """
    windows: dict[tuple[str, int], _Window] = {}
    taken_at: dict[tuple[str, int], float] = {}
    promised = Promised()
    for event in run.events:
        promised.note(event)
        match event:
            case HoldEnded(at=at, token=token, why="taken"):
                lease = token, promised.fence_of(token)
                taken_at[lease] = at
                if lease in windows:
                    windows[lease].cut_at = min(windows[lease].cut_at, at)
            case CountsAsHeld(at, _, name, token, mode, fence, until):
                lease = token, fence
                # The grant may have been on its way when the lock was taken.
                cut_at = taken_at.get(lease, math.inf)
                window = windows.setdefault(lease, _Window(name, token, mode, at, until, cut_at))
                window.until = promised.until(lease, until)
            case HoldExtended(token=token) | HoldShifted(token=token):
                lease = token, promised.fence_of(token)
                if lease in windows:
                    windows[lease].until = promised.until(lease, windows[lease].until)
            case CountsAsEnded(at=at, token=token):
                for (of, _), window in windows.items():
                    window.cut_at = min(window.cut_at, at) if of == token else window.cut_at
            case _:
                pass
    yield from windows.values()


def check_exclusion(run: Run) -> Iterator[Violation]:
    """S1: hold windows, as reported by the clients, never overlap unless all of them only read."""
    by_name: defaultdict[str, list[_Window]] = defaultdict(list)
    for window in _windows(run):
        by_name[window.name].append(window)
    for name, held in by_name.items():
        for one, other in combinations(held, 2):
            overlap = min(one.end, other.end) - max(one.start, other.start)
            if overlap > _ROUNDING and "exclusive" in {one.mode, other.mode}:
                yield Violation(
                    "S1",
                    max(one.start, other.start),
                    f"{short(one.token)} ({one.mode}) and {short(other.token)} ({other.mode}) "
                    f"both hold {name!r} for {overlap:.4f} s",
                )


class _TokenStates:
    """For each token: its hold in the store, and until when its client counts it as held."""

    def __init__(self) -> None:
        self._promised = Promised()
        self._holds: dict[str, HoldBegan] = {}
        self._held_until: dict[str, float] = {}
        self._counts_until: dict[str, float] = {}
        self._was_taken: dict[str, int] = {}
        self._own_fence: dict[str, int] = {}
        self._is_over: set[str] = set()

    def note(self, event: Event) -> str | None:
        """Records an event; returns the violation, if it is one."""
        self._promised.note(event)
        match event:
            case HoldBegan(token=token):
                self._holds[token], self._held_until[token] = event, event.until
            case HoldExtended(at=at, token=token):
                self._held_until[token] = event.until
                is_shorter = (
                    self._counts_as_held(token, at) and event.until < self._counts_until[token] - _ROUNDING
                )
                lease = token, self._holds[token].fence
                if (
                    is_shorter
                    and not self._promised.is_excused(lease)
                    and lease[1] == self._own_fence.get(token)
                ):
                    return f"{short(token)} was shortened while its client counted it as held"
            case HoldShifted(token=token):
                self._held_until[token] = event.until
            case HoldEnded(at=at, token=token):
                self._held_until.pop(token, None)
                if event.why == "taken":
                    self._was_taken[token] = self._holds[token].fence
                elif self._counts_as_held(token, at):
                    return f"{short(token)} was released while its client counted it as held"
            case CountsAsEnded():
                self._is_over.add(event.token)
            case CountsAsHeld():
                return self._note_counts_as_held(event)
        return None

    def _note_counts_as_held(self, event: CountsAsHeld) -> str | None:
        token = event.token
        counts_until = self._counts_until.get(token, event.at)
        self._counts_until[token] = event.until
        self._own_fence[token] = event.fence
        if token in self._is_over or event.until <= event.at:
            return None
        if event.at > counts_until + _ROUNDING:
            return f"{short(token)} came back after its deadline"
        # The notification is on its way. A late acquire may have got the lock again since, with another fence.
        if self._was_taken.get(token) == event.fence or self._promised.is_excused((token, event.fence)):
            return None
        held_until = self._held_until.get(token, 0.0)
        if held_until < event.until - _ROUNDING:
            return f"{short(token)} counts as held {event.until - held_until:.4f} s too long"
        if self._holds[token].fence != event.fence:
            return f"{short(token)} has fence {self._holds[token].fence}, not the one in the client's reply"
        return None

    def _counts_as_held(self, token: str, at: float) -> bool:
        return token not in self._is_over and at < self._counts_until.get(token, 0.0) - _ROUNDING


def check_honesty(run: Run) -> Iterator[Violation]:
    """S2: while a client counts a lease as held, the store holds it, and a lost lease stays lost."""
    states = _TokenStates()
    for event in run.events:
        if wrong := states.note(event):
            yield Violation("S2", event.at, wrong)


def check_causes(run: Run) -> Iterator[Violation]:
    """S5: release and renew touch only their own token. S6: renew never re-creates a lease."""
    cause = Arrived(0.0, 0, "nothing", ())
    held_until: dict[str, float] = {}
    from_queue = ""
    for event in run.events:
        match event:
            case Arrived():
                cause = event
            case LeftQueue(why="granted"):
                from_queue = event.token
            case HoldEnded(at=at, token=token):
                held_until.pop(token, None)
                allowed = "take" if event.why == "taken" else "release"
                if cause.verb != allowed or (allowed == "release" and token not in cause.tokens):
                    yield Violation("S5", at, f"{short(token)} was ended by {_describe(cause)}")
            case HoldShifted(token=token) if token in held_until:
                held_until[token] = event.until
            case HoldExtended(at=at, token=token):
                if cause.verb not in {"renew", "shorten", "acquire"} or token not in cause.tokens:
                    yield Violation("S5", at, f"{short(token)} was extended by {_describe(cause)}")
                if held_until.get(token, 0.0) < at:
                    yield Violation(
                        "S6", at, f"{short(token)} had run out when {_describe(cause)} extended it"
                    )
                held_until[token] = event.until
            case HoldBegan(at=at, token=token):
                is_own = cause.verb in {"acquire", "acquire_all", "take"} and token in cause.tokens
                if cause.verb in {"renew", "shorten"} or not (is_own or token == from_queue):
                    yield Violation("S6", at, f"{short(token)} was granted by {_describe(cause)}")
                held_until[token] = event.until


def check_not_after(run: Run) -> Iterator[Violation]:
    """A take or `lock_all` that is delivered late does nothing: later than it may be done, or after the lease that it got."""
    over: set[str] = set()
    cause = Arrived(0.0, 0, "nothing", ())
    stepped_back = 0.0
    for event in run.events:
        match event:
            case Arrived():
                cause = event
            case CountsAsEnded(token=token):
                over.add(token)
            case ClockStepped():
                stepped_back += max(0.0, -event.by)
            case HoldBegan(at=at, token=token) if (
                cause.verb in {"take", "acquire_all"} and token in cause.tokens
            ):
                late = at - cause.sent_at
                if (token in over and not stepped_back) or late > TIMEOUT + stepped_back + _INEXACT:
                    yield Violation("late", at, f"{_describe(cause)} was done {late:.4f} s after it was sent")


def check_fences(run: Run) -> Iterator[Violation]:
    """S3, without data loss: fences strictly grow per lock, in the order of the grants."""
    last: dict[str, int] = {}
    for event in run.events:
        if isinstance(event, HoldBegan):
            if event.fence <= last.get(event.name, 0):
                yield Violation("S3", event.at, f"fence {event.fence} of {event.name!r} does not grow")
            last[event.name] = event.fence


def _describe(cause: Arrived) -> str:
    return f"{cause.verb} of {', '.join(map(short, cause.tokens))}"
