"""The suite covers what it says: every behaviour on every flavour and every way in. And the checks can fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.contract.sides import SIDES, keys_that_stay
from tests.support.servers import REQUIRED

ROOT = Path(__file__).parents[2]


def has_system_redis_7() -> bool:
    """Found without the help of `tests.support`, which decides what the suite runs on."""
    for folder in dict.fromkeys([*os.get_exec_path(), *os.defpath.split(os.pathsep)]):
        binary = shutil.which("redis-server", path=folder)
        if binary and not Path(binary).resolve().is_relative_to(Path(sys.prefix).resolve()):
            told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
            return bool(re.search(r"v=([7-9]|\d\d)", told))
    return False


def flavours_wanted() -> set[str]:
    return {"valkey9", "redis62"} | ({"redis7"} if has_system_redis_7() else set())


def sides_of(parameters: str) -> tuple[str, str] | None:
    """Flavour and side from a test's parameters, `valkey9-blocking-redis-decoded-…`."""
    flavour, _, rest = parameters.partition("-")
    side = max((side for side in SIDES if f"{rest}-".startswith(f"{side}-")), key=len, default=None)
    return (flavour, side) if side else None


def combinations_by_test(node_ids: list[str]) -> dict[str, set[tuple[str, str]]]:
    found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for node_id in node_ids:
        test, _, parameters = node_id.rstrip("]").partition("[")
        if combination := sides_of(parameters):
            found[test].add(combination)
    return dict(found)


def flavours_by_test(node_ids: list[str]) -> dict[str, set[str]]:
    """For the tests that use every way in at once."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node_id in node_ids:
        test, _, parameters = node_id.rstrip("]").partition("[")
        flavour = parameters.partition("-")[0]
        if flavour in {"valkey9", "redis62", "redis7"} and not sides_of(parameters):
            found[test].add(flavour)
    return dict(found)


def what_is_missing(node_ids: list[str], flavours: set[str]) -> list[str]:
    """Sentences about what the suite does not cover; none when all is well."""
    wanted = {(flavour, side) for flavour in flavours for side in SIDES}
    missing = [
        f"{test} does not run on {flavour} by {side}"
        for test, found in combinations_by_test(node_ids).items()
        for flavour, side in sorted(wanted - found)
    ]
    missing += [
        f"{test} does not run on {flavour}"
        for test, found in flavours_by_test(node_ids).items()
        for flavour in sorted(flavours - found)
    ]
    covered = set().union(*combinations_by_test(node_ids).values(), set())
    missing += [f"nothing runs on {flavour} by {side}" for flavour, side in sorted(wanted - covered)]
    return missing


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """The suite as pytest collects it, whatever this run was asked for."""
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:randomly", "tests/contract"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in told.stdout.splitlines() if "::test_" in line]


def test_every_behaviour_runs_on_every_flavour_and_every_way_in(collected):
    assert what_is_missing(collected, flavours_wanted()) == []
    assert len(combinations_by_test(collected)) >= 40
    assert len(flavours_by_test(collected)) >= 5


def test_the_required_flavours_are_those_of_the_issue():
    assert set(REQUIRED) == {"valkey9", "redis62"}


def test_the_ways_in_are_those_of_the_issue():
    assert set(SIDES) == {
        "async",
        "blocking",
        *(f"{kind}-redis{decoded}" for kind in ("async", "blocking") for decoded in ("", "-decoded")),
    }


def test_a_missing_combination_is_noticed(collected):
    """Whatever is taken away, one flavour and side of one test or of all, somebody says so."""
    gone = [
        node_id
        for node_id in collected
        if {("redis62", "blocking")} not in combinations_by_test([node_id]).values()
    ]
    assert len(gone) < len(collected)
    assert "nothing runs on redis62 by blocking" in what_is_missing(gone, {"valkey9", "redis62"})
    one = next(node_id for node_id in collected if node_id.endswith("[valkey9-async-redis-decoded]"))
    without_one = [node_id for node_id in collected if node_id != one]
    (complaint,) = what_is_missing(without_one, {"valkey9", "redis62"})
    assert complaint.endswith("does not run on valkey9 by async-redis-decoded")


def test_a_missing_flavour_is_noticed(collected):
    assert what_is_missing(collected, {*flavours_wanted(), "redis9"}) != []
    at_once = next(node_id for node_id in collected if node_id.endswith("[redis62]"))
    (complaint,) = what_is_missing([n for n in collected if n != at_once], {"valkey9", "redis62"})
    assert complaint.endswith("does not run on redis62")


def test_an_empty_suite_is_noticed():
    assert len(what_is_missing([], {"valkey9", "redis62"})) == 2 * len(SIDES)


def test_a_key_that_stays_is_noticed(valkey):
    """The check after each test (S13) can fail."""
    with valkey.admin() as admin:
        admin.set("lock:{a}", "x", px=60_000)
        assert keys_that_stay(admin) == {}
        admin.set("lock:{b}:fence", "1")
        admin.set("lock:{c}:fence", "1", ex=172_900)
        assert set(keys_that_stay(admin)) == {b"lock:{b}:fence", b"lock:{c}:fence"}
        admin.flushall()
