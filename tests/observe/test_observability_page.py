"""Runs every example of docs/observability.md as it is written, and compares its metrics with the code."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import REGISTRY, CollectorRegistry
from tests.support.pages import ROOT, Example, Page

import leasehold
from leasehold.observe.metrics import LockMetrics
from leasehold.server.app.metrics import ServerMetrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.servers import Server

PAGE = Page("docs/observability.md")
TEXT = (ROOT / "docs" / "observability.md").read_text(encoding="utf-8")


@pytest.fixture
async def names(valkey: Server) -> AsyncIterator[dict[str, Any]]:
    async with leasehold.connect(valkey.url) as locks:
        yield {"url": valkey.url, "locks": locks}


def test_every_python_block_of_the_page_on_observability_is_run() -> None:
    assert PAGE.left_out() == []


@PAGE.runs("observe(locks, purpose_of")
async def test_one_call_observes_a_client(example: Example, names: dict[str, Any]) -> None:
    labels = {"kind": "lock", "purpose": "payout", "outcome": "success"}
    before = REGISTRY.get_sample_value("leasehold_acquire_seconds_count", labels) or 0
    await example.run(names)
    assert REGISTRY.get_sample_value("leasehold_acquire_seconds_count", labels) == before + 1


@PAGE.runs("start_http_server(9100")
async def test_the_default_registry_is_served(example: Example, names: dict[str, Any]) -> None:
    example.code = example.code.replace("9100", "0")  # which may be in use here
    await example.run(names)
    names["server"].shutdown()
    names["server"].server_close()
    names["thread"].join()


@PAGE.runs("outgoing_headers()")
async def test_ids_are_propagated(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)
    await names["web"].aclose()


def test_the_page_names_every_metric_and_no_other() -> None:
    registry = CollectorRegistry()
    LockMetrics(registry)
    there = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for each in (registry, ServerMetrics().registry)
        for family in each.collect()
    }
    assert len(there) > 15
    said = set(re.findall(r"`((?:leasehold|orchestrator)_[a-z_]+)`", TEXT))
    assert said == there


def test_alerts_use_metrics_that_exist() -> None:
    (rules,) = [block for block in PAGE.blocks if block.language == "yaml"]
    asked = {
        name.removesuffix("_bucket")
        for name in re.findall(r"(?:leasehold|orchestrator)_[a-z_]+(?=[\[{])", rules.code)
    }
    assert len(asked) == 5
    assert asked <= set(re.findall(r"`((?:leasehold|orchestrator)_[a-z_]+)`", TEXT))


def test_an_observer_is_added_as_the_page_says(names: dict[str, Any]) -> None:
    path = re.search(r"`locks\.(\w+)\.add\(", TEXT)
    assert path is not None
    assert callable(getattr(names["locks"], path[1]).add)


def test_the_log_line_on_the_page_is_real() -> None:
    (line,) = [block for block in PAGE.blocks if block.language == "json"]
    assert json.loads(line.code)["event"] == "acquire"
