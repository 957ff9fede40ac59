"""The suite is complete: every behaviour runs on every flavour and every side. And the checks can fail."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.contract.clients import (
    ALL_TOPOLOGIES,
    DECODED,
    OURS,
    SIDES,
    TOPOLOGIES,
    keys_that_stay,
    sides_of,
    stores,
)
from tests.support.servers import SERVERS

ROOT = Path(__file__).parents[2]
FLAVOURS = {"valkey9", "redis62", "redis7", *ALL_TOPOLOGIES}
TWO = frozenset({"valkey9", "redis62"})
"""The flavours of the example suites here, independent of this run."""


def combination_of(parameters: str) -> tuple[str, str] | None:
    """Flavour and side from a test's parameters, `valkey9-blocking-redis-decoded-…`."""
    flavour, _, rest = parameters.partition("-")
    side = max((side for side in SIDES if f"{rest}-".startswith(f"{side}-")), key=len, default=None)
    return (flavour, side) if side else None


def combinations_by_test(node_ids: list[str]) -> dict[str, set[tuple[str, str]]]:
    found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for node_id in node_ids:
        test, _, parameters = node_id.rstrip("]").partition("[")
        if combination := combination_of(parameters):
            found[test].add(combination)
    return dict(found)


def flavours_by_test(node_ids: list[str]) -> dict[str, set[str]]:
    """The flavours of each test that uses every side at once."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node_id in node_ids:
        test, _, parameters = node_id.rstrip("]").partition("[")
        flavour = parameters.partition("-")[0]
        if flavour in FLAVOURS and not combination_of(parameters):
            found[test].add(flavour)
    return dict(found)


def is_decoded(node_id: str) -> bool:
    combination = combination_of(node_id.rstrip("]").partition("[")[2])
    return combination is not None and combination[1] in DECODED


def is_on_topology(node_id: str) -> bool:
    return node_id.partition("[")[2].partition("-")[0].rstrip("]") in ALL_TOPOLOGIES


def what_is_missing(
    node_ids: list[str], flavours: set[str] = frozenset(SERVERS), sides: tuple[str, ...] = SIDES
) -> list[str]:
    """A sentence for each missing combination."""
    wanted = {(flavour, side) for flavour in flavours for side in sides if side in sides_of(flavour)}
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


def what_is_missing_without_full(
    node_ids: list[str], flavours: frozenset[str] = frozenset(SERVERS)
) -> list[str]:
    """The same for a run without `--full`, in which only marked tests run by the decoded ways in and on topologies."""
    on_topology = [node_id for node_id in node_ids if is_on_topology(node_id)]
    plain = [node_id for node_id in node_ids if not is_decoded(node_id) and not is_on_topology(node_id)]
    decoded = [node_id for node_id in node_ids if is_decoded(node_id)]
    modules = {node_id.partition("::")[0] for node_id in combinations_by_test(plain)}
    return [
        *what_is_missing(plain, flavours, tuple(side for side in SIDES if side not in DECODED)),
        *what_is_missing(decoded, flavours, DECODED),
        *what_is_missing(on_topology, set(TOPOLOGIES), OURS),
        *(
            f"nothing runs on a topology in {module}"
            for module in sorted(modules - {node_id.partition("::")[0] for node_id in on_topology})
        ),
        *(
            f"no reply is decoded in {module}"
            for module in sorted(modules - {node_id.partition("::")[0] for node_id in decoded})
        ),
    ]


def collect(*options: str) -> list[str]:
    """The suite as pytest collects it, independent of this run's selection."""
    finished = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:randomly",
            "tests/contract",
            *options,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in finished.stdout.splitlines() if "::test_" in line]


def suite(sides: tuple[str, ...] = SIDES) -> list[str]:
    """A suite of two behaviours, one for each side and one for all at once."""
    return [
        *(f"tests/a.py::test_a[{flavour}-{side}]" for flavour in sorted(TWO) for side in sides),
        *(f"tests/a.py::test_b[{flavour}]" for flavour in sorted(TWO)),
        *(f"tests/a.py::test_a[{topology}-{side}]" for topology in TOPOLOGIES for side in OURS),
    ]


def test_every_behaviour_runs_on_every_flavour_every_side_and_every_topology() -> None:
    collected = collect("--full")
    assert what_is_missing(collected, set(stores(ALL_TOPOLOGIES))) == []
    assert len(combinations_by_test(collected)) >= 40
    assert len(flavours_by_test(collected)) >= 5


def test_without_full_every_behaviour_runs_on_every_flavour_and_marked_ones_also_decoded() -> None:
    collected = collect()
    assert what_is_missing_without_full(collected) == []
    assert len(combinations_by_test(collected)) >= 40
    assert len(combinations_by_test([node_id for node_id in collected if is_decoded(node_id)])) >= 25


def test_the_sides_are_the_documented_ones() -> None:
    assert set(SIDES) == {
        "async",
        "blocking",
        *(f"{kind}-redis{decoded}" for kind in ("async", "blocking") for decoded in ("", "-decoded")),
    }


def test_a_missing_combination_is_found() -> None:
    assert what_is_missing(suite(), TWO) == []
    flavour, gone = "valkey9", "async-redis-decoded"
    without_one = [node_id for node_id in suite() if node_id != f"tests/a.py::test_a[{flavour}-{gone}]"]
    assert what_is_missing(without_one, TWO) == [
        f"tests/a.py::test_a does not run on {flavour} by {gone}",
        f"nothing runs on {flavour} by {gone}",
    ]
    (complaint,) = what_is_missing([n for n in suite() if n != f"tests/a.py::test_b[{flavour}]"], TWO)
    assert complaint == f"tests/a.py::test_b does not run on {flavour}"


def test_a_missing_flavour_is_found() -> None:
    assert what_is_missing(suite(), {*TWO, "redis9"}) != []


def test_a_missing_combination_is_found_without_full() -> None:
    assert what_is_missing_without_full(suite(), TWO) == []
    assert "no reply is decoded in tests/a.py" in what_is_missing_without_full(
        suite(("async", "blocking")), TWO
    )
    lacking = [n for n in suite() if n != "tests/a.py::test_a[valkey9-blocking-redis-decoded]"]
    assert "tests/a.py::test_a does not run on valkey9 by blocking-redis-decoded" in (
        what_is_missing_without_full(lacking, TWO)
    )


def test_a_missing_topology_is_found() -> None:
    everywhere = {*TWO, *TOPOLOGIES}
    rest = [f"tests/a.py::test_b[{topology}]" for topology in TOPOLOGIES]
    assert what_is_missing([*suite(), *rest], everywhere) == []
    assert what_is_missing([*suite(), *rest[1:]], everywhere) == [
        "tests/a.py::test_b does not run on sentinel"
    ]
    lacking = [node_id for node_id in suite() if node_id != "tests/a.py::test_a[sentinel-blocking]"]
    assert "tests/a.py::test_a does not run on sentinel by blocking" in what_is_missing_without_full(
        lacking, TWO
    )
    without = [node_id for node_id in suite() if not is_on_topology(node_id)]
    assert "nothing runs on a topology in tests/a.py" in what_is_missing_without_full(without, TWO)


def test_an_empty_suite_is_found() -> None:
    assert len(what_is_missing([], TWO)) == 2 * len(SIDES)


def test_a_key_without_expiry_is_found(valkey) -> None:
    """The check after each test (S13) can fail."""
    with valkey.admin() as admin:
        admin.set("lock:{a}", "x", px=60_000)
        assert keys_that_stay(admin) == {}
        admin.set("lock:{b}:fence", "1")
        admin.set("lock:{c}:fence", "1", ex=172_900)
        assert set(keys_that_stay(admin)) == {b"lock:{b}:fence", b"lock:{c}:fence"}
        admin.flushall()
