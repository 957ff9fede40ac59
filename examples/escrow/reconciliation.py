"""Reconciliation: at intervals one worker checks the books while the others write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.escrow.audit import find_discrepancies
from examples.escrow.models import Report

from leasehold import LockBusy

if TYPE_CHECKING:
    from examples.escrow.service import Escrow
    from sqlalchemy.ext.asyncio import AsyncSession


async def reconcile(escrow: Escrow) -> int | None:
    """The number of discrepancies, also stored in the report; None if another worker is checking."""
    try:
        async with escrow.ops.purpose("reconciliation") as lease:
            async with escrow.sessions.begin() as session:
                report = await escrow.rows.load(session, Report, 1, lease)
            async with escrow.sessions() as session:
                found = len(await find_discrepancies(session))

            async def write(session: AsyncSession) -> None:
                values = {"checks": report.checks + 1, "discrepancies": found}
                await escrow.rows.write(session, Report, 1, lease, values)

            await escrow.write(write)
            return found
    except LockBusy:
        return None
