"""Every behaviour of files runs on every server in both worlds, and enough of them over a client that is not ours."""

from __future__ import annotations

import pytest
from tests.support.matrix import BORROWED, OURS, collected, combinations, missing
from tests.support.servers import FLAVOURS, REQUIRED

FLAVOURS_KNOWN = ("valkey9", "redis62", "redis7")
SIDES = ("async", "blocking")
HOWS = (OURS, BORROWED)


@pytest.fixture(scope="module")
def node_ids(pytestconfig: pytest.Config) -> list[str]:
    return collected(pytestconfig, "tests/files")


def test_no_combination_is_missing(node_ids: list[str], full: bool) -> None:
    flavours, hows = {*REQUIRED, *(FLAVOURS if full else ())}, HOWS if full else [OURS]
    behaviours = combinations(node_ids, FLAVOURS_KNOWN, SIDES, HOWS)
    assert missing(behaviours, flavours, SIDES, hows) == []
    assert missing(combinations(node_ids, SIDES, HOWS), SIDES, hows) == []
    assert missing(combinations(node_ids, FLAVOURS_KNOWN), flavours) == []
    assert len(behaviours) >= 60
    assert sum((REQUIRED[0], "async", BORROWED) in found for found in behaviours.values()) >= 25


def test_a_combination_that_is_taken_away_is_named(node_ids: list[str]) -> None:
    for gone, name in (
        ("test_file_locks.py::test_fences_grow_with_every_grant", "redis62 blocking connect"),
        ("test_file_locks.py::test_readers_share_a_file", "valkey9 async from_client"),
    ):
        left = [
            each for each in node_ids if not (gone in each and all(word in each for word in name.split()))
        ]
        assert len(left) == len(node_ids) - 1
        (complaint,) = missing(combinations(left, FLAVOURS_KNOWN, SIDES, HOWS), REQUIRED, SIDES, [OURS])
        assert complaint == f"tests/files/{gone} does not run on {name}"
