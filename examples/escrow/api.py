"""The service's HTTP API. Operations that move money are queued for the workers (202); a cancellation is immediate."""

from typing import TYPE_CHECKING, Annotated, Any

import uvicorn
from examples.escrow import deals
from examples.escrow.audit import find_discrepancies
from examples.escrow.database import is_transient
from examples.escrow.messages import Queue, open_queue
from examples.escrow.models import Account, Report
from examples.escrow.service import Escrow, open_escrow
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError, NoResultFound

from leasehold import Lease
from leasehold.operations.fastapi import held, install_problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from examples.escrow.settings import Settings


AccountId = Annotated[int, Field(gt=0, lt=2**31)]


class NewDeal(BaseModel):
    buyer_id: AccountId
    seller_id: AccountId
    price: Annotated[int, Field(gt=0, le=10**12)]


class NewDeposit(BaseModel):
    tx_hash: Annotated[str, Field(pattern=r"^0x[0-9a-f]{1,98}$")]
    amount: Annotated[int, Field(gt=0, le=10**12)]


def create_app(escrow: Escrow, queue: Queue) -> FastAPI:
    app = FastAPI(title="Escrow")
    install_problems(app)  # busy: 409, no store: 503, as problem+json
    app.add_exception_handler(DBAPIError, _database_problem)
    hold_deal = Depends(held(escrow.ops, "deal", deal_id=int))

    async def known(deal_id: int) -> int:
        try:
            await deals.get(escrow, deal_id)
        except NoResultFound:
            raise HTTPException(404, f"deal {deal_id} not found") from None
        return deal_id

    @app.post("/deals", status_code=201)
    async def create(new: NewDeal) -> dict[str, int]:
        return {"id": await deals.create(escrow, **new.model_dump())}

    @app.get("/deals")
    async def list_deals(state: str) -> list[int]:
        return list(await deals.in_state(escrow, state))

    @app.get("/deals/{deal_id}")
    async def show(deal_id: Annotated[int, Depends(known)]) -> dict[str, Any]:
        deal = await deals.get(escrow, deal_id)
        return {"id": deal.id, "state": deal.state, "price": deal.price, "held": deal.held}

    @app.post("/deals/{deal_id}/deposits", status_code=202)
    async def deposit(deal_id: Annotated[int, Depends(known)], new: NewDeposit) -> None:
        await queue.publish("deposit", {"deal_id": deal_id, **new.model_dump()})

    @app.post("/deals/{deal_id}/payout", status_code=202)
    async def pay_out(deal_id: Annotated[int, Depends(known)]) -> None:
        await queue.publish("payout", {"deal_id": deal_id})

    @app.post("/deals/{deal_id}/refund", status_code=202)
    async def refund(deal_id: Annotated[int, Depends(known)]) -> None:
        await queue.publish("refund", {"deal_id": deal_id})

    @app.post("/deals/{deal_id}/cancel")
    async def cancel(
        deal_id: Annotated[int, Depends(known)], lease: Annotated[Lease, hold_deal]
    ) -> dict[str, str]:
        return {"state": await deals.cancel(escrow, deal_id, lease)}

    @app.get("/accounts")
    async def accounts() -> list[dict[str, Any]]:
        async with escrow.sessions() as session:
            rows = await session.scalars(select(Account).order_by(Account.id))
            return [{"id": row.id, "owner": row.owner, "balance": row.balance} for row in rows]

    @app.get("/books")
    async def books() -> dict[str, Any]:
        async with escrow.sessions() as session:
            found = await find_discrepancies(session)
            report = await session.get_one(Report, 1)
        return {"checks": report.checks, "discrepancies": [each.as_json() for each in found]}

    return app


async def _database_problem(_: Request, error: Exception) -> JSONResponse:
    """The response to a database error. Nothing was changed; only transient errors get a Retry-After."""
    assert isinstance(error, DBAPIError)
    if is_transient(error):
        title, status, headers = "The database is busy", 503, {"Retry-After": "1"}
    elif isinstance(error, IntegrityError):
        title, status, headers = "The request refers to a row that does not exist", 422, None
    else:
        raise error
    return JSONResponse({"title": title}, status, headers, "application/problem+json")


async def serve(settings: "Settings", listening: "socket", started: "Callable[[], None]") -> None:
    """Serve the API on ``listening`` until a signal ends it."""
    assert settings.store_url is not None
    async with (
        open_escrow(settings) as escrow,
        open_queue(settings.store_url, settings.namespace) as queue,
    ):
        config = uvicorn.Config(create_app(escrow, queue), log_level="warning", access_log=False)
        started()
        await uvicorn.Server(config).serve(sockets=[listening])
