"""The store of documents on SQL: a save presents a fence, and the document's row decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, bindparam, or_, select, update

from leasehold.documents.access_control import document_not_found
from leasehold.documents.ports import DocumentStore, Grant, Rescued, Save, Saved
from leasehold.errors import StaleFence
from leasehold.server.db.engine import writing, writing_rows
from leasehold.server.documents.content import encode_content
from leasehold.server.documents.quota import UNLIMITED
from leasehold.server.documents.save import (
    DOCUMENTS,
    add_draft,
    add_version,
    find_earlier_outcome,
    lock_row,
    reason_to_rescue,
)
from leasehold.server.http.fields import is_id

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

_IS_DOCUMENT = DOCUMENTS.c.id == bindparam("document")
_IS_REGISTERED = and_(
    DOCUMENTS.c.fence == bindparam("new_fence"),
    DOCUMENTS.c.fence_user_id == bindparam("user"),
    DOCUMENTS.c.fence_tab == bindparam("tab"),
)
_REGISTER = (
    update(DOCUMENTS)
    .where(_IS_DOCUMENT, or_(DOCUMENTS.c.fence < bindparam("new_fence"), _IS_REGISTERED))
    .values(fence=bindparam("new_fence"), fence_user_id=bindparam("user"), fence_tab=bindparam("tab"))
    .returning(DOCUMENTS.c.version)
)
_SEEN = select(DOCUMENTS.c.fence).where(_IS_DOCUMENT)


class SqlDocumentStore(DocumentStore):
    """`leasehold.documents.ports.DocumentStore` on SQLAlchemy, for SQLite and PostgreSQL.

    Both methods hold the document's row from their first statement to their commit, so each sees the whole effect of
    the one before. `leasehold.StoreUnavailable` if the database does not answer: a retry is safe.
    """

    def __init__(
        self, database: async_sessionmaker[AsyncSession], *, max_bytes_per_owner: float = UNLIMITED
    ) -> None:
        self._database = database
        self._max_bytes = max_bytes_per_owner

    async def register(self, grant: Grant) -> int:
        """See `DocumentStore.register`. A fence that is registered for another editor is stale too."""
        document = {"document": grant.document_id}
        given = {"new_fence": grant.fence, "user": grant.editor.user_id, "tab": grant.editor.tab}
        if not is_id(grant.document_id):
            raise document_not_found()
        async with writing_rows(self._database) as connection:
            version = await connection.scalar(_REGISTER, document | given)
            if version is None:
                seen = await connection.scalar(_SEEN, document)
                if seen is None:
                    raise document_not_found()
                raise StaleFence(seen=seen, given=grant.fence)
            return version

    async def save(self, save: Save) -> Saved | Rescued:
        """See `DocumentStore.save`. Raises `leasehold.NotFound` for an unknown document, and `leasehold.QuotaExceeded`
        if its owner has no space left; then nothing is kept.
        """
        content = encode_content(save.content)
        async with writing(self._database) as db:
            row = await lock_row(db, save.document_id)
            reason = reason_to_rescue(row, save)
            if reason is None:
                return await add_version(db, row, save, content, max_bytes=self._max_bytes)
            earlier = await find_earlier_outcome(db, row, save, content, reason)
            return earlier or await add_draft(db, row, save, content, reason, max_bytes=self._max_bytes)
