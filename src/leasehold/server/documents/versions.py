"""Queries of document versions."""

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

    from leasehold.server.http.paging import PageQuery

_VERSIONS = select(
    VersionRow.number.label("version"),
    VersionRow.author_id,
    UserRow.display_name.label("author_name"),
    VersionRow.fence,
    VersionRow.created_at,
).join(UserRow, UserRow.id == VersionRow.author_id)


class Versions:
    """The versions of documents. Callers check permissions."""

    def __init__(self, database: async_sessionmaker[AsyncSession]) -> None:
        self._database = database

    async def of(self, document_id: str, *, page: PageQuery) -> Sequence[Row[*tuple[Any, ...]]]:
        """The versions of a document without their content, newest first."""
        wanted = _VERSIONS.where(VersionRow.document_id == document_id).order_by(VersionRow.number.desc())
        async with reading(self._database) as db:
            return (await db.execute(page.apply(wanted))).all()

    async def get(self, document_id: str, number: int) -> Row[*tuple[Any, ...]]:
        """One version with its content. `NotFound` before the first save."""
        is_wanted = VersionRow.document_id == document_id, VersionRow.number == number
        wanted = _VERSIONS.add_columns(VersionRow.content).where(*is_wanted)
        async with reading(self._database) as db:
            row = (await db.execute(wanted)).one_or_none()
        if row is None:
            raise NotFound("version not found")
        return row
