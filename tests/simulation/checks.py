"""Every promise that a run is held against."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.check_holding import check_causes, check_exclusion, check_fences, check_honesty
from tests.simulation.check_progress import check_calls, check_hand_over, check_settling, check_the_dead
from tests.simulation.check_queues import check_order, check_readers

if TYPE_CHECKING:
    from tests.simulation.findings import Violation
    from tests.simulation.scenario import Run

CHECKERS = (
    check_exclusion,
    check_honesty,
    check_causes,
    check_fences,
    check_settling,
    check_the_dead,
    check_hand_over,
    check_order,
    check_readers,
    check_calls,
)


def violations(run: Run) -> list[Violation]:
    """What the run has broken, in order of time."""
    return sorted((found for check in CHECKERS for found in check(run)), key=lambda found: found.at)
