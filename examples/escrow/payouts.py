"""The payout of a deal: the price to the seller, less the fee. Identified by the deal, which has at most one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.escrow import deals, ledger
from examples.escrow.models import PLATFORM, Notice, Payout

if TYPE_CHECKING:
    from examples.escrow.service import Escrow
    from sqlalchemy.ext.asyncio import AsyncSession

    from leasehold import Lease


async def pay_out(escrow: Escrow, *, deal_id: int) -> str:
    """``paid``, or the deal's other final state. `NotYetError` while it is not funded."""
    async with escrow.ops.purpose("payout", deal_id=deal_id) as lease:
        return await escrow.once("payout", deal_id, lambda: _pay(escrow, deal_id, lease))


async def _pay(escrow: Escrow, deal_id: int, lease: Lease) -> str:
    deal_terms = await deals.get(escrow, deal_id)
    parties = [deal_terms.seller_id, PLATFORM]
    async with ledger.hold(escrow, deal_id, parties) as book:
        async with escrow.sessions.begin() as session:
            await escrow.rows.load(session, Payout, deal_id, lease)
            deal = await book.read(session)
        if deal.state == "created":
            raise deals.NotYetError(f"deal {deal_id} is not funded")
        if deal.state != "funded":
            return deal.state

        async def write(session: AsyncSession) -> None:
            amount = deal.held - deal_terms.fee
            await escrow.rows.write(session, Payout, deal_id, lease, {"amount": amount})
            await book.move(
                session, "paid", {"payout": (deal_terms.seller_id, amount), "fee": (PLATFORM, deal_terms.fee)}
            )
            session.add(Notice(deal_id=deal_id, text="You have been paid"))

        await escrow.write(write, accounts=parties)
    return "paid"
