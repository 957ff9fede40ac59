"""The checkers can fail: each bug planted here is caught, by the promise that it breaks, within a few seeds."""

from __future__ import annotations

import pytest
from tests.simulation.checks import violations
from tests.simulation.planted_bugs import PLANTED
from tests.simulation.scenario import play

# The rarest of them shows in one of twenty seeds.
SEEDS = 120


def caught_by(promise, make_model):
    """The first seed that breaks the promise."""
    for seed in range(SEEDS):
        if promise in {violation.promise for violation in violations(play(seed, make_model=make_model))}:
            return seed
    return None


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_caught(bug, monkeypatch):
    promise, plant, make_model = PLANTED[bug]
    plant(monkeypatch)
    assert caught_by(promise, make_model) is not None, f"{SEEDS} seeds did not show that {bug}"
