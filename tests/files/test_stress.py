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
def test_files_stay_whole_and_reports_true_whoever_is_killed(
    valkey: Server, tmp_path: Path, count: Count
) -> None:
    plan = Plan(
        processes=count(full=20, quick=6),
        operations=count(full=500, quick=60),
        files=count(full=50, quick=12),
        kills=count(full=60, quick=10),
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


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("no locks", {"two at once", "lost update"}),
        ("writes in place", {"torn read", "unexplained"}),
        ("restore made up", {"two at once"}),
    ],
    ids=["no locks", "writes in place", "restore made up"],
)
def test_the_checker_finds_what_is_planted(
    valkey: Server, tmp_path: Path, planted: Planted, found: set[str]
) -> None:
    complaints: set[str] = set()
    for attempt in range(3):  # a kill may miss the moment that matters
        plan = Plan(4, 16, 2, 0 if planted == "no locks" else 7, ttl=1.5, seed=str(attempt), planted=planted)
        scratch = tmp_path.resolve() / str(attempt)
        scratch.mkdir()
        complaints |= {complaint.partition(":")[0] for complaint in run(plan, valkey.url, scratch).complaints}
        if found <= complaints:
            return
    assert found <= complaints
