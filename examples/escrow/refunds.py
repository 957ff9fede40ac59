"""The refund of a deal: the deposits go back to the buyer. Identified by the deal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.escrow import deals, ledger
from examples.escrow.models import Notice, Refund

if TYPE_CHECKING:
    from examples.escrow.service import Escrow
    from sqlalchemy.ext.asyncio import AsyncSession

    from leasehold import Lease


async def refund(escrow: Escrow, *, deal_id: int) -> str:
    """``refunded``, or the deal's other final state."""
    async with escrow.ops.purpose("refund", deal_id=deal_id) as lease:
        return await escrow.once("refund", deal_id, lambda: _refund(escrow, deal_id, lease))


async def _refund(escrow: Escrow, deal_id: int, lease: Lease) -> str:
    deal_terms = await deals.get(escrow, deal_id)
    async with ledger.hold(escrow, deal_id, [deal_terms.buyer_id]) as book:
        async with escrow.sessions.begin() as session:
            await escrow.rows.load(session, Refund, deal_id, lease)
            deal = await book.read(session)
        if deal.state not in {"created", "funded"}:
            return deal.state

        async def write(session: AsyncSession) -> None:
            await escrow.rows.write(session, Refund, deal_id, lease, {"amount": deal.held})
            await book.move(session, "refunded", {"refund": (deal_terms.buyer_id, deal.held)})
            session.add(Notice(deal_id=deal_id, text="You have got your money back"))

        await escrow.write(write, accounts=[deal_terms.buyer_id])
    return "refunded"
