"""Detects where an outage of a store begins and ends, among calls that overlap."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outage:
    """An outage that is over: its length, as far as calls showed it, and the number of calls that failed."""

    seconds: float
    failures: int


class OutageTracker:
    """Tells the first failure of an outage from those after it. Safe to use from any thread.

    Calls overlap: one that was sent before the store failed may be answered after another has failed. So a call is
    evidence only about the time after it began.
    """

    def __init__(self) -> None:
        # Released by its owner only, and not in a `with`: see `leasehold.runtime.thread_runtime` for the reason.
        self._turn = threading.RLock()
        self._since: float | None = None
        self._over_at = float("-inf")
        self._failures = 0

    @staticmethod
    def now() -> float:
        """The time at which a call begins, as the other methods expect it."""
        return time.monotonic()

    def record_failure(self, began_at: float) -> bool:
        """Record a call without an answer; True if it is the first sign of an outage."""
        try:
            self._turn.acquire()
            if self._since is not None:
                self._failures += 1
                return False
            if began_at < self._over_at:
                return False  # it belongs to an outage that has been reported as over
            self._since, self._failures = self.now(), 1
            return True
        finally:
            try:  # noqa: SIM105 - a signal handler may raise before a function of Python, but not before `release`
                self._turn.release()
            except RuntimeError:  # interrupted before it was acquired
                pass

    def record_answer(self, began_at: float) -> Outage | None:
        """Record a call that was answered; the outage that this ends, if there was one."""
        try:
            self._turn.acquire()
            if self._since is None or began_at < self._since:
                return None
            self._over_at = self.now()
            over = Outage(self._over_at - self._since, self._failures)
            self._since = None
            return over
        finally:
            try:  # noqa: SIM105 - a signal handler may raise before a function of Python, but not before `release`
                self._turn.release()
            except RuntimeError:  # interrupted before it was acquired
                pass
