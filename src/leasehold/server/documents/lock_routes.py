"""Route of the documents that are being edited."""

from functools import cache

from fastapi import APIRouter

from leasehold.documents.http.schemas import Lock, Told, lock_of
from leasehold.server.auth.dependencies import ANY_USER, CurrentEditor
from leasehold.server.documents.locked_documents import find_locked_documents
from leasehold.server.http.paging import AskedPage, Page
from leasehold.server.http.problems import SIGNED_IN
from leasehold.server.services import UsesServices


class EditedDocument(Told):
    """A document that is being edited. ``application_id`` is that of its project, if it is in one."""

    document_id: str
    title: str
    application_id: str
    application_name: str
    project_id: str | None
    lock: Lock


@cache
def lock_list_router() -> APIRouter:
    """``/api/locks``."""
    router = APIRouter(prefix="/api/locks", tags=["locks"])

    @router.get("", responses=SIGNED_IN, dependencies=[ANY_USER])
    async def list_locks(
        page: AskedPage, editor: CurrentEditor, services: UsesServices
    ) -> Page[EditedDocument]:
        """List what is being edited in the caller's own applications. A page may be empty and still have a ``next_offset``."""
        found = await find_locked_documents(
            services.database, services.locks, owner_id=editor.user_id, page=page
        )
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
