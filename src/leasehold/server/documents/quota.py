"""The space of each owner: the versions and drafts of the documents that they created."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sqlalchemy import func, select

from leasehold.errors import QuotaExceeded
from leasehold.server.db.models import DocumentRow

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession

UNLIMITED = math.inf

# A version takes space even if it is empty.
_PER_ROW = 256


def stored_size(encoded: str) -> int:
    """The bytes that a version or draft with this content counts."""
    return len(encoded.encode()) + _PER_ROW


def check_space(used: int, size: int, *, at_most: float) -> None:
    """`QuotaExceeded` if ``size`` more bytes would be above the quota of the document's owner, who has ``used`` some."""
    if used + size > at_most:
        raise QuotaExceeded(
            f"the versions and drafts of this document's owner would have {used + size} bytes, and at most {at_most:.0f} "
            "are allowed: delete documents of theirs that are no longer needed"
        )


async def check_document_count(db: AsyncSession, owner_id: str, *, at_most: float) -> None:
    """`QuotaExceeded` if the owner has as many documents as are allowed. The caller has locked the account."""
    count = await db.scalar(select(func.count()).where(DocumentRow.owner_id == owner_id))
    if (count or 0) >= at_most:
        raise QuotaExceeded(
            f"you have created {count} documents, and at most {at_most:.0f} are allowed: delete those no longer needed"
        )
