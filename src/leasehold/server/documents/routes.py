"""Routes of documents."""

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from leasehold.documents.http.problems import busy_response
from leasehold.server.auth.dependencies import (
    ANY_USER,
    ByEditor,
    ByOwner,
    ByViewer,
    Caller,
    CurrentEditor,
    CurrentUser,
    require,
)
from leasehold.server.documents.queries import Documents
from leasehold.server.documents.schemas import (
    Document,
    DocumentSummary,
    DocumentTitle,
    NewDocument,
    respond_with_content,
    show_document,
)
from leasehold.server.http.fields import PathId, QueryId
from leasehold.server.http.paging import AskedPage, Page
from leasehold.server.http.problems import ALLOWED, ALLOWED_UNLESS, SIGNED_IN
from leasehold.server.services import UsesServices
from leasehold.server.teams.deletion import Deletion
from leasehold.server.teams.members import Members, announce_permission_change


@cache
def document_router() -> APIRouter:
    """``/api/documents``."""
    router = APIRouter(prefix="/api/documents", tags=["documents"])

    @router.post("", status_code=201, response_model=Document, responses=ALLOWED)
    async def create_document(asked: NewDocument, by: ByEditor, services: UsesServices) -> Response:
        """Create a document in an application or a project, for editors; or in neither, visible to its owner only."""
        documents = Documents(services.database)
        scope = {"application_id": asked.application_id, "project_id": asked.project_id}
        limit = services.settings.max_documents_per_owner
        document_id = await documents.add(asked.title, by=by, **scope, max_per_owner=limit)
        return _respond(await documents.get(document_id, by=by), by.user_id, status_code=201)

    @router.get("", responses=SIGNED_IN, dependencies=[ANY_USER])
    async def list_documents(
        page: AskedPage,
        user: CurrentUser,
        services: UsesServices,
        application_id: QueryId = None,
        project_id: QueryId = None,
        personal: Annotated[bool | None, Query()] = None,
    ) -> Page[DocumentSummary]:
        """List the visible documents, newest change first. An application's documents include those of its projects."""
        found = await Documents(services.database).of_user(
            user.user_id,
            page=page,
            application_id=application_id,
            project_id=project_id,
            personal=personal,
        )
        return page.build(found, lambda each: show_document(each, user.user_id))

    @router.get("/{document_id}", response_model=Document, responses=ALLOWED)
    async def get_document(document_id: PathId, by: ByViewer, services: UsesServices) -> Response:
        """Get the current document, for viewers."""
        return _respond(await Documents(services.database).get(document_id, by=by), by.user_id)

    @router.patch(
        "/{document_id}", response_model=Document, responses=ALLOWED, dependencies=[require("editor")]
    )
    async def rename_document(
        document_id: PathId, asked: DocumentTitle, user: CurrentUser, services: UsesServices
    ) -> Response:
        """Change the title, for editors. It is not content, so no lock is needed."""
        documents = Documents(services.database)
        await documents.rename(document_id, asked.title, user_id=user.user_id)
        row = await documents.get(document_id, by=Caller(user.user_id, "viewer"))
        return _respond(row, user.user_id)

    @router.delete("/{document_id}", status_code=204, responses=ALLOWED_UNLESS)
    async def delete_document(
        document_id: PathId, by: ByOwner, editor: CurrentEditor, services: UsesServices
    ) -> Response:
        """Delete a document with its versions and drafts, for owners. 409 while another user is editing it."""
        row = await Documents(services.database).get(document_id, by=by)
        edited = await Deletion(services.database, services.locks).document(document_id, by=editor)
        if edited is not None:
            return busy_response(edited, editor)
        watchers = await Members(services.database).ids_of(row.scope) if row.scope else [row.owner_id]
        await announce_permission_change(services, watchers)
        return Response(status_code=204)

    return router


def _respond(row: Any, user_id: str, *, status_code: int = 200) -> Response:
    return respond_with_content(show_document(row, user_id), row.content, status_code=status_code)
