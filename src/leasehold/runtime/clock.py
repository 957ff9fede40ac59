"""A clock that never steps and that runs while the machine sleeps.

`time.monotonic` stands still during suspend on Linux and macOS: after a suspend, a holder would rely on a lease that
ended hours ago.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _best_clock() -> Callable[[], float]:
    if sys.platform == "linux":
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC_RAW)
    return time.monotonic


now: Callable[[], float] = _best_clock()
"""Return the seconds since some fixed moment, suspended time included."""
