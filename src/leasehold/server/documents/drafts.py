"""Queries of drafts: saves that could not become versions, until a user restores or discards them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import bindparam, case, select, update

from leasehold.documents.access_control import document_not_found
from leasehold.documents.ports import Grant, Rescued, Save, Saved
from leasehold.errors import AlreadyExists, NotFound
from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import DocumentRow, DraftRow, UserRow, VersionRow
from leasehold.server.documents.content import decode_content, encode_content
from leasehold.server.documents.save import add_version, find_earlier_outcome, lock_row, reason_to_rescue
from leasehold.server.http.fields import is_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

    from leasehold.server.http.paging import PageQuery

_DRAFTS = select(
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
).join(UserRow, UserRow.id == DraftRow.author_id)
_CURRENT = select(DocumentRow.version, DocumentRow.content).where(DocumentRow.id == bindparam("document"))
_AT = select(VersionRow.content).where(
    VersionRow.document_id == bindparam("document"), VersionRow.number == bindparam("number")
)


@dataclass(frozen=True, slots=True)
class DraftComparison:
    """A draft, its base (None if that version never existed), and the document at ``version``. Contents are JSON."""

    draft: Row[*tuple[Any, ...]]
    base: str | None
    version: int
    current: str


class Drafts:
    """The drafts of one document. Callers check permissions. Drafts are settled, but never deleted."""

    def __init__(self, database: async_sessionmaker[AsyncSession], document_id: str) -> None:
        self._database = database
        self._document_id = document_id

    async def all(self, *, page: PageQuery) -> Sequence[Row[*tuple[Any, ...]]]:
        """All drafts without their content: open ones first, then newest first."""
        wanted = _DRAFTS.where(DraftRow.document_id == self._document_id).order_by(
            case((DraftRow.status == "open", 0), else_=1), DraftRow.created_at.desc(), DraftRow.id
        )
        async with reading(self._database) as db:
            return (await db.execute(page.apply(wanted))).all()

    async def get(self, draft_id: str) -> Row[*tuple[Any, ...]]:
        """The draft with its content; `NotFound` if the document does not have it."""
        async with reading(self._database) as db:
            return await self._get(db, draft_id)

    async def compare(self, draft_id: str) -> DraftComparison:
        """The draft, its base, and the current document."""
        async with reading(self._database) as db:
            draft = await self._get(db, draft_id)
            current = (await db.execute(_CURRENT, {"document": self._document_id})).one_or_none()
            if current is None:
                raise document_not_found()
            parameters = {"document": self._document_id, "number": draft.base_version}
            base = await db.scalar(_AT, parameters)
        if draft.base_version == 0:
            base = encode_content("")  # before the first save
        return DraftComparison(draft, base, current.version, current.content)

    async def restore(
        self, draft_id: str, grant: Grant, base_version: int, *, max_bytes_per_owner: float
    ) -> Saved | Rescued:
        """Save the draft's content under the grant and settle the draft, in one transaction.

        `Rescued`, without a change, if the save would be rescued. A retry gets the same outcome. `AlreadyExists` if
        the draft has been discarded, or restored by another save. `QuotaExceeded` if the owner has no space left.
        """
        async with writing(self._database) as db:
            row = await lock_row(db, self._document_id)
            draft = await self._get(db, draft_id)
            content = draft.content
            save = Save(self._document_id, grant.editor, decode_content(content), base_version, grant.fence)
            reason = reason_to_rescue(row, save)
            if draft.status == "open":
                if reason is not None:
                    return Rescued(draft_id, reason, row.version)
                await self._settle(db, draft_id, "restored", grant.editor.user_id)
                return await add_version(db, row, save, content, max_bytes=max_bytes_per_owner)
            if draft.status == "restored":
                earlier = await find_earlier_outcome(db, row, save, content, reason)
                if earlier is not None:
                    return earlier
            raise AlreadyExists(f"this draft is already {draft.status}")

    async def discard(self, draft_id: str, *, by: str) -> Row[*tuple[Any, ...]]:
        """Settle the draft without restoring it. Repeating this is harmless; `AlreadyExists` for a restored one."""
        async with writing(self._database) as db:
            await lock_row(db, self._document_id)
            draft = await self._get(db, draft_id)
            if draft.status == "restored":
                raise AlreadyExists("this draft is already restored")
            if draft.status == "open":
                await self._settle(db, draft_id, "discarded", by)
            return await self._get(db, draft_id)

    async def _get(self, db: AsyncSession, draft_id: str) -> Row[*tuple[Any, ...]]:
        draft = None
        if is_id(draft_id):
            is_wanted = DraftRow.document_id == self._document_id, DraftRow.id == draft_id
            wanted = _DRAFTS.add_columns(DraftRow.content).where(*is_wanted)
            draft = (await db.execute(wanted)).one_or_none()
        if draft is None:
            raise NotFound("draft not found")
        return draft

    async def _settle(
        self, db: AsyncSession, draft_id: str, status: Literal["restored", "discarded"], by: str
    ) -> None:
        settled = {"status": status, "settled_at": time.time(), "settled_by": by}
        await db.execute(update(DraftRow).where(DraftRow.id == draft_id).values(settled))
