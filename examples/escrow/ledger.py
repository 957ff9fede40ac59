"""Moves money between a deal and accounts: lock, read, decide, write."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from examples.escrow.models import Account, Deal, Entry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

    from examples.escrow.service import Escrow
    from sqlalchemy.ext.asyncio import AsyncSession

    from leasehold import Lease


class Ledger:
    """A locked deal and its locked accounts. Call `read` first: `move` writes on the basis of what it read."""

    def __init__(self, escrow: Escrow, deal_id: int, deal_lease: Lease, leases: Mapping[int, Lease]) -> None:
        self._escrow = escrow
        self._deal_id = deal_id
        self._deal_lease = deal_lease
        self._leases = leases
        self._held = 0
        self.balances: dict[int, int] = {}

    async def read(self, session: AsyncSession) -> Deal:
        """Register our fences in the rows, so that earlier holders can no longer write, and then read them."""
        rows = self._escrow.rows
        deal = await rows.load(session, Deal, self._deal_id, self._deal_lease)
        for account_id, lease in self._leases.items():
            self.balances[account_id] = (await rows.load(session, Account, account_id, lease)).balance
        self._held = deal.held
        return deal

    async def move(self, session: AsyncSession, state: str, kinds: Mapping[str, tuple[int, int]]) -> None:
        """Write the deal's new state and the balances: ``kinds`` maps each kind of entry to an account and an amount."""
        rows = self._escrow.rows
        left = self._held - sum(amount for _, amount in kinds.values())
        await rows.write(session, Deal, self._deal_id, self._deal_lease, {"held": left, "state": state})
        changes = dict.fromkeys(self._leases, 0)
        for kind, (account_id, amount) in kinds.items():
            changes[account_id] += amount
            session.add(Entry(deal_id=self._deal_id, account_id=account_id, kind=kind, amount=amount))
        for account_id, change in changes.items():
            balance = self.balances[account_id] + change
            await rows.write(session, Account, account_id, self._leases[account_id], {"balance": balance})


@asynccontextmanager
async def hold(escrow: Escrow, deal_id: int, accounts: Iterable[int]) -> AsyncIterator[Ledger]:
    """Hold the deal, then the accounts. All other locks are acquired before these, so there are no deadlocks."""
    async with (
        escrow.ops.purpose("deal", deal_id=deal_id) as lease,
        escrow.balances(set(accounts)) as leases,
    ):
        yield Ledger(escrow, deal_id, lease, leases)
