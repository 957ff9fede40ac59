"""What README.md shows is run, so that it stays true."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from examples.wiki import Page as WikiPage
from examples.wiki import Wiki, signed_in
from tests.operations.pages import ROOT, Page
from tests.support.waiting import LIMIT, eventually_async

import leasehold
from leasehold.documents import Editor, Grant
from leasehold.operations import STANDARD, Operations, Purposes
from leasehold.operations.guards.sql import guarded_update
from leasehold.operations.guards.valkey import guarded_set

if TYPE_CHECKING:
    from pathlib import Path

    from tests.operations.pages import Example

PAGE = Page("README.md")
ROWS_AND_KEYS = "load_for_update("


def test_every_python_block_of_the_readme_is_run() -> None:
    assert PAGE.left_out() == []


@pytest.fixture
def names(names: dict[str, Any]) -> dict[str, Any]:
    # The time for which a deal's lock is waited for in vain.
    purposes = Purposes.from_environ({"LEASEHOLD_PURPOSE_DEAL_WAIT": "50ms"}, base=STANDARD)
    return names | {"ops": Operations(names["locks"], purposes)}


@PAGE.runs("asyncio.run(main())")
def test_the_first_example_is_a_program_and_needs_no_server(example: Example, tmp_path: Path) -> None:
    first, second = example.run_alone(XDG_DATA_HOME=str(tmp_path)).splitlines()
    assert re.fullmatch(r"fence \d{16} for 30 s", first)
    assert second == "None"


@PAGE.runs("ops.guarded(")
async def test_purposes_and_guarded_functions_take_their_locks(
    example: Example, names: dict[str, Any], capsys
) -> None:
    del names["ops"]
    await example.run(names)
    assert capsys.readouterr().out == "paying under payout:42 for 60.0 s\nclosing 42\n"
    assert names["ops"].purposes["loyalty"].lock_name(user_id=7) == "loyalty:7"


@PAGE.runs("locks.once(")
async def test_a_payout_is_made_once_and_a_deposit_is_new_once(
    example: Example, names: dict[str, Any], capsys
) -> None:
    await example.run(names)
    assert names["receipt"] == names["again"] == {"paid": 100}
    assert capsys.readouterr().out == "a new deposit\n"
    assert await names["locks"].once("payout:42", lambda: pytest.fail("run again")) == {"paid": 100}
    assert not await names["locks"].first_time("deposit", "0xabc")


async def amount(names: dict[str, Any]) -> int:
    async with names["sessions"]() as session:
        return (await session.get_one(names["Deal"], 42)).amount


@PAGE.runs(ROWS_AND_KEYS)
async def test_rows_and_keys_take_the_fence_and_refuse_an_older_one(
    example: Example, names: dict[str, Any]
) -> None:
    await example.run(names)
    assert await amount(names) == 90
    assert await names["client"].get("balance:7") == b"10"
    async with names["sessions"].begin() as session:
        with pytest.raises(leasehold.StaleFence):
            await guarded_update(session, names["Deal"], 42, 1, {"amount": 1})
    with pytest.raises(leasehold.StaleFence):
        await guarded_set(names["client"], "balance:7", 0, 1)


@PAGE.runs("FenceAuth(")
async def test_a_request_shows_its_fence_and_a_stale_one_is_answered_with_409(
    example: Example, names: dict[str, Any]
) -> None:
    await PAGE[ROWS_AND_KEYS].run(names)
    await example.run(names)
    assert await amount(names) == 70
    refused = await names["web"].put("/deals/42?amount=1", headers={"Leasehold-Fence": "1"})
    assert (refused.status_code, refused.json()["code"]) == (409, "stale_fence")
    missing = await names["web"].put("/deals/42?amount=1")
    assert missing.status_code == 428
    assert await amount(names) == 70


@PAGE.runs("held(")
async def test_an_endpoint_runs_under_its_lock_or_not_at_all(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)
    assert (await names["web"].post("/deals/42/close")).json() == "closed under deal:42"
    async with names["locks"].lock("deal:42"):
        busy = await names["web"].post("/deals/42/close", timeout=LIMIT)
    assert (busy.status_code, busy.headers["content-type"]) == (409, "application/problem+json")
    assert int(busy.headers["retry-after"]) > 0


@PAGE.runs("LockMiddleware(")
async def test_a_consumer_does_each_payout_once_under_its_lock(
    example: Example, names: dict[str, Any], capsys
) -> None:
    await example.run(names)
    said = ""

    def has_paid() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return "paying 42\n" in said and "paying 43\n" in said

    async with names["broker"] as broker:
        await broker.start()
        for deal_id in (42, 42, 43):
            await broker.publish({"deal_id": deal_id}, stream="payouts")
        await eventually_async(has_paid)
    assert said.count("paying 42\n") == 1


@PAGE.runs("FileLocks(locks, root=root)")
async def test_an_agent_writes_a_file_under_its_lock(
    example: Example, names: dict[str, Any], tmp_path: Path, capsys
) -> None:
    (tmp_path / "src").mkdir()
    await example.run(names | {"root": tmp_path})
    assert re.fullmatch(r"written under fence \d{16}\n", capsys.readouterr().out)
    assert (tmp_path / "src" / "app.py").read_bytes() == b"class New: ...\n"


def test_everything_the_readme_leads_to_is_there() -> None:
    text = (ROOT / PAGE.path).read_text(encoding="utf-8")
    led_to = set(re.findall(r"\]\((?!https?:)([^)#]+)", text))
    assert {"docs/files.md", "docs/images/take-over.png", "web/packages/react/README.md"} <= led_to
    assert [path for path in led_to if not (ROOT / path).exists()] == []


@PAGE.runs("lock_router(locks")
async def test_an_application_gets_locks_for_its_own_pages(example: Example, names: dict[str, Any]) -> None:
    pages = Wiki(home=WikiPage(Grant("home", Editor("", ""), 0)))
    await example.run(names | {"signed_in": signed_in, "policy": pages, "pages": pages})
    ana, olga = ({"Authorization": f"Bearer {name}"} for name in ("ana", "olga"))
    assert (await names["web"].post("/api/documents/home/lock", headers=ana)).status_code == 200
    busy = await names["web"].post("/api/documents/home/lock", headers=olga)
    assert (busy.status_code, busy.json()["lock_holder"]["user_name"]) == (409, "Ana")
