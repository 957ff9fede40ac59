"""What becomes of a save, within a transaction that holds the document's row."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Table, and_, bindparam, insert, select, update

from leasehold.documents.ports import Rescued, RescueReason, Save, Saved
from leasehold.errors import NotFound
from leasehold.server.db.models import DocumentRow, DraftRow, VersionRow, new_id
from leasehold.server.documents.content import hash_of
from leasehold.server.ids import is_id

if TYPE_CHECKING:
    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession

# The tables themselves: what is asked for here is too small to pay for the mapper's objects.
DOCUMENTS = cast("Table", DocumentRow.__table__)
VERSIONS = cast("Table", VersionRow.__table__)
DRAFTS = cast("Table", DraftRow.__table__)

_IS_DOCUMENT = DOCUMENTS.c.id == bindparam("document")
_LOCK_ROW = (
    select(
        DOCUMENTS.c.version,
        DOCUMENTS.c.content,
        DOCUMENTS.c.fence,
        DOCUMENTS.c.fence_user_id,
        DOCUMENTS.c.fence_tab,
        DOCUMENTS.c.unchanged_save,
    )
    .where(_IS_DOCUMENT)
    .with_for_update()
)
_MADE = select(VERSIONS.c.fence, VERSIONS.c.author_id, VERSIONS.c.content).where(
    VERSIONS.c.document_id == bindparam("document"), VERSIONS.c.number == bindparam("number")
)
_UPDATE = update(DOCUMENTS).where(_IS_DOCUMENT)


async def lock_row(session: AsyncSession, document_id: str) -> Row[*tuple[Any, ...]]:
    """The document as the last who held its row left it. From here to the commit it is ours.

    Raises `NotFound` if there is no such document.
    """
    row = None
    if is_id(document_id):
        row = (await session.execute(_LOCK_ROW, {"document": document_id})).one_or_none()
    if row is None:
        raise NotFound("there is no such document")
    return row


def reason_to_rescue(row: Row[*tuple[Any, ...]], save: Save) -> RescueReason | None:
    """Why the save must not become a version; None if it may."""
    if save.fence < row.fence:
        return "stale_fence"
    if (save.fence, save.editor.user_id, save.editor.tab) != (row.fence, row.fence_user_id, row.fence_tab):
        return "not_holder"
    return None if save.base_version == row.version else "stale_base"


async def keep(session: AsyncSession, row: Row[*tuple[Any, ...]], save: Save, content: str) -> Saved:
    """Make it the next version, unless it changes nothing."""
    document = {"document": save.document_id}
    if content == row.content:
        noted = {"unchanged_save": _digest(save, content)}
        if row.unchanged_save != noted["unchanged_save"]:
            await session.execute(_UPDATE.values(noted), document)
        return Saved(row.version)
    version, author, now = row.version + 1, save.editor.user_id, time.time()
    new = {"document_id": save.document_id, "number": version, "content": content, "fence": save.fence}
    await session.execute(insert(VERSIONS).values(**new, author_id=author, created_at=now))
    changed = {"version": version, "content": content, "updated_by": author, "updated_at": now}
    await session.execute(_UPDATE.values(changed), document)
    return Saved(version)


async def answered_before(
    session: AsyncSession, row: Row[*tuple[Any, ...]], save: Save, content: str, reason: RescueReason | None
) -> Saved | None:
    """The answer that this very save got when it was kept, if it was.

    One that is asked again finds the row as its own version, or the next grant, left it.
    """
    if reason == "not_holder":
        return None  # the fence was never theirs
    if row.unchanged_save == _digest(save, content):
        return Saved(save.base_version)
    number = save.base_version + 1
    made = (await session.execute(_MADE, {"document": save.document_id, "number": number})).one_or_none()
    kept = made is not None and tuple(made) == (save.fence, save.editor.user_id, content)
    return Saved(number) if kept else None


async def rescue(
    session: AsyncSession, row: Row[*tuple[Any, ...]], save: Save, content: str, reason: RescueReason
) -> Rescued:
    """Keep it as a draft, once."""
    draft: dict[str, Any] = {
        "document_id": save.document_id,
        "author_id": save.editor.user_id,
        "fence": save.fence,
        "base_version": save.base_version,
        "content_hash": hash_of(content),
    }
    same = and_(*(DRAFTS.c[name] == value for name, value in draft.items()))
    kept = (await session.execute(select(DRAFTS.c.id, DRAFTS.c.reason).where(same))).one_or_none()
    if kept is not None:
        return Rescued(kept.id, kept.reason, row.version)
    draft |= {
        "id": new_id(),
        "content": content,
        "reason": reason,
        "status": "open",
        "created_at": time.time(),
    }
    await session.execute(insert(DRAFTS).values(draft))
    return Rescued(draft["id"], reason, row.version)


def _digest(save: Save, content: str) -> str:
    whole = [save.editor.user_id, save.editor.tab, save.fence, save.base_version, content]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()
