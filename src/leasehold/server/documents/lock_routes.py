"""Who edits what, right now."""

from functools import cache

from fastapi import APIRouter

from leasehold.documents.http.schemas import Lock, Told, lock_of
from leasehold.server.documents.locked_documents import find_locked
from leasehold.server.editors import CurrentEditor
from leasehold.server.http.openapi_responses import SIGNED_IN
from leasehold.server.http.paging import Asks, Page
from leasehold.server.services import UsesServices


class EditedDocument(Told):
    """A document that somebody edits. ``application_id`` is that of its project, if it is in one."""

    document_id: str
    title: str
    application_id: str
    application_name: str
    project_id: str | None
    lock: Lock


@cache
def editing_now_router() -> APIRouter:
    """``/api/locks``."""
    router = APIRouter(prefix="/api/locks", tags=["locks"])

    @router.get("", responses=SIGNED_IN)
    async def list_locks(which: Asks, editor: CurrentEditor, services: UsesServices) -> Page[EditedDocument]:
        """For owners: what is edited now in their applications. Go on with ``next_offset`` even if a page is empty."""
        found = await find_locked(services.sessions, services.locks, owner_id=editor.user_id, which=which)
        items = [
            EditedDocument(
                document_id=row.document_id,
                title=row.title,
                application_id=row.application_id,
                application_name=row.application_name,
                project_id=row.project_id,
                lock=lock_of(state, editor),
            )
            for row, state in found.locked
        ]
        return Page(items=items, next_offset=found.next_offset)

    return router
