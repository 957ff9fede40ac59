"""Routes of drafts."""

import asyncio
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
from leasehold.server.documents.diff import unified_diff
from leasehold.server.documents.draft_schemas import (
    Comparison,
    ContentAt,
    Draft,
    DraftSummary,
    Restoring,
)
from leasehold.server.documents.drafts import Drafts
from leasehold.server.documents.save_response import ALLOWED_OR_STILL_A_DRAFT, is_lost, save_response
from leasehold.server.documents.schemas import SavedContent, show_saved
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
        return page.build(found, lambda each: DraftSummary(**show_saved(each)))

    @router.get("/{draft_id}", responses=ALLOWED, dependencies=[require("editor")])
    async def get_draft(document_id: PathId, draft_id: PathId, services: UsesServices) -> Draft:
        """Get a draft, for editors."""
        return Draft(**show_saved(await Drafts(services.database, document_id).get(draft_id)))

    @router.get(
        "/{draft_id}/compare", response_model=Comparison, responses=ALLOWED, dependencies=[require("editor")]
    )
    async def compare_draft(
        document_id: PathId, draft_id: PathId, user: CurrentUser, services: UsesServices
    ) -> Response:
        """Compare a draft with its base version and the current document, for editors."""
        # One of each user, so that the large saves of others do not wait for many. Up to the bytes of the response: decoded
        # contents take many times their size.
        async with comparing.setdefault(user.user_id, asyncio.Lock()), services.decoding:
            found = await Drafts(services.database, document_id).compare(draft_id)
            draft = Draft(**show_saved(found.draft))
            # In a thread, because long texts take long.
            diff = await asyncio.to_thread(unified_diff, found.current, draft.content)
            comparison = Comparison(
                draft=draft,
                base=None
                if found.base is None
                else ContentAt(version=draft.base_version, content=found.base),
                current=ContentAt(version=found.version, content=found.current),
                diff=diff,
            )
            return Response(comparison.model_dump_json(), media_type="application/json")

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

    @router.post("/{draft_id}/discard", responses=ALLOWED_UNLESS)
    async def discard_draft(
        document_id: PathId,
        draft_id: PathId,
        user: CurrentUser,
        access: Annotated[Access, require("viewer")],
        services: UsesServices,
    ) -> Draft:
        """Settle a draft without restoring it, for its author and for owners. It is kept."""
        drafts = Drafts(services.database, document_id)
        draft = await drafts.get(draft_id)
        if access.role != "owner" and draft.author_id != user.user_id:
            facts = {"needs": "owner", "why": "not the draft's author"}
            audit.note("access_refused", document_id=document_id, person=Person(user.user_id, ""), **facts)
            raise NotAllowed("only the draft's author and owners may discard it")
        return Draft(**show_saved(await drafts.discard(draft_id, by=user.user_id)))

    return router
