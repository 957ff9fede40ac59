"""The servers and ways in that a behaviour of documents or files runs on, and what of these is missing."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
OURS, BORROWED = "connect", "from_client"
"""Our own connection, and a redis-py client of the application."""

Combination = tuple[str, ...]

_COLLECTED = pytest.StashKey[list[str]]()


def ways_in(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    """Our own connection; and a redis-py client where the test is marked `every_way_in`, or with `--full`."""
    is_marked = metafunc.definition.get_closest_marker("every_way_in") is not None
    return (OURS, BORROWED) if is_marked or metafunc.config.getoption("--full") else (OURS,)


def note_collected(item: pytest.Item) -> None:
    """Remember a test that this run has collected, for `collected`."""
    item.config.stash.setdefault(_COLLECTED, []).append(item.nodeid)


def collected(config: pytest.Config, folder: str) -> list[str]:
    """The node ids of all tests in a folder: those of this run if it has collected the folder, or of a new one."""
    seen = [each for each in config.stash.get(_COLLECTED, []) if each.startswith(f"{folder}/")]
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).glob("test_*.py")}
    if {each.partition("::")[0] for each in seen} == modules and not any("::" in arg for arg in config.args):
        return seen
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", folder]
    if config.getoption("--full"):
        command.append("--full")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "::test_" in line]


def combinations(node_ids: Iterable[str], *axes: Iterable[str]) -> dict[str, set[Combination]]:
    """By test, with its other parameters, the combinations it runs on; tests that lack an axis are left out."""
    found: defaultdict[str, set[Combination]] = defaultdict(set)
    for node_id in node_ids:
        test, _, parameters = node_id.removesuffix("]").partition("[")
        rest = parameters.split("-")
        combination = []
        for axis in map(frozenset, axes):
            if value := next((each for each in rest if each in axis), None):
                rest.remove(value)
                combination.append(value)
        if len(combination) == len(axes):
            found[f"{test}[{'-'.join(rest)}]" if rest else test].add(tuple(combination))
    return dict(found)


def missing(found: dict[str, set[Combination]], *wanted: Iterable[str]) -> list[str]:
    """Sentences about combinations that a test does not run on. The last of ``wanted`` are the ways in.

    A test that runs over a redis-py client at all has to do so everywhere.
    """
    *axes, hows = wanted
    sentences = []
    for test, has in sorted(found.items()):
        expected = set(product(*axes, {*hows, *(combination[-1] for combination in has)}))
        sentences += [f"{test} does not run on {' '.join(each)}" for each in sorted(expected - has)]
    return sentences
