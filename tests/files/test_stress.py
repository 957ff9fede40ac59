"""Many processes read and write the same files and are killed: no torn read, no two writers, no untrue report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.files.stress import Plan, run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Count
    from tests.files.stress_worker import Planted
    from tests.support.servers import Server


@pytest.mark.timeout(1500)
def test_files_stay_whole_and_reports_true_whichever_process_is_killed(
    valkey: Server, tmp_path: Path, count: Count
) -> None:
    plan = Plan(
        processes=count(full=20, quick=4),
        operations=count(full=500, quick=60),
        files=count(full=50, quick=8),
        kills=count(full=60, quick=6),
        patience=1400,
    )
    outcome = run(plan, valkey.url, tmp_path.resolve(), print)
    print(outcome)
    assert outcome.complaints == []
    assert outcome.counts["ended"] == plan.processes * plan.operations
    # That there was something to look at.
    assert outcome.kills == plan.kills
    assert outcome.counts["written"] > plan.processes * plan.operations / 5
    assert outcome.counts["report restored"] > 0
    assert len(outcome.leftovers) <= outcome.kills


def complaints_of(plan: Plan, url: str, scratch: Path) -> set[str]:
    scratch.mkdir(exist_ok=True)
    return {complaint.partition(":")[0] for complaint in run(plan, url, scratch.resolve()).complaints}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("planted", "found"),
    [("writes in place", {"torn read", "unexplained"}), ("restore made up", {"two at once"})],
    ids=["writes in place", "restore made up"],
)
def test_the_checker_finds_planted_errors(
    valkey: Server, tmp_path: Path, planted: Planted, found: set[str]
) -> None:
    """The crash that matters is planted, too, so it needs no luck."""
    assert found <= complaints_of(Plan(3, 16, 2, 0, ttl=1.5, planted=planted), valkey.url, tmp_path)


@pytest.mark.timeout(300)
def test_the_checker_finds_that_there_are_no_locks(valkey: Server, tmp_path: Path) -> None:
    """They begin together, and each of their many turns is mostly waiting: they meet however slow the machine."""
    found = complaints_of(Plan(3, 40, 2, 0, planted="no locks"), valkey.url, tmp_path)
    assert found >= {"two at once", "lost update"}
