"""Deals: made by a buyer and a seller, cancelled while no money has come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.escrow.models import Deal, Funding, Payout, Refund
from sqlalchemy import select

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.escrow.service import Escrow
    from sqlalchemy.ext.asyncio import AsyncSession

    from leasehold import Lease

FEE_PERCENT = 2


class NotYetError(Exception):
    """The deal is not far enough for this; ask again later."""


async def create(escrow: Escrow, *, buyer_id: int, seller_id: int, price: int) -> int:
    """A new deal and the rows that its locks guard; its id."""
    async with escrow.sessions.begin() as session:
        deal = Deal(buyer_id=buyer_id, seller_id=seller_id, price=price, fee=price * FEE_PERCENT // 100)
        session.add(deal)
        await session.flush()
        session.add_all(part(deal_id=deal.id) for part in (Funding, Payout, Refund))
    return deal.id


async def terms_of(escrow: Escrow, deal_id: int) -> Deal:
    """The deal with what never changes of it: who, with whom, for how much. To know which locks are needed."""
    async with escrow.sessions() as session:
        return await session.get_one(Deal, deal_id)


async def in_state(escrow: Escrow, state: str) -> Sequence[int]:
    async with escrow.sessions() as session:
        return (await session.scalars(select(Deal.id).where(Deal.state == state))).all()


async def cancel(escrow: Escrow, deal_id: int, lease: Lease) -> str:
    """Cancel the deal, if nothing has been paid in; its state. ``lease`` is that of the deal."""
    async with escrow.sessions.begin() as session:
        deal = await escrow.rows.load(session, Deal, deal_id, lease)
    if deal.state != "created" or deal.held:
        return deal.state

    async def write(session: AsyncSession) -> None:
        await escrow.rows.write(session, Deal, deal_id, lease, {"state": "cancelled"})

    await escrow.write(write)
    return "cancelled"
