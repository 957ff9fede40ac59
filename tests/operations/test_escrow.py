"""The escrow example: its books balance although its workers are paused and killed."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from examples.escrow.api import create_app
from examples.escrow.database import create_tables, open_accounts, open_engine
from examples.escrow.messages import open_queue
from examples.escrow.models import Mail, Notice
from examples.escrow.service import open_escrow
from examples.escrow.settings import Settings
from examples.escrow.worker import HANDLERS, Worker, is_retryable
from sqlalchemy import select
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from tests.support.eventually import LIMIT
from tests.support.launcher import launch
from tests.support.processes import ROOT

import leasehold

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.conftest import Count
    from tests.support.servers import Server

LONGEST = 480.0
"""The bounds of all phases of the longest run together; it takes a third of that."""

MONEY = {
    "balance is not what was booked",
    "money held is not what was booked",
    "payouts do not fit the state",
    "refunds do not fit the state",
    "deposit booked more than once",
    "accepted deposits are not what was booked",
    "accepted deposits are not what was received",
    "total money changed",
}
"""Errors in the books; other findings are work left undone, or reported twice."""


def run_load(*options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the report of a load test."""
    process = launch(
        [sys.executable, "-m", "examples.escrow", "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=str(ROOT),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    try:
        out, err = process.communicate(timeout=LONGEST)
    finally:
        process.kill()
        process.wait()
    assert out, f"the load test ended with {process.returncode}\n{err.decode(errors='replace')}"
    return process.returncode, json.loads(out)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_options(request: pytest.FixtureRequest, full: bool) -> Iterator[list[str]]:
    if request.param == "sqlite":
        yield []
        return
    if not full:
        pytest.skip("the load on PostgreSQL runs with --full")
    with request.getfixturevalue("postgres").database("escrow") as database:
        yield ["--database-url", database.url("asyncpg")]


@pytest.mark.timeout(LONGEST + 30)
def test_the_books_balance_although_workers_are_paused_and_killed(
    valkey: Server, database_options: list[str], count: Count
) -> None:
    seconds, workers = count(full=60, quick=3), count(full=8, quick=4)
    code, report = run_load(
        "--guards=on", f"--seconds={seconds}", f"--workers={workers}", "--seed=6",
        "--store-url", valkey.url, *database_options,
    )  # fmt: skip
    assert report["discrepancies"] == []
    assert report["stale_writes_refused"] > 0
    assert report["workers_killed"] > 0
    assert report["workers_paused"] > 0
    # Not all of them: a worker may be killed between acknowledging and reporting. None is left in the stream, or
    # there would be a discrepancy.
    assert report["messages_done"] > 0
    assert report["messages_sent"] > report["deals"] > 0
    assert code == 0


@pytest.mark.timeout(LONGEST + 30)
def test_without_fence_checks_the_same_faults_ruin_the_books(
    valkey: Server, database_options: list[str], full: bool
) -> None:
    if not full:
        pytest.skip("the control runs with --full")
    options = ["--guards=off", "--seconds=20", "--seed=6", "--store-url", valkey.url]
    code, report = run_load(*options, *database_options)
    assert {each["kind"] for each in report["discrepancies"]} & MONEY
    assert report["stale_writes_refused"] == 0
    assert code == 1


class Service:
    """The service in this process: requests, and a worker that does queued work on request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Service]:
        settings = self._settings
        async with open_engine(settings.database_url) as engine:
            await create_tables(engine)
            await open_accounts(engine, [("platform", 0), ("Ada", 1000), ("Bob", 0)])
        assert settings.store_url is not None
        async with (
            open_escrow(settings) as self.escrow,
            open_queue(settings.store_url, settings.namespace) as self.queue,
        ):
            transport = httpx.ASGITransport(app=create_app(self.escrow, self.queue))
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as self.http:
                yield self
            await self.queue.remove()

    async def post(self, path: str, *, expect: int, **body: Any) -> Any:
        answer = await self.http.post(path, json=body or None)
        assert answer.status_code == expect, answer.text
        return answer.json()

    async def get(self, path: str) -> Any:
        return (await self.http.get(path)).raise_for_status().json()

    async def work(self) -> list[str]:
        """Do all that is queued; what came of it."""
        outcomes: list[str] = []
        while messages := await self.queue.receive("test", wait=0.05):
            for message in messages:
                outcomes.append(await HANDLERS[message.kind](self.escrow, **message.fields))
                await self.queue.acknowledge(message)
        return outcomes


@pytest.fixture
async def service(valkey: Server, tmp_path: Path) -> AsyncIterator[Service]:
    environ = {
        "ESCROW_DATABASE_URL": f"sqlite+aiosqlite:///{tmp_path}/escrow.db",
        "ESCROW_STORE_URL": valkey.url,
        "LEASEHOLD_PURPOSE_DEAL_WAIT": "50ms",
        "LEASEHOLD_PURPOSE_DEAL_RETRY_INTERVAL": "20ms",
    }
    async with Service(Settings.from_environ(environ)).running() as running:
        yield running


async def test_a_deal_is_funded_and_paid_once_despite_duplicate_messages(service: Service) -> None:
    deal = (await service.post("/deals", expect=201, buyer_id=2, seller_id=3, price=500))["id"]
    for _ in range(2):
        await service.post(f"/deals/{deal}/deposits", expect=202, tx_hash="0x1", amount=200)
        await service.post(f"/deals/{deal}/deposits", expect=202, tx_hash="0x2", amount=300)
    assert await service.work() == ["accepted"] * 4
    assert await service.get(f"/deals/{deal}") == {"id": deal, "state": "funded", "price": 500, "held": 500}
    for _ in range(3):
        await service.post(f"/deals/{deal}/payout", expect=202)
    await service.post(f"/deals/{deal}/refund", expect=202)
    assert await service.work() == ["paid", "paid", "paid", "paid"]
    assert {each["owner"]: each["balance"] for each in await service.get("/accounts")} == {
        "platform": 10,
        "Ada": 500,
        "Bob": 490,
    }
    assert (await service.get("/books"))["discrepancies"] == []


async def test_work_that_was_done_but_not_recorded_is_not_repeated(service: Service, valkey: Server) -> None:
    deal = (await service.post("/deals", expect=201, buyer_id=2, seller_id=3, price=500))["id"]
    await service.post(f"/deals/{deal}/deposits", expect=202, tx_hash="0x1", amount=500)
    await service.post(f"/deals/{deal}/payout", expect=202)
    assert await service.work() == ["accepted", "paid"]
    with valkey.admin() as store:  # as if the worker had died between the commit and the word that it is done
        assert store.delete("idempotency:{deposit:0x1}", f"idempotency:{{payout:{deal}}}") == 2
    await service.post(f"/deals/{deal}/deposits", expect=202, tx_hash="0x1", amount=500)
    await service.post(f"/deals/{deal}/payout", expect=202)
    assert await service.work() == ["accepted", "paid"]
    assert (await service.get("/books"))["discrepancies"] == []


async def test_a_deal_that_is_being_worked_on_is_not_cancelled(service: Service) -> None:
    deal = (await service.post("/deals", expect=201, buyer_id=2, seller_id=3, price=500))["id"]
    async with service.escrow.ops.purpose("deal", deal_id=deal):
        assert (await service.post(f"/deals/{deal}/cancel", expect=409))["code"] == "acquire_timeout"
    assert await service.post(f"/deals/{deal}/cancel", expect=200) == {"state": "cancelled"}
    await service.post(f"/deals/{deal}/deposits", expect=202, tx_hash="0x1", amount=500)
    await service.post("/deals/999/payout", expect=404)
    assert await service.work() == ["rejected"]


async def test_a_worker_delivers_each_notification_once_and_reconciles(service: Service) -> None:
    deal = (await service.post("/deals", expect=201, buyer_id=2, seller_id=3, price=500))["id"]
    await service.post(f"/deals/{deal}/deposits", expect=202, tx_hash="0x1", amount=500)
    stop, told = asyncio.Event(), []
    rounds: Counter[str] = Counter()

    def tell(**event: Any) -> None:
        if event["event"] == "checked" and any(each["event"] == "done" for each in told):
            rounds[event["what"]] += 1
        told.append(event)
        # The first may have begun before the deposit was done, the second delivers, the third has nothing to do.
        if rounds["notifications"] >= 3 and rounds["reconciliation"] >= 1:
            stop.set()

    await asyncio.wait_for(Worker(service.escrow, service.queue, "test", tell).run(stop), LIMIT)
    async with service.escrow.sessions() as session:
        (notice,) = (await session.scalars(select(Notice))).all()
        (mail,) = (await session.scalars(select(Mail))).all()
    assert (notice.deal_id, notice.is_sent, mail.notice_id) == (deal, True, notice.id)
    books = await service.get("/books")
    assert books["checks"] >= 1
    assert books["discrepancies"] == []
    assert {"event": "done", "what": "deposit", "outcome": "accepted"} in told


UNUSABLE = {
    "a hash that no lock can have": {
        "kind": "deposit",
        "fields": '{"deal_id": 1, "tx_hash": "\\u0000", "amount": 1}',
    },
    "a deal that is not there": {"kind": "payout", "fields": '{"deal_id": 999}'},
    "an amount that is none": {
        "kind": "deposit",
        "fields": '{"deal_id": 1, "tx_hash": "0x2", "amount": "all"}',
    },
    "unknown fields": {"kind": "payout", "fields": '{"deal": 1}'},
    "an unknown kind": {"kind": "gift", "fields": "{}"},
    "no kind": {"fields": "{}"},
    "no fields": {"kind": "payout"},
    "no JSON": {"kind": "payout", "fields": "{"},
}


async def test_messages_that_cannot_be_processed_are_put_aside(service: Service, valkey: Server) -> None:
    deal = (await service.post("/deals", expect=201, buyer_id=2, seller_id=3, price=500))["id"]
    with valkey.admin() as store:
        for body in UNUSABLE.values():
            store.xadd("lock:escrow:commands", body)
    await service.post(f"/deals/{deal}/deposits", expect=202, tx_hash="0x1", amount=500)
    stop, told = asyncio.Event(), []

    def tell(**event: Any) -> None:
        told.append(event)
        if event["event"] == "done":
            stop.set()

    await asyncio.wait_for(Worker(service.escrow, service.queue, "test", tell).run(stop), LIMIT)
    assert {"event": "done", "what": "deposit", "outcome": "accepted"} in told
    assert sum(event["event"] == "put aside" for event in told) == len(UNUSABLE)
    assert await service.queue.count_aside() == len(UNUSABLE)
    assert await service.queue.backlog() == 0


@pytest.mark.parametrize("tx_hash", ["", "\0", "0x", "0xZ", "1", "0x1\n", "0x" + "1" * 99], ids=ascii)
async def test_an_invalid_hash_is_refused(service: Service, tx_hash: str) -> None:
    deal = (await service.post("/deals", expect=201, buyer_id=2, seller_id=3, price=500))["id"]
    await service.post(f"/deals/{deal}/deposits", expect=422, tx_hash=tx_hash, amount=1)
    assert await service.queue.backlog() == 0


@pytest.mark.parametrize("buyer_id", [999, 0, 2**63])
async def test_a_deal_of_unknown_accounts_is_a_client_error_and_not_a_busy_database(
    service: Service, buyer_id: int
) -> None:
    await service.post("/deals", expect=422, buyer_id=buyer_id, seller_id=3, price=500)


class FromServer(Exception):
    """An error as asyncpg raises it, with its SQLSTATE."""

    def __init__(self, sqlstate: str) -> None:
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("error", "is_transient"),
    [
        (OperationalError("", {}, sqlite3.OperationalError("database is locked")), True),
        (DBAPIError("", {}, FromServer("40001")), True),
        (DBAPIError("", {}, FromServer("40P01")), True),
        (DBAPIError("", {}, FromServer("08006")), True),
        (InterfaceError("", {}, Exception("closed"), connection_invalidated=True), True),
        (IntegrityError("", {}, sqlite3.IntegrityError("FOREIGN KEY constraint failed")), False),
        (IntegrityError("", {}, FromServer("23503")), False),
        (DataError("", {}, FromServer("22021")), False),
        (leasehold.LockBusy("deal:1"), True),
        (leasehold.InvalidRequest("a lock's name must not contain NUL"), False),
    ],
    ids=repr,
)
def test_only_transient_errors_are_retried(error: Exception, is_transient: bool) -> None:
    assert is_retryable(error) is is_transient
