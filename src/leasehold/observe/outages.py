"""One word when a store goes away, one when it is back, and nothing in between."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Outage:
    """One that is over: how long it took, as far as anybody asked, and how many calls it cost."""

    seconds: float
    failures: int


class Outages:
    """Tells the first failure of an outage from those after it. Any thread may ask.

    Calls overlap: one that was sent before the store failed may be answered after another has failed. So a call says
    something only about the time after it began.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._since: float | None = None
        self._over_at = float("-inf")
        self._failures = 0

    @staticmethod
    def now() -> float:
        """When a call begins, as the others want to know it."""
        return time.monotonic()

    def fails(self, began_at: float) -> bool:
        """A call that began then got no answer: whether that is the first sign of an outage."""
        with self._turn:
            if self._since is not None:
                self._failures += 1
                return False
            if began_at < self._over_at:
                return False  # what it met is over, and has been told
            self._since, self._failures = self.now(), 1
            return True

    def answers(self, began_at: float) -> Outage | None:
        """A call that began then was answered: the outage that is over by that, if there was one."""
        with self._turn:
            if self._since is None or began_at < self._since:
                return None
            self._over_at = self.now()
            over = Outage(self._over_at - self._since, self._failures)
            self._since = None
            return over
