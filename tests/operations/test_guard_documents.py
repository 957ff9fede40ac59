"""What the page on guarantees shows of guards is run as written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.orm import Mapped, mapped_column
from tests.operations.pages import Page

import leasehold
from leasehold.operations.guards.sql import guarded_update

if TYPE_CHECKING:
    from tests.operations.pages import Example

PAGE = Page("docs/guarantees.md")
ROWS = "load_for_update("


def test_every_python_block_of_the_page_on_guarantees_is_run() -> None:
    assert PAGE.left_out() == []


@pytest.fixture
def names(names: dict[str, Any]) -> dict[str, Any]:
    return names | {"Mapped": Mapped, "mapped_column": mapped_column}


async def amount(names: dict[str, Any]) -> int:
    async with names["sessions"]() as session:
        return (await session.get_one(names["Deal"], 42)).amount


@PAGE.runs(ROWS)
async def test_rows_are_guarded_as_shown(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)
    assert await amount(names) == 85
    async with names["sessions"].begin() as session:
        with pytest.raises(leasehold.LeaseLost):
            await guarded_update(session, names["Deal"], 42, names["lease"], {"amount": 1})


@PAGE.runs("guarded_set(")
async def test_keys_are_guarded_as_shown(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)
    assert await names["client"].get("balance") == b"10"


@PAGE.runs("FenceAuth(")
async def test_requests_are_guarded_as_shown(example: Example, names: dict[str, Any]) -> None:
    await PAGE[ROWS].run(names)
    await example.run(names)
    assert await amount(names) == 70
    refused = await names["web"].put("/deals/42?amount=1", headers={"Leasehold-Fence": "1"})
    assert (refused.status_code, refused.json()["code"]) == (409, "stale_fence")
