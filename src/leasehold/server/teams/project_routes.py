"""Routes of projects."""

from functools import cache

from fastapi import APIRouter
from starlette.responses import Response

from leasehold.documents.http.problems import busy_response
from leasehold.server.auth.dependencies import (
    ANY_USER,
    ByEditor,
    ByOwner,
    ByViewer,
    CurrentEditor,
    CurrentUser,
)
from leasehold.server.http.fields import PathId, QueryId
from leasehold.server.http.paging import AskedPage, Page
from leasehold.server.http.problems import ALLOWED, ALLOWED_UNLESS, SIGNED_IN
from leasehold.server.services import UsesServices
from leasehold.server.teams.deletion import Deletion
from leasehold.server.teams.members import Members, announce_permission_change
from leasehold.server.teams.projects import Projects
from leasehold.server.teams.schemas import NewProject, Project


@cache
def project_router() -> APIRouter:
    """``/api/projects``."""
    router = APIRouter(prefix="/api/projects", tags=["projects"])

    @router.post("", status_code=201, responses=ALLOWED)
    async def create_project(asked: NewProject, by: ByEditor, services: UsesServices) -> Project:
        """Create a project, for editors of the application."""
        projects = Projects(services.database)
        return Project.of(await projects.add(asked.name, application_id=asked.application_id, by=by))

    @router.get("", responses=SIGNED_IN, dependencies=[ANY_USER])
    async def list_projects(
        page: AskedPage, user: CurrentUser, services: UsesServices, application_id: QueryId = None
    ) -> Page[Project]:
        """List the projects of the caller's applications, or of one of them, by name."""
        found = await Projects(services.database).of_user(
            user.user_id, application_id=application_id, page=page
        )
        return page.build(found, Project.of)

    @router.get("/{project_id}", responses=ALLOWED)
    async def get_project(project_id: PathId, by: ByViewer, services: UsesServices) -> Project:
        """Get a project, for members of its application."""
        return Project.of(await Projects(services.database).get(project_id, by=by))

    @router.delete("/{project_id}", status_code=204, responses=ALLOWED_UNLESS)
    async def delete_project(
        project_id: PathId, by: ByOwner, editor: CurrentEditor, services: UsesServices
    ) -> Response:
        """Delete a project with its documents, for owners. 409 while another user is editing one of them."""
        project = await Projects(services.database).get(project_id, by=by)
        edited = await Deletion(services.database, services.locks).project(project_id, by=editor)
        if edited is not None:
            return busy_response(edited, editor)
        members = await Members(services.database).ids_of(project.application_id)
        await announce_permission_change(services, members)
        return Response(status_code=204)

    return router
