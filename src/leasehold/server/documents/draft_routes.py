"""Routes of drafts."""

import asyncio
import json
from functools import cache
from typing import Annotated
from weakref import WeakValueDictionary

from fastapi import APIRouter
from starlette.responses import Response

from leasehold.documents import audit
from leasehold.documents.outcomes import SaveAnswer
from leasehold.documents.ports import Access, Grant
from leasehold.documents.state import Person
from leasehold.errors import NotAllowed
from leasehold.server.auth.dependencies import CurrentEditor, CurrentUser, require
from leasehold.server.documents.content import decode_content
from leasehold.server.documents.diff import unified_diff
from leasehold.server.documents.draft_schemas import (
    Comparison,
    Draft,
    DraftSummary,
    Restoring,
    VersionNumber,
    show_draft,
)
from leasehold.server.documents.drafts import Drafts
from leasehold.server.documents.save_response import ALLOWED_OR_STILL_A_DRAFT, is_lost, save_response
from leasehold.server.documents.schemas import SavedContent, json_with_content, respond_with_content
from leasehold.server.http.fields import PathId
from leasehold.server.http.paging import AskedPage, Page
from leasehold.server.http.problems import ALLOWED, ALLOWED_UNLESS
from leasehold.server.services import UsesServices


@cache
def draft_router() -> APIRouter:
    """``/api/documents/{document_id}/drafts``."""
    router = APIRouter(prefix="/api/documents/{document_id}/drafts", tags=["drafts"])
    comparing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @router.get("", responses=ALLOWED, dependencies=[require("editor")])
    async def list_drafts(document_id: PathId, page: AskedPage, services: UsesServices) -> Page[DraftSummary]:
        """List the drafts, open ones first, then newest first, for editors."""
        found = await Drafts(services.database, document_id).all(page=page)
        return page.build(found, show_draft)

    @router.get("/{draft_id}", response_model=Draft, responses=ALLOWED, dependencies=[require("editor")])
    async def get_draft(document_id: PathId, draft_id: PathId, services: UsesServices) -> Response:
        """Get a draft, for editors."""
        row = await Drafts(services.database, document_id).get(draft_id)
        return respond_with_content(show_draft(row), row.content)

    @router.get(
        "/{draft_id}/compare", response_model=Comparison, responses=ALLOWED, dependencies=[require("editor")]
    )
    async def compare_draft(
        document_id: PathId, draft_id: PathId, user: CurrentUser, services: UsesServices
    ) -> Response:
        """Compare a draft with its base version and the current document, for editors."""
        # One of each user, so that the large saves of others do not wait for many.
        async with comparing.setdefault(user.user_id, asyncio.Lock()), services.decoding:
            found = await Drafts(services.database, document_id).compare(draft_id)
            # In a thread, because long texts take long.
            diff = await asyncio.to_thread(_diff, found.current, found.draft.content)
        base = None
        if found.base is not None:
            base = json_with_content(VersionNumber(version=found.draft.base_version), found.base)
        members = {
            "draft": json_with_content(show_draft(found.draft), found.draft.content),
            "base": base or "null",
            "current": json_with_content(VersionNumber(version=found.version), found.current),
            "diff": diff,
        }
        comparison = ",".join(f'"{name}":{encoded}' for name, encoded in members.items())
        return Response(f"{{{comparison}}}", media_type="application/json")

    @router.post(
        "/{draft_id}/restore",
        response_model=SavedContent,
        responses=ALLOWED_OR_STILL_A_DRAFT,
        dependencies=[require("editor")],
    )
    async def restore_draft(
        document_id: PathId, draft_id: PathId, asked: Restoring, editor: CurrentEditor, services: UsesServices
    ) -> Response:
        """Save a draft as a new version, for editors who hold the lock. Otherwise 409, and it is still a draft."""
        grant = Grant(document_id, editor, int(asked.fence))
        outcome = await Drafts(services.database, document_id).restore(
            draft_id, grant, asked.base_version, max_bytes_per_owner=services.settings.max_bytes_per_owner
        )
        return save_response(SaveAnswer(outcome, await is_lost(services.locks, grant)))

    @router.post("/{draft_id}/discard", response_model=Draft, responses=ALLOWED_UNLESS)
    async def discard_draft(
        document_id: PathId,
        draft_id: PathId,
        user: CurrentUser,
        access: Annotated[Access, require("viewer")],
        services: UsesServices,
    ) -> Response:
        """Settle a draft without restoring it, for its author and for owners. It is kept."""
        drafts = Drafts(services.database, document_id)
        draft = await drafts.get(draft_id)
        if access.role != "owner" and draft.author_id != user.user_id:
            facts = {"needs": "owner", "why": "not the draft's author"}
            audit.note("access_refused", document_id=document_id, person=Person(user.user_id, ""), **facts)
            raise NotAllowed("only the draft's author and owners may discard it")
        discarded = await drafts.discard(draft_id, by=user.user_id)
        return respond_with_content(show_draft(discarded), discarded.content)

    return router


def _diff(current: str, draft: str) -> str:
    """The JSON of the diff of two stored contents."""
    return json.dumps(unified_diff(decode_content(current), decode_content(draft)), ensure_ascii=False)
