"""Every behaviour of documents runs on every server, and enough of them over a client that is not ours."""

from __future__ import annotations

import pytest
from tests.support.matrix import BORROWED, OURS, collected, combinations, missing
from tests.support.servers import FLAVOURS, REQUIRED

FLAVOURS_KNOWN = ("valkey9", "redis62", "redis7")
HOWS = (OURS, BORROWED)


@pytest.fixture(scope="module")
def node_ids(pytestconfig: pytest.Config) -> list[str]:
    return collected(pytestconfig, "tests/documents")


def test_no_combination_is_missing(node_ids: list[str], full: bool) -> None:
    flavours = {*REQUIRED, *(FLAVOURS if full else ())}
    behaviours = combinations(node_ids, FLAVOURS_KNOWN, HOWS)
    assert missing(behaviours, flavours, HOWS if full else [OURS]) == []
    assert missing(combinations(node_ids, FLAVOURS_KNOWN), flavours) == []
    assert len(behaviours) >= 90
    assert sum((REQUIRED[0], BORROWED) in found for found in behaviours.values()) >= 30


def test_a_combination_that_is_taken_away_is_named(node_ids: list[str]) -> None:
    for gone, name in (
        ("test_locks_verbs.py::test_moving_a_free_lock_acquires_it", "redis62 connect"),
        ("test_locks_verbs.py::test_a_free_document_is_granted", "valkey9 from_client"),
    ):
        left = [
            each for each in node_ids if not (gone in each and all(word in each for word in name.split()))
        ]
        assert len(left) == len(node_ids) - 1
        (complaint,) = missing(combinations(left, FLAVOURS_KNOWN, HOWS), REQUIRED, [OURS])
        assert complaint == f"tests/documents/{gone} does not run on {name}"
