"""Deals between a buyer and a seller: creates them, and cancels them before the first deposit."""

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
    """The deal is not in the right state yet; try again later."""


async def create(escrow: Escrow, *, buyer_id: int, seller_id: int, price: int) -> int:
    """Create a deal and the rows that its locks guard, and return its id."""
    async with escrow.sessions.begin() as session:
        deal = Deal(buyer_id=buyer_id, seller_id=seller_id, price=price, fee=price * FEE_PERCENT // 100)
        session.add(deal)
        await session.flush()
        session.add_all(part(deal_id=deal.id) for part in (Funding, Payout, Refund))
    return deal.id


async def get(escrow: Escrow, deal_id: int) -> Deal:
    """The deal, read without its lock: for the parties and amounts, which never change and determine the locks."""
    async with escrow.sessions() as session:
        return await session.get_one(Deal, deal_id)


async def in_state(escrow: Escrow, state: str) -> Sequence[int]:
    async with escrow.sessions() as session:
        return (await session.scalars(select(Deal.id).where(Deal.state == state))).all()


async def cancel(escrow: Escrow, deal_id: int, lease: Lease) -> str:
    """Cancel the deal unless there was a deposit, and return its state. ``lease`` is that of the deal."""
    async with escrow.sessions.begin() as session:
        deal = await escrow.rows.load(session, Deal, deal_id, lease)
    if deal.state != "created" or deal.held:
        return deal.state

    async def write(session: AsyncSession) -> None:
        await escrow.rows.write(session, Deal, deal_id, lease, {"state": "cancelled"})

    await escrow.write(write)
    return "cancelled"
