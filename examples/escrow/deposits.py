"""Deposits: money from the buyer's account into the deal. Identified by the hash of their transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.escrow import deals, ledger
from examples.escrow.models import Deposit, Funding, Notice
from sqlalchemy import select

if TYPE_CHECKING:
    from examples.escrow.service import Escrow
    from sqlalchemy.ext.asyncio import AsyncSession

    from leasehold import Lease


async def receive(escrow: Escrow, *, deal_id: int, tx_hash: str, amount: int) -> str:
    """``accepted``, or ``rejected`` if the deal takes no money; the same outcome for every delivery."""
    async with escrow.ops.purpose("deposit", deal_id=deal_id) as lease:
        return await escrow.once("deposit", tx_hash, lambda: _book(escrow, deal_id, tx_hash, amount, lease))


async def _book(escrow: Escrow, deal_id: int, tx_hash: str, amount: int, lease: Lease) -> str:
    deal_terms = await deals.get(escrow, deal_id)
    async with ledger.hold(escrow, deal_id, [deal_terms.buyer_id]) as book:
        async with escrow.sessions.begin() as session:
            funding = await escrow.rows.load(session, Funding, deal_id, lease)
            deal = await book.read(session)
            known = await session.scalar(select(Deposit).where(Deposit.tx_hash == tx_hash))
        if known is not None:  # an earlier run booked it and died before `once` recorded that
            return "accepted" if known.is_accepted else "rejected"
        total = funding.received + amount
        is_accepted = (
            deal.state == "created" and total <= deal.price and book.balances[deal_terms.buyer_id] >= amount
        )

        async def write(session: AsyncSession) -> None:
            received = total if is_accepted else funding.received
            await escrow.rows.write(session, Funding, deal_id, lease, {"received": received})
            session.add(Deposit(tx_hash=tx_hash, deal_id=deal_id, amount=amount, is_accepted=is_accepted))
            if not is_accepted:
                return
            state = "funded" if total == deal.price else "created"
            await book.move(session, state, {"deposit": (deal_terms.buyer_id, -amount)})
            if state == "funded":
                session.add(Notice(deal_id=deal_id, text="Your deal is funded"))

        await escrow.write(write, accounts=[deal_terms.buyer_id])
    return "accepted" if is_accepted else "rejected"
