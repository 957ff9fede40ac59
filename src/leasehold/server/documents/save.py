"""Saves: a new version or a draft, in a transaction that holds the document's row."""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING, Any, cast

from sqlalchemy import Table, and_, bindparam, func, insert, select, update

from leasehold.documents.access_control import document_not_found
from leasehold.documents.ports import Rescued, RescueReason, Save, Saved
from leasehold.server.db.models import DocumentRow, DraftRow, VersionRow, new_id
from leasehold.server.documents.content import hash_of
from leasehold.server.documents.quota import check_space, stored_size
from leasehold.server.http.fields import is_id

if TYPE_CHECKING:
    from sqlalchemy import Row
    from sqlalchemy.ext.asyncio import AsyncSession

# Tables instead of mapped objects, because these statements are too small to pay for the mapper.
DOCUMENTS = cast("Table", DocumentRow.__table__)
VERSIONS = cast("Table", VersionRow.__table__)
DRAFTS = cast("Table", DraftRow.__table__)

_IS_DOCUMENT = DOCUMENTS.c.id == bindparam("document")
_OWNED = DOCUMENTS.alias("owned")
_OWNER_BYTES = (
    select(func.sum(_OWNED.c.stored_bytes))
    .where(_OWNED.c.owner_id == DOCUMENTS.c.owner_id)
    .correlate(DOCUMENTS)
    .scalar_subquery()
)
_LOCK_ROW = (
    select(
        DOCUMENTS.c.version,
        DOCUMENTS.c.content,
        DOCUMENTS.c.fence,
        DOCUMENTS.c.fence_user_id,
        DOCUMENTS.c.fence_tab,
        DOCUMENTS.c.unchanged_save,
        DOCUMENTS.c.stored_bytes,
        _OWNER_BYTES.label("owner_bytes"),
    )
    .where(_IS_DOCUMENT)
    .with_for_update(of=DOCUMENTS)
)
_MADE = select(VERSIONS.c.fence, VERSIONS.c.author_id, VERSIONS.c.content).where(
    VERSIONS.c.document_id == bindparam("document"), VERSIONS.c.number == bindparam("number")
)
_UPDATE = update(DOCUMENTS).where(_IS_DOCUMENT)


async def lock_row(db: AsyncSession, document_id: str) -> Row[*tuple[Any, ...]]:
    """Lock and return the document's row; `NotFound` for an unknown document."""
    row = None
    if is_id(document_id):
        row = (await db.execute(_LOCK_ROW, {"document": document_id})).one_or_none()
    if row is None:
        raise document_not_found()
    return row


def reason_to_rescue(row: Row[*tuple[Any, ...]], save: Save) -> RescueReason | None:
    """The reason why the save must not become a version; None if it may."""
    if save.fence < row.fence:
        return "stale_fence"
    if (save.fence, save.editor.user_id, save.editor.tab) != (row.fence, row.fence_user_id, row.fence_tab):
        return "not_holder"
    return None if save.base_version == row.version else "stale_base"


async def add_version(
    db: AsyncSession, row: Row[*tuple[Any, ...]], save: Save, content: str, *, max_bytes: float
) -> Saved:
    """Make the save the next version, unless it changes nothing. `QuotaExceeded` above the owner's ``max_bytes``."""
    document = {"document": save.document_id}
    if content == row.content:
        noted = {"unchanged_save": _digest(save, content)}
        if row.unchanged_save != noted["unchanged_save"]:
            await db.execute(_UPDATE.values(noted), document)
        return Saved(row.version)
    size = stored_size(content)
    check_space(row.owner_bytes, size, at_most=max_bytes)
    version, author, now = row.version + 1, save.editor.user_id, time.time()
    new = {"document_id": save.document_id, "number": version, "content": content, "fence": save.fence}
    await db.execute(insert(VERSIONS).values(**new, author_id=author, created_at=now))
    changed = {"version": version, "content": content, "updated_by": author, "updated_at": now}
    await db.execute(_UPDATE.values(**changed, stored_bytes=row.stored_bytes + size), document)
    return Saved(version)


async def find_earlier_outcome(
    db: AsyncSession, row: Row[*tuple[Any, ...]], save: Save, content: str, reason: RescueReason | None
) -> Saved | None:
    """The outcome of the same save if it was made before: a retry after a lost reply gets the same one."""
    if reason == "not_holder":
        return None  # this editor never had the fence
    if row.unchanged_save == _digest(save, content):
        return Saved(save.base_version)
    number = save.base_version + 1
    made = (await db.execute(_MADE, {"document": save.document_id, "number": number})).one_or_none()
    kept = made is not None and tuple(made) == (save.fence, save.editor.user_id, content)
    return Saved(number) if kept else None


async def add_draft(
    db: AsyncSession,
    row: Row[*tuple[Any, ...]],
    save: Save,
    content: str,
    reason: RescueReason,
    *,
    max_bytes: float,
) -> Rescued:
    """Keep the save as a draft, once. `QuotaExceeded` above the owner's ``max_bytes``."""
    draft: dict[str, Any] = {
        "document_id": save.document_id,
        "author_id": save.editor.user_id,
        "fence": save.fence,
        "base_version": save.base_version,
        "content_hash": hash_of(content),
    }
    same = and_(*(DRAFTS.c[name] == value for name, value in draft.items()))
    kept = (await db.execute(select(DRAFTS.c.id, DRAFTS.c.reason).where(same))).one_or_none()
    if kept is not None:
        return Rescued(kept.id, kept.reason, row.version)
    size = stored_size(content)
    check_space(row.owner_bytes, size, at_most=max_bytes)
    draft |= {
        "id": new_id(),
        "content": content,
        "reason": reason,
        "status": "open",
        "created_at": time.time(),
    }
    await db.execute(insert(DRAFTS).values(draft))
    stored = {"stored_bytes": row.stored_bytes + size}
    await db.execute(_UPDATE.values(stored), {"document": save.document_id})
    return Rescued(draft["id"], reason, row.version)


def _digest(save: Save, content: str) -> str:
    whole = [save.editor.user_id, save.editor.tab, save.fence, save.base_version, content]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()
