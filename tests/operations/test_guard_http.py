"""Fences in a header: httpx sends them, FastAPI receives them, and a stale one raises `StaleFence`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from tests.support.eventually import LIMIT

import leasehold
from leasehold import InvalidRequest, LeaseLost, StaleFence, blocking
from leasehold.operations.guards.http import (
    HEADER,
    FenceAuth,
    ReceivedFence,
    add_fence_problems,
    stale_fence_problem,
)
from leasehold.operations.guards.sql import Fenced, guarded_update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.servers import Server


class Base(DeclarativeBase):
    pass


class Deal(Fenced, Base):
    __tablename__ = "deals"
    id: Mapped[int] = mapped_column(primary_key=True)
    amount: Mapped[int]


def deals_app(directory: Path, *, with_problems: bool = True) -> FastAPI:
    engine = create_engine(f"sqlite:///{directory}/deals.db", connect_args={"timeout": LIMIT})
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Deal(id=42, amount=100))
        session.commit()
    app = FastAPI()
    app.state.engine = engine
    app.state.asked = 0
    if with_problems:
        add_fence_problems(app)

    @app.put("/deals/{deal_id}")
    def change(deal_id: int, amount: int, fence: ReceivedFence) -> dict[str, Any]:
        app.state.asked += 1
        with Session(engine) as session, session.begin():
            guarded_update(session, Deal, deal_id, fence, {"amount": amount})
        return {"fence": str(fence)}

    @app.put("/other-problem")
    def other() -> Any:
        from fastapi.responses import JSONResponse

        return JSONResponse({"code": "lock_busy"}, 409, media_type="application/problem+json")

    @app.put("/no-json")
    def no_json() -> Any:
        from fastapi.responses import Response

        return Response(b"\xff", 409, media_type="application/problem+json")

    return app


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    made = deals_app(tmp_path)
    yield made
    made.state.engine.dispose()


@pytest.fixture
def url(app: FastAPI, listening: Callable[[FastAPI], str]) -> str:
    """The application behind a real socket."""
    return listening(app)


def inside(app: FastAPI) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://deals")


async def test_the_fence_of_a_lease_reaches_the_row_and_a_stale_one_raises_stale_fence(
    url: str, valkey: Server
) -> None:
    with blocking.connect(valkey.url, timeout=LIMIT) as locks:
        old = locks.acquire("deal:42", ttl=60)
        new = locks.take("deal:42", ttl=60)
        paused = _still_sure_of_itself(old)
        with httpx.Client(base_url=url, timeout=LIMIT) as web:
            answer = web.put("/deals/42?amount=90", auth=FenceAuth(new))
            assert answer.json() == {"fence": str(new.fence)}
            with pytest.raises(StaleFence) as refused:
                web.put("/deals/42?amount=1", auth=FenceAuth(paused))
        assert (refused.value.seen, refused.value.given) == (new.fence, old.fence)
        async with httpx.AsyncClient(base_url=url, timeout=LIMIT) as web:
            await web.put("/deals/42?amount=80", auth=FenceAuth(new))
            with pytest.raises(StaleFence):
                await web.put("/deals/42?amount=1", auth=FenceAuth(paused))


def _still_sure_of_itself(lease: Any) -> Any:
    """The lease as seen by a holder that was paused right after the check."""
    from copy import copy

    paused = copy(lease)
    paused.ended = None
    paused.valid_until = float("inf")
    return paused


async def test_a_lost_lease_sends_nothing(app: FastAPI, valkey: Server) -> None:
    async with leasehold.connect(valkey.url, timeout=LIMIT) as locks, inside(app) as web:
        lease = await locks.acquire("deal:42", ttl=60)
        auth = FenceAuth(lease)
        assert (await web.put("/deals/42?amount=90", auth=auth)).status_code == 200
        await lease.release()
        with pytest.raises(LeaseLost, match="released"):
            await web.put("/deals/42?amount=1", auth=auth)
        assert app.state.asked == 1


async def test_only_exclusive_leases_can_be_sent(valkey: Server) -> None:
    async with (
        leasehold.connect(valkey.url, timeout=LIMIT) as locks,
        locks.lock("deal:42", ttl=60, mode="shared") as reader,
    ):
        with pytest.raises(InvalidRequest, match="exclusive"):
            FenceAuth(reader)
    with pytest.raises(InvalidRequest, match="takes a lease, not int"):
        FenceAuth(7)


async def test_other_responses_are_left_to_the_caller(app: FastAPI, valkey: Server) -> None:
    async with (
        leasehold.connect(valkey.url, timeout=LIMIT) as locks,
        inside(app) as web,
        locks.lock("deal:42", ttl=60) as lease,
    ):
        for path in ("/other-problem", "/no-json"):
            assert (await web.put(path, auth=FenceAuth(lease))).status_code == 409
        assert (await web.put("/nowhere", auth=FenceAuth(lease))).status_code == 404


async def test_a_stale_fence_is_a_problem_with_what_was_seen_and_given_as_text(app: FastAPI) -> None:
    async with inside(app) as web:
        newest = 2**52
        assert (await web.put("/deals/42?amount=90", headers={HEADER: str(newest)})).status_code == 200
        answer = await web.put("/deals/42?amount=1", headers={HEADER: "7"})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["code"], problem["type"], problem["status"]) == ("stale_fence", "stale_fence", 409)
    assert (problem["seen"], problem["given"]) == (str(newest), "7")


async def test_a_request_without_a_fence_is_refused(app: FastAPI) -> None:
    async with inside(app) as web:
        answer = await web.put("/deals/42?amount=1")
    assert answer.status_code == 428
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "invalid_request"
    assert HEADER in answer.json()["message"]
    assert app.state.asked == 0


MALFORMED = [
    "",
    " ",
    "x",
    "-1",
    "+1",
    "1.0",
    "1e3",
    "0x1",
    "1_000",
    "007",
    "1,2",
    "1 2",
    "٣",
    str(2**52 + 1),
    "9" * 400,
]


async def test_a_malformed_fence_is_refused(app: FastAPI) -> None:
    async with inside(app) as web:
        for value in MALFORMED:
            answer = await web.put("/deals/42?amount=1", headers=[(HEADER.encode(), value.encode())])
            assert answer.status_code == 400, value
            assert answer.headers["content-type"] == "application/problem+json"
            assert (answer.json()["code"], answer.json()["status"]) == ("invalid_request", 400)
        twice = await web.put("/deals/42?amount=1", headers=[(HEADER, "7"), (HEADER, "8")])
        assert twice.status_code == 400
        assert "2 times" in twice.json()["message"]
        assert app.state.asked == 0
        assert (await web.put("/deals/42?amount=1", headers={HEADER.lower(): "0"})).status_code == 200


async def test_without_the_handlers_a_missing_fence_is_still_refused(tmp_path: Path) -> None:
    app = deals_app(tmp_path, with_problems=False)
    async with inside(app) as web:
        answer = await web.put("/deals/42?amount=1")
    assert answer.status_code == 428
    assert answer.headers["content-type"] == "application/problem+json"
    assert HEADER in answer.json()["detail"]
    app.state.engine.dispose()


async def test_the_header_is_in_the_openapi_document(app: FastAPI) -> None:
    (parameter,) = [
        parameter
        for parameter in app.openapi()["paths"]["/deals/{deal_id}"]["put"]["parameters"]
        if parameter["in"] == "header"
    ]
    assert parameter["name"] == HEADER


def test_the_response_to_a_stale_fence_can_be_built_explicitly() -> None:
    answer = stale_fence_problem(None, StaleFence(seen=9, given=8))
    assert answer.status_code == 409
    assert b'"seen":"9"' in answer.body
