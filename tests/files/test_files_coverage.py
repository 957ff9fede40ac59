"""Every behaviour of files runs on every server for asyncio and threads, and enough of them over a redis-py client."""

from __future__ import annotations

import pytest
from tests.support.matrix import BORROWED, OURS, collected, combinations, missing
from tests.support.servers import SERVERS

FLAVOURS = ("valkey9", "redis62", "redis7")
SIDES = ("async", "blocking")
HOWS = (OURS, BORROWED)


@pytest.fixture(scope="module")
def node_ids(pytestconfig: pytest.Config) -> list[str]:
    return collected(pytestconfig, "tests/files")


def test_no_combination_is_missing(node_ids: list[str], full: bool) -> None:
    hows = HOWS if full else [OURS]
    behaviours = combinations(node_ids, FLAVOURS, SIDES, HOWS)
    assert missing(behaviours, SERVERS, SIDES, hows) == []
    assert missing(combinations(node_ids, SIDES, HOWS), SIDES, hows) == []
    assert missing(combinations(node_ids, FLAVOURS), SERVERS) == []
    assert len(behaviours) >= 60
    assert sum((SERVERS[0], "async", BORROWED) in found for found in behaviours.values()) >= 25


def test_a_combination_that_is_taken_away_is_named() -> None:
    ids = [
        f"tests/a.py::test_a[{server}-{side}-{OURS}]" for server in ("valkey9", "redis62") for side in SIDES
    ]
    for gone in ids:
        found = combinations([each for each in ids if each != gone], FLAVOURS, SIDES, HOWS)
        named = gone.partition("[")[2].rstrip("]").replace("-", " ")
        assert missing(found, ("valkey9", "redis62"), SIDES, [OURS]) == [
            f"tests/a.py::test_a does not run on {named}"
        ]
