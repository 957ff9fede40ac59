"""What was rescued: looking at it, restoring it, discarding it."""

import asyncio
from functools import cache

from fastapi import APIRouter
from starlette.responses import Response

from leasehold.documents import audit
from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.outcomes import SaveAnswer
from leasehold.documents.ports import Grant
from leasehold.documents.state import Person
from leasehold.errors import NotAllowed
from leasehold.server.auth.dependencies import CurrentUser
from leasehold.server.documents.diff import unified_diff
from leasehold.server.documents.draft_schemas import (
    Comparison,
    ContentAt,
    Draft,
    DraftSummary,
    Restoring,
    show_draft,
)
from leasehold.server.documents.drafts import Drafts
from leasehold.server.documents.save_response import is_lost, tell_saved
from leasehold.server.documents.schemas import SavedContent
from leasehold.server.editors import CurrentEditor
from leasehold.server.http.openapi_responses import ALLOWED, ALLOWED_OR_STILL_A_DRAFT, ALLOWED_UNLESS
from leasehold.server.http.paging import Asks, Page
from leasehold.server.ids import PathId
from leasehold.server.services import UsesServices


@cache
def drafts_router() -> APIRouter:
    """``/api/documents/{document_id}/drafts``."""
    router = APIRouter(prefix="/api/documents/{document_id}/drafts", tags=["drafts"])

    @router.get("", responses=ALLOWED)
    async def list_drafts(
        document_id: PathId, which: Asks, user: CurrentUser, services: UsesServices
    ) -> Page[DraftSummary]:
        """For editors: open ones first, newest first."""
        await PermissionCheck(services.access).check(user.user_id, document_id, "editor")
        found = await Drafts(services.sessions, document_id).all(which=which)
        return which.page(found, lambda each: DraftSummary(**show_draft(each)))

    @router.get("/{draft_id}", responses=ALLOWED)
    async def get_draft(
        document_id: PathId, draft_id: PathId, user: CurrentUser, services: UsesServices
    ) -> Draft:
        """For editors."""
        await PermissionCheck(services.access).check(user.user_id, document_id, "editor")
        return Draft(**show_draft(await Drafts(services.sessions, document_id).get(draft_id)))

    @router.get("/{draft_id}/compare", responses=ALLOWED)
    async def compare_draft(
        document_id: PathId, draft_id: PathId, user: CurrentUser, services: UsesServices
    ) -> Comparison:
        """For editors: the draft beside what it was made from and what the document is now."""
        await PermissionCheck(services.access).check(user.user_id, document_id, "editor")
        found = await Drafts(services.sessions, document_id).compare(draft_id)
        draft = Draft(**show_draft(found.draft))
        # In a thread: long texts take long.
        diff = await asyncio.to_thread(unified_diff, found.current, draft.content)
        return Comparison(
            draft=draft,
            base=None if found.base is None else ContentAt(version=draft.base_version, content=found.base),
            current=ContentAt(version=found.version, content=found.current),
            diff=diff,
        )

    @router.post("/{draft_id}/restore", response_model=SavedContent, responses=ALLOWED_OR_STILL_A_DRAFT)
    async def restore_draft(
        document_id: PathId, draft_id: PathId, asked: Restoring, editor: CurrentEditor, services: UsesServices
    ) -> Response:
        """For editors who hold the lock: it becomes a new version. Otherwise 409, and it is still a draft."""
        await PermissionCheck(services.access).check(editor.user_id, document_id, "editor")
        grant = Grant(document_id, editor, int(asked.fence))
        outcome = await Drafts(services.sessions, document_id).restore(draft_id, grant, asked.base_version)
        return tell_saved(SaveAnswer(outcome, await is_lost(services.locks, grant)))

    @router.post("/{draft_id}/discard", responses=ALLOWED_UNLESS)
    async def discard_draft(
        document_id: PathId, draft_id: PathId, user: CurrentUser, services: UsesServices
    ) -> Draft:
        """For its author, and for owners. It is kept, but not open any more."""
        access = await PermissionCheck(services.access).check(user.user_id, document_id, "viewer")
        drafts = Drafts(services.sessions, document_id)
        draft = await drafts.get(draft_id)
        if access.role != "owner" and draft.author_id != user.user_id:
            facts = {"needs": "owner", "why": "not the draft's author"}
            audit.note("access_refused", document_id=document_id, person=Person(user.user_id, ""), **facts)
            raise NotAllowed("this is for its author, and for owners")
        return Draft(**show_draft(await drafts.discard(draft_id, by=user.user_id)))

    return router
