"""Documents in a database: whoever saves shows a fence, and the document's row decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, bindparam, or_, select, update

from leasehold.documents.ports import DocumentStore, Grant, Rescued, Save, Saved
from leasehold.errors import NotFound, StaleFence
from leasehold.server.db.engine import writing, writing_rows
from leasehold.server.documents.content import encode_content
from leasehold.server.documents.save import (
    DOCUMENTS,
    answered_before,
    keep,
    lock_row,
    reason_to_rescue,
    rescue,
)
from leasehold.server.ids import is_id

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

    Both methods hold the document's row from their first statement to their commit, so each sees all that the one
    before it did. `leasehold.StoreUnavailable` if the database does not answer: asking again is safe.
    """

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def register(self, grant: Grant) -> int:
        """See `DocumentStore.register`. A fence that is registered already, for another editor, is stale too."""
        document = {"document": grant.document_id}
        given = {"new_fence": grant.fence, "user": grant.editor.user_id, "tab": grant.editor.tab}
        if not is_id(grant.document_id):
            raise NotFound("there is no such document")
        async with writing_rows(self._sessions) as connection:
            version = await connection.scalar(_REGISTER, document | given)
            if version is None:
                seen = await connection.scalar(_SEEN, document)
                if seen is None:
                    raise NotFound("there is no such document")
                raise StaleFence(seen=seen, given=grant.fence)
            return version

    async def save(self, save: Save) -> Saved | Rescued:
        """See `DocumentStore.save`. Raises `leasehold.NotFound` if there is no such document."""
        content = encode_content(save.content)
        async with writing(self._sessions) as session:
            row = await lock_row(session, save.document_id)
            reason = reason_to_rescue(row, save)
            if reason is None:
                return await keep(session, row, save, content)
            before = await answered_before(session, row, save, content, reason)
            return before or await rescue(session, row, save, content, reason)
