"""What a document was at each of its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from leasehold.errors import NotFound
from leasehold.server.db.engine import reading
from leasehold.server.db.models import UserRow, VersionRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.server.http.paging import Slice

_SHOWN = (
    VersionRow.number.label("version"),
    VersionRow.author_id,
    UserRow.display_name.label("author_name"),
    VersionRow.fence,
    VersionRow.created_at,
)


class Versions:
    """Who may read them is asked before."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def of(self, document_id: str, *, which: Slice) -> Sequence[Row[*tuple[Any, ...]]]:
        """Without their content, newest first."""
        wanted = (
            select(*_SHOWN)
            .join(UserRow, UserRow.id == VersionRow.author_id)
            .where(VersionRow.document_id == document_id)
            .order_by(VersionRow.number.desc())
        )
        async with reading(self._sessions) as session:
            return (await session.execute(which.of(wanted))).all()

    async def get(self, document_id: str, number: int) -> Row[*tuple[Any, ...]]:
        """With its content. `NotFound` if there is none: the first is made by the first save."""
        wanted = (
            select(*_SHOWN, VersionRow.content)
            .join(UserRow, UserRow.id == VersionRow.author_id)
            .where(VersionRow.document_id == document_id, VersionRow.number == number)
        )
        async with reading(self._sessions) as session:
            row = (await session.execute(wanted)).one_or_none()
        if row is None:
            raise NotFound("there is no such version")
        return row
