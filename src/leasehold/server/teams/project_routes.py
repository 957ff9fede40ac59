"""Projects: parts of an application."""

from functools import cache

from fastapi import APIRouter
from starlette.responses import Response

from leasehold.documents.http.problems import busy
from leasehold.server.auth.dependencies import CurrentUser
from leasehold.server.editors import CurrentEditor
from leasehold.server.http.openapi_responses import ALLOWED, ALLOWED_UNLESS, SIGNED_IN
from leasehold.server.http.paging import Asks, Page
from leasehold.server.ids import PathId, QueryId
from leasehold.server.rights import tell_rights_changed
from leasehold.server.services import UsesServices
from leasehold.server.teams.deletion import Deleting
from leasehold.server.teams.members import Members
from leasehold.server.teams.projects import Projects
from leasehold.server.teams.schemas import NewProject, Project


@cache
def projects_router() -> APIRouter:
    """``/api/projects``."""
    router = APIRouter(prefix="/api/projects", tags=["projects"])

    @router.post("", status_code=201, responses=ALLOWED)
    async def create_project(asked: NewProject, user: CurrentUser, services: UsesServices) -> Project:
        """For editors."""
        projects = Projects(services.sessions)
        return Project.of(
            await projects.add(asked.name, application_id=asked.application_id, user_id=user.user_id)
        )

    @router.get("", responses=SIGNED_IN)
    async def list_projects(
        which: Asks, user: CurrentUser, services: UsesServices, application_id: QueryId = None
    ) -> Page[Project]:
        """Those of one's applications, or of one of them, by name."""
        found = await Projects(services.sessions).of_user(
            user.user_id, application_id=application_id, which=which
        )
        return which.page(found, Project.of)

    @router.get("/{project_id}", responses=ALLOWED)
    async def get_project(project_id: PathId, user: CurrentUser, services: UsesServices) -> Project:
        """For members of its application."""
        return Project.of(await Projects(services.sessions).get(project_id, user_id=user.user_id))

    @router.delete("/{project_id}", status_code=204, responses=ALLOWED_UNLESS)
    async def delete_project(project_id: PathId, editor: CurrentEditor, services: UsesServices) -> Response:
        """For owners of its application: with its documents. 409 if somebody else edits one of them right now."""
        project = await Projects(services.sessions).get(project_id, user_id=editor.user_id)
        edited = await Deleting(services.sessions, services.locks).project(project_id, by=editor)
        if edited is not None:
            return busy(edited, editor)
        await tell_rights_changed(services, await Members(services.sessions).ids_of(project.application_id))
        return Response(status_code=204)

    return router
