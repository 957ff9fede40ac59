"""Checks of queues: no newcomer passes a live waiter, and no live waiter loses its place."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.findings import Violation, short
from tests.simulation.history import AcquireRepeated, Arrived, HoldBegan, Joined, LeftQueue, SeenAlive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.scenario import Run

# The store counts in whole milliseconds.
_RESOLUTION = 0.002


@dataclass(slots=True)
class _Queue:
    """The queue of one lock, in order of arrival."""

    waiters: dict[str, Joined] = field(default_factory=dict)
    deadlines: dict[str, float] = field(default_factory=dict)
    alive_until: dict[int, float] = field(default_factory=dict)

    def alive(self, at: float, *, for_sure: bool = True) -> list[Joined]:
        """The live waiters, in order; if not ``for_sure``, also those whose time has just ended."""
        soon = at + _RESOLUTION if for_sure else at - _RESOLUTION
        return [
            waiter
            for token, waiter in self.waiters.items()
            if self.deadlines[token] > soon and self.alive_until.get(waiter.client, 0.0) > soon
        ]

    def note(self, event: object) -> None:
        match event:
            case Joined():
                self.waiters[event.token] = event
                self.deadlines[event.token] = event.deadline
            case AcquireRepeated():
                self.deadlines[event.token] = event.deadline
            case SeenAlive():
                self.alive_until[event.client] = event.alive_until


def check_order(run: Run) -> Iterator[Violation]:
    """FIFO: a token that is granted the lock, except by force, has no live waiter before it; no live waiter is dropped."""
    queues: defaultdict[str, _Queue] = defaultdict(_Queue)
    cause = Arrived(0.0, 0, "nothing", ())
    ahead: dict[str, list[Joined]] = {}
    for event in run.events:
        match event:
            case Arrived():
                cause = event
            case Joined(name=name) | AcquireRepeated(name=name) | SeenAlive(name=name):
                queues[name].note(event)
            case LeftQueue(at=at, name=name, token=token):
                alive = queues[name].alive(at)
                me = queues[name].waiters.pop(token)
                if event.why == "granted":
                    ahead[token] = alive[: alive.index(me)] if me in alive else []
                elif event.why == "dropped" and me in alive:
                    yield Violation("FIFO", at, f"{short(token)} was dropped although it is alive")
            case HoldBegan(at=at, name=name, token=token):
                # A token that was not in the queue has passed every waiter in it.
                passed = ahead.pop(token, None)
                passed = queues[name].alive(at) if passed is None else passed
                if passed and not (cause.verb == "take" and token in cause.tokens):
                    others = ", ".join(short(waiter.token) for waiter in passed)
                    yield Violation("FIFO", at, f"{short(token)} got {name!r} before {others}")


def check_readers(run: Run) -> Iterator[Violation]:
    """Adjacent readers in the queue are granted together."""
    queues: defaultdict[str, _Queue] = defaultdict(_Queue)
    let_in: dict[str, float] = {}
    for event in run.events:
        match event:
            case Arrived():
                # The store has finished the step before.
                for name, at in let_in.items():
                    first = next(iter(queues[name].alive(at, for_sure=False)), None)
                    if first is not None and first.mode == "shared" and first in queues[name].alive(at):
                        yield Violation(
                            "FIFO", at, f"reader {short(first.token)} was left in the queue of {name!r}"
                        )
                let_in = {}
            case Joined(name=name) | AcquireRepeated(name=name) | SeenAlive(name=name):
                queues[name].note(event)
            case LeftQueue(name=name, why=why):
                left = queues[name].waiters.pop(event.token, None)
                if left is not None and left.mode == "exclusive" and why == "left":
                    let_in.pop(name, None)  # it stood between the readers when they were let in
            case HoldBegan(mode="shared"):
                let_in[event.name] = event.at
