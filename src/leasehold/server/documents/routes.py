"""Documents: what people edit."""

from functools import cache
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.http.problems import busy
from leasehold.server.auth.dependencies import CurrentUser
from leasehold.server.documents.queries import Documents
from leasehold.server.documents.schemas import (
    Document,
    DocumentSummary,
    DocumentTitle,
    NewDocument,
    show_document,
)
from leasehold.server.editors import CurrentEditor
from leasehold.server.http.openapi_responses import ALLOWED, ALLOWED_UNLESS, SIGNED_IN
from leasehold.server.http.paging import Asks, Page
from leasehold.server.ids import PathId, QueryId
from leasehold.server.rights import tell_rights_changed
from leasehold.server.services import UsesServices
from leasehold.server.teams.deletion import Deleting
from leasehold.server.teams.members import Members

Personal = Annotated[bool | None, Query()]


@cache
def documents_router() -> APIRouter:
    """``/api/documents``."""
    router = APIRouter(prefix="/api/documents", tags=["documents"])

    @router.post("", status_code=201, responses=ALLOWED)
    async def create_document(asked: NewDocument, user: CurrentUser, services: UsesServices) -> Document:
        """In an application or a project, for editors; or in neither: then only its owner sees it."""
        documents = Documents(services.sessions)
        scope = {"application_id": asked.application_id, "project_id": asked.project_id}
        document_id = await documents.add(asked.title, owner_id=user.user_id, **scope)
        return Document(**show_document(await documents.get(document_id, user_id=user.user_id), user.user_id))

    @router.get("", responses=SIGNED_IN)
    async def list_documents(
        which: Asks,
        user: CurrentUser,
        services: UsesServices,
        application_id: QueryId = None,
        project_id: QueryId = None,
        personal: Personal = None,
    ) -> Page[DocumentSummary]:
        """All that one can see, newest change first. Those of an application are those of its projects, too."""
        found = await Documents(services.sessions).of_user(
            user.user_id,
            which=which,
            application_id=application_id,
            project_id=project_id,
            personal=personal,
        )
        return which.page(found, lambda each: DocumentSummary(**show_document(each, user.user_id)))

    @router.get("/{document_id}", responses=ALLOWED)
    async def get_document(document_id: PathId, user: CurrentUser, services: UsesServices) -> Document:
        """For viewers: the document as it is now."""
        row = await Documents(services.sessions).get(document_id, user_id=user.user_id)
        return Document(**show_document(row, user.user_id))

    @router.patch("/{document_id}", responses=ALLOWED)
    async def rename_document(
        document_id: PathId, asked: DocumentTitle, user: CurrentUser, services: UsesServices
    ) -> Document:
        """For editors, whoever has the lock: a title is not content."""
        await PermissionCheck(services.access).check(user.user_id, document_id, "editor")
        documents = Documents(services.sessions)
        await documents.rename(document_id, asked.title, user_id=user.user_id)
        return Document(**show_document(await documents.get(document_id, user_id=user.user_id), user.user_id))

    @router.delete("/{document_id}", status_code=204, responses=ALLOWED_UNLESS)
    async def delete_document(document_id: PathId, editor: CurrentEditor, services: UsesServices) -> Response:
        """For owners: with its versions and drafts. 409 if somebody else edits it right now."""
        await PermissionCheck(services.access).check(editor.user_id, document_id, "owner")
        row = await Documents(services.sessions).get(document_id, user_id=editor.user_id)
        edited = await Deleting(services.sessions, services.locks).document(document_id, by=editor)
        if edited is not None:
            return busy(edited, editor)
        watchers = await Members(services.sessions).ids_of(row.scope) if row.scope else [row.owner_id]
        await tell_rights_changed(services, watchers)
        return Response(status_code=204)

    return router
