"""Every promise that is checked on a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.check_holding import (
    check_causes,
    check_exclusion,
    check_fences,
    check_honesty,
    check_not_after,
)
from tests.simulation.check_progress import (
    check_calls,
    check_dead_clients,
    check_hand_over,
    check_orphan_cleanup,
)
from tests.simulation.check_queues import check_order, check_readers

if TYPE_CHECKING:
    from tests.simulation.findings import Violation
    from tests.simulation.scenario import Run

CHECKERS = (
    check_exclusion,
    check_honesty,
    check_causes,
    check_not_after,
    check_fences,
    check_orphan_cleanup,
    check_dead_clients,
    check_hand_over,
    check_order,
    check_readers,
    check_calls,
)


def violations(run: Run) -> list[Violation]:
    """The violations of a run, in order of time."""
    return sorted((found for check in CHECKERS for found in check(run)), key=lambda found: found.at)
