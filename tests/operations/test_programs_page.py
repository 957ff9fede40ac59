"""Runs every example of docs/programs.md as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
import redis
from sqlalchemy import create_engine
from sqlalchemy.orm import Mapped, mapped_column, sessionmaker
from tests.support.eventually import LIMIT, eventually_async
from tests.support.pages import Page

import leasehold
from leasehold.operations import STANDARD, Operations, Purpose, Purposes
from leasehold.operations.guards.http import ReceivedFence, add_fence_problems
from leasehold.operations.guards.sql import Fenced, guarded_update
from leasehold.operations.guards.valkey import guarded_set

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fastapi import FastAPI
    from tests.support.pages import Example
    from tests.support.servers import Server

PAGE = Page("docs/programs.md")
ROWS = "class Deal(Fenced, Base)"


def test_every_python_block_of_the_page_on_programs_is_run() -> None:
    assert PAGE.left_out() == []


@pytest.fixture
def names(names: dict[str, Any]) -> dict[str, Any]:
    return names | {"ops": Operations(names["locks"])}


@PAGE.runs("Purposes.from_environ(")
async def test_purposes(example: Example, names: dict[str, Any], capsys) -> None:
    await example.run(names)
    await names["main"]()
    assert capsys.readouterr().out == "paying under payout:42 for 60.0 s\nclosing under deal:42\n"


def test_the_file_of_purposes(tmp_path: Path) -> None:
    path = tmp_path / "locks.toml"
    path.write_text(PAGE["[purposes.loyalty]"].code, encoding="utf-8")
    purposes = Purposes.from_toml(path, base=STANDARD)
    assert (purposes["payout"].ttl, purposes["payout"].wait, purposes["payout"].retry_interval) == (
        90,
        5,
        0.05,
    )
    loyalty = Purpose("loyalty", "loyalty:{user_id}", wait=None, retry_interval=0.05, renew=False)
    assert purposes["loyalty"] == loyalty


@PAGE.runs("locks.once(")
async def test_work_that_is_done_once(
    example: Example, names: dict[str, Any], valkey: Server, capsys
) -> None:
    await example.run(names)
    assert names["receipt"] == {"paid": 100}
    assert capsys.readouterr().out == "paying\na new deposit\n"
    assert valkey.call("EXISTS", "idempotency:{payout:42}", "idempotency:{deposit:0xabc}") == 2
    await example.run(names)
    assert capsys.readouterr().out == ""


async def amount(names: dict[str, Any]) -> int:
    async with names["sessions"]() as session:
        return (await session.get_one(names["Deal"], 42)).amount


@PAGE.runs(ROWS)
async def test_rows_are_guarded(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)
    assert await amount(names) == 85
    async with names["sessions"].begin() as session:
        with pytest.raises(leasehold.StaleFence):
            await guarded_update(session, names["Deal"], 42, 1, {"amount": 1})
        with pytest.raises(leasehold.LeaseLost):
            await guarded_update(session, names["Deal"], 42, names["lease"], {"amount": 1})


@PAGE.runs("guarded_get(")
async def test_keys_are_guarded(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)
    assert await names["client"].get("balance:7") == b"10"
    assert await names["client"].exists("guard:{balance:7}")
    with pytest.raises(leasehold.StaleFence):
        await guarded_set(names["client"], "balance:7", 0, 1)


@PAGE.runs("ReceivedFence, add_fence_problems")
async def test_requests_are_guarded(example: Example, names: dict[str, Any]) -> None:
    await PAGE[ROWS].run(names)
    await example.run(names)
    assert await amount(names) == 70
    refused = await names["web"].put("/deals/42?amount=1", headers={"Leasehold-Fence": "1"})
    assert (refused.status_code, refused.json()["code"]) == (409, "stale_fence")
    missing = await names["web"].put("/deals/42?amount=1")
    assert missing.status_code == 428
    assert await amount(names) == 70


@PAGE.runs("leasehold.blocking.connect(url) as locks")
async def test_guards_with_threads(
    example: Example, names: dict[str, Any], tmp_path: Path, listening: Callable[[FastAPI], str]
) -> None:
    class Deal(Fenced, names["Base"]):
        __tablename__ = "deals"
        id: Mapped[int] = mapped_column(primary_key=True)
        amount: Mapped[int]

    engine = create_engine(f"sqlite:///{tmp_path}/deals.db")
    sessions = sessionmaker(engine)
    found: list[int] = []
    add_fence_problems(names["app"])

    @names["app"].put("/deals/{deal_id}")
    def change(deal_id: int, amount: int, fence: ReceivedFence) -> None:
        with sessions.begin() as session:
            found.append(session.get_one(Deal, deal_id).amount)
            guarded_update(session, Deal, deal_id, fence, {"amount": amount})

    with (
        redis.Redis.from_url(names["url"], decode_responses=True) as client,
        httpx.Client(base_url=listening(names["app"]), timeout=LIMIT) as web,
    ):
        await example.run(names | {"Deal": Deal, "sessions": sessions, "client": client, "web": web})
        assert client.get("deal:42:state") == "paid"
        refused = web.put("/deals/42?amount=1", headers={"Leasehold-Fence": "1"})
    assert (refused.status_code, refused.json()["code"]) == (409, "stale_fence")
    assert found == [90, 70]  # by the request of the example, and by the one that was refused
    with sessions() as session:
        assert session.get_one(Deal, 42).amount == 70
    engine.dispose()


@PAGE.runs("held(")
async def test_fastapi(example: Example, names: dict[str, Any]) -> None:
    await example.run(names)
    transport = httpx.ASGITransport(app=names["app"])
    async with (
        names["ops"].locks as locks,
        httpx.AsyncClient(transport=transport, base_url="http://x") as web,
    ):
        assert (await web.post("/deals/42/close")).json() == {"closed under": "deal:42"}
        async with locks.lock("deal:42"):
            busy = await web.post("/deals/42/close", timeout=LIMIT)
    assert (busy.status_code, busy.json()["code"]) == (409, "acquire_timeout")


@PAGE.runs("LockMiddleware(")
async def test_message_consumers(example: Example, names: dict[str, Any], capsys) -> None:
    await example.run(names)
    said = ""

    def has_paid() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return "paying 42 under payout:42" in said and "paying 43" in said

    async with names["ops"].locks, names["broker"] as broker:
        await broker.start()
        for deal_id in (42, 42, 43):
            await broker.publish({"deal_id": deal_id}, stream="payouts")
        await eventually_async(has_paid)
    assert said.count("paying 42") == 1
