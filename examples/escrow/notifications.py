"""The outbox: one worker at a time delivers the notifications that all workers write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.escrow.models import Mail, Notice
from sqlalchemy import func, select

from leasehold import InProgress, LockBusy

if TYPE_CHECKING:
    from examples.escrow.service import Escrow
    from sqlalchemy.ext.asyncio import AsyncSession

    from leasehold import Lease


async def deliver(escrow: Escrow, *, limit: int = 20) -> None:
    """Send up to ``limit`` notifications, the oldest first; none if another worker is doing so."""
    try:
        async with escrow.ops.purpose("outbox_poller") as lease:
            for notice_id in await _unsent(escrow, limit):
                await _deliver_one(escrow, notice_id, lease)
    except LockBusy:
        return


async def count_unsent(escrow: Escrow) -> int:
    async with escrow.sessions() as session:
        unsent = select(func.count()).select_from(Notice).where(Notice.is_sent.is_(False))
        return await session.scalar(unsent) or 0


async def _unsent(escrow: Escrow, limit: int) -> list[int]:
    async with escrow.sessions() as session:
        oldest = select(Notice.id).where(Notice.is_sent.is_(False)).order_by(Notice.id).limit(limit)
        return list(await session.scalars(oldest))


async def _deliver_one(escrow: Escrow, notice_id: int, lease: Lease) -> None:
    try:
        await escrow.once(
            "notification", notice_id, lambda: _send(escrow, notice_id, lease), purpose="outbox_poller"
        )
    except InProgress:
        return  # an earlier worker may still be sending it; it stays unsent for the next run


async def _send(escrow: Escrow, notice_id: int, lease: Lease) -> None:
    async with escrow.sessions.begin() as session:
        notice = await escrow.rows.load(session, Notice, notice_id, lease)
    if notice.is_sent:
        return

    async def write(session: AsyncSession) -> None:
        await escrow.rows.write(session, Notice, notice_id, lease, {"is_sent": True})
        session.add(Mail(notice_id=notice_id))  # represents a mail server that takes part in the transaction

    await escrow.write(write)
