"""Every behaviour of documents runs on every server, and enough of them over redis-py."""

from __future__ import annotations

import pytest
from tests.support.matrix import BORROWED, OURS, collected, combinations, missing
from tests.support.servers import SERVERS

FLAVOURS = ("valkey9", "redis62", "redis7")
HOWS = (OURS, BORROWED)


@pytest.fixture(scope="module")
def node_ids(pytestconfig: pytest.Config) -> list[str]:
    return collected(pytestconfig, "tests/documents")


def test_no_combination_is_missing(node_ids: list[str], full: bool) -> None:
    behaviours = combinations(node_ids, FLAVOURS, HOWS)
    assert missing(behaviours, SERVERS, HOWS if full else [OURS]) == []
    assert missing(combinations(node_ids, FLAVOURS), SERVERS) == []
    assert len(behaviours) >= 90
    assert sum((SERVERS[0], BORROWED) in found for found in behaviours.values()) >= 30


def test_a_combination_that_is_taken_away_is_named() -> None:
    servers = ("valkey9", "redis62")
    ids = [f"tests/a.py::test_a[{server}-{how}-more]" for server in servers for how in HOWS]
    assert missing(combinations(ids, FLAVOURS, HOWS), servers, [OURS]) == []
    for gone in ids:
        left = [each for each in ids if each != gone]
        server, how, _ = gone.partition("[")[2].split("-")
        assert missing(combinations(left, FLAVOURS, HOWS), servers, [OURS]) == [
            f"tests/a.py::test_a[more] does not run on {server} {how}"
        ]
    ours = [each for each in ids if OURS in each]
    assert missing(combinations(ours, FLAVOURS, HOWS), servers, [OURS]) == []
    assert len(missing(combinations(ours, FLAVOURS, HOWS), servers, HOWS)) == len(servers)
