"""Drafts: saves that could not become versions, until somebody decides what becomes of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import bindparam, case, select, update

from leasehold.documents.ports import Grant, Rescued, Save, Saved
from leasehold.errors import AlreadyExists, NotFound
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import DocumentRow, DraftRow, UserRow, VersionRow
from leasehold.server.documents.content import decode_content, encode_content
from leasehold.server.documents.save import answered_before, keep, lock_row, reason_to_rescue
from leasehold.server.ids import is_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.documents.ports import Content
    from leasehold.server.http.paging import Slice

_SHOWN = (
    DraftRow.id,
    DraftRow.document_id,
    DraftRow.author_id,
    UserRow.display_name.label("author_name"),
    DraftRow.base_version,
    DraftRow.fence,
    DraftRow.reason,
    DraftRow.status,
    DraftRow.created_at,
    DraftRow.settled_at,
    DraftRow.settled_by,
)


_CURRENT = select(DocumentRow.version, DocumentRow.content).where(DocumentRow.id == bindparam("document"))
_AT = select(VersionRow.content).where(
    VersionRow.document_id == bindparam("document"), VersionRow.number == bindparam("number")
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A draft, what it was made from (None if there never was such a version), and the document at ``version``."""

    draft: Row[*tuple[Any, ...]]
    base: Content | None
    version: int
    current: Content


class Drafts:
    """Of one document. Who may do what is asked before. None is ever deleted: one that is settled is only not open."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession], document_id: str) -> None:
        self._sessions = sessions
        self._document_id = document_id

    async def all(self, *, which: Slice) -> Sequence[Row[*tuple[Any, ...]]]:
        """Without their content: open ones first, newest first."""
        wanted = (
            select(*_SHOWN)
            .join(UserRow, UserRow.id == DraftRow.author_id)
            .where(DraftRow.document_id == self._document_id)
            .order_by(case((DraftRow.status == "open", 0), else_=1), DraftRow.created_at.desc(), DraftRow.id)
        )
        async with reading(self._sessions) as session:
            return (await session.execute(which.of(wanted))).all()

    async def get(self, draft_id: str) -> Row[*tuple[Any, ...]]:
        """With its content; `NotFound` if the document has no such draft."""
        async with reading(self._sessions) as session:
            return await self._get(session, draft_id)

    async def compare(self, draft_id: str) -> Compared:
        """The draft, what it was made from, and what the document is now."""
        async with reading(self._sessions) as session:
            draft = await self._get(session, draft_id)
            current = (await session.execute(_CURRENT, {"document": self._document_id})).one_or_none()
            if current is None:
                raise NotFound("there is no such document")
            asked = {"document": self._document_id, "number": draft.base_version}
            base = await session.scalar(_AT, asked)
        if draft.base_version == 0:
            base = encode_content("")  # before the first save
        before = None if base is None else decode_content(base)
        return Compared(draft, before, current.version, decode_content(current.content))

    async def restore(self, draft_id: str, grant: Grant, base_version: int) -> Saved | Rescued:
        """Make it the document's next version, as a save under the grant would, and settle it: both or neither.

        `Rescued` if that save would have been; the draft is as before then. Asking again gets the same answer.
        `AlreadyExists` if it has been settled otherwise.
        """
        async with writing(self._sessions) as session:
            row = await lock_row(session, self._document_id)
            draft = await self._get(session, draft_id)
            content = draft.content
            save = Save(self._document_id, grant.editor, decode_content(content), base_version, grant.fence)
            reason = reason_to_rescue(row, save)
            if draft.status == "open":
                if reason is not None:
                    return Rescued(draft_id, reason, row.version)
                await self._settle(session, draft_id, "restored", grant.editor.user_id)
                return await keep(session, row, save, content)
            if draft.status == "restored":
                before = await answered_before(session, row, save, content, reason)
                if before is not None:
                    return before
            raise AlreadyExists(f"this draft has been {draft.status} already")

    async def discard(self, draft_id: str, *, by: str) -> Row[*tuple[Any, ...]]:
        """Settle it without restoring it. Doing so twice is harmless; `AlreadyExists` if it has been restored."""
        async with writing(self._sessions) as session:
            await lock_row(session, self._document_id)
            draft = await self._get(session, draft_id)
            if draft.status == "restored":
                raise AlreadyExists("this draft has been restored already")
            if draft.status == "open":
                await self._settle(session, draft_id, "discarded", by)
            return await self._get(session, draft_id)

    async def _get(self, session: AsyncSession, draft_id: str) -> Row[*tuple[Any, ...]]:
        draft = None
        if is_id(draft_id):
            wanted = (
                select(*_SHOWN, DraftRow.content)
                .join(UserRow, UserRow.id == DraftRow.author_id)
                .where(DraftRow.document_id == self._document_id, DraftRow.id == draft_id)
            )
            draft = (await session.execute(wanted)).one_or_none()
        if draft is None:
            raise NotFound("there is no such draft")
        return draft

    async def _settle(
        self, session: AsyncSession, draft_id: str, status: Literal["restored", "discarded"], by: str
    ) -> None:
        settled = {"status": status, "settled_at": time.time(), "settled_by": by}
        await session.execute(update(DraftRow).where(DraftRow.id == draft_id).values(settled))
