"""Compares the replies of two stores: times within a tolerance, fences by their order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from leasehold.core.replies import Busy, Granted, LockInfo, QueueState, Refusal

TOLERANCE = 0.06
"""Seconds by which the two may differ about a time, because they did not run at the same instant."""


SHOWN_TOLERANCE = 2.0
"""Tolerance for the start of a hold: it is only displayed, so the client's estimate of the server's clock is enough."""


class DifferenceError(AssertionError):
    """The two stores gave different replies."""


@dataclass(slots=True)
class Fences:
    """The fences of one lock in both stores. The numbers differ, their order must not."""

    pairs: dict[int, int] = field(default_factory=dict)

    def check(self, real: int | None, model: int | None) -> None:
        if not real or not model:
            _check_equal(real or None, model or None, "fence")
            return
        known = self.pairs.setdefault(model, real)
        _check_equal(real, known, "fence")
        ordered = [self.pairs[fence] for fence in sorted(self.pairs)]
        if ordered != sorted(set(ordered)):
            raise DifferenceError(f"fences in another order: {self.pairs}")


def check_answers(real: Any, model: Any, fences: Fences) -> None:
    """Raises if the two replies to one request differ in anything that matters."""
    if type(real) is not type(model):
        raise DifferenceError(f"{real!r}, not {model!r}")
    match real:
        case Busy():
            _check_equal((real.holder, real.mode), (model.holder, model.mode), "busy by")
            _check_equal(real.position is None, model.position is None, "not waiting")
            # The scripts count before they skip dead waiters; the next look returns the exact number.
            if real.waiters < model.waiters or (real.position or 0) < (model.position or 0):
                raise DifferenceError(f"{real!r}, not {model!r}")
            _check_close(real.remaining, model.remaining)
            _check_close(real.held_since, model.held_since, SHOWN_TOLERANCE)
            _check_close(real.asked_at, model.asked_at)
        case QueueState():
            _check_close(real.read_at, model.read_at)
            _check_close(real.remaining, model.remaining)
            _check_all(real.places, model.places, fences)
        case Refusal():
            _check_equal(real.holder, model.holder, "holder")
            fences.check(real.fence, model.fence)
        case Granted():
            _check_equal(real.ticket, model.ticket, "ticket")
            fences.check(real.fence, model.fence)
            _check_close(real.granted_at, model.granted_at)
            _check_close(real.remaining, model.remaining)
        case LockInfo():
            _check_equal((real.mode, real.waiters), (model.mode, model.waiters), "mode and waiters")
            fences.check(real.fence, model.fence)
            _check_equal(len(real.holds), len(model.holds), "number of holds")
            for one, other in zip(real.holds, model.holds, strict=True):
                _check_equal(one.holder, other.holder, "holder")
                fences.check(one.fence, other.fence)
                _check_close(one.remaining, other.remaining)
                _check_close(one.held_since, other.held_since, SHOWN_TOLERANCE)
        case tuple() if type(real) is tuple:
            fences.check(real[0], model[0])
            _check_close(real[1], model[1])
        case list():
            _check_all(real, model, fences)
        case _:
            _check_equal(real, model, "answer")


def _check_all(real: Any, model: Any, fences: Fences) -> None:
    _check_equal(len(real), len(model), "number of replies")
    for one, other in zip(real, model, strict=True):
        check_answers(one, other, fences)


def _check_equal(real: Any, model: Any, what: str) -> None:
    if real != model:
        raise DifferenceError(f"{what} {real!r}, not {model!r}")


def _check_close(real: float | None, model: float | None, tolerance: float = TOLERANCE) -> None:
    if (real is None) != (model is None) or abs((real or 0.0) - (model or 0.0)) > tolerance:
        raise DifferenceError(f"time {real!r}, not {model!r}")
