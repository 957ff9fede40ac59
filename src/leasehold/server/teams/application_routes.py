"""Routes of applications."""

from functools import cache

from fastapi import APIRouter
from starlette.responses import Response

from leasehold.documents.http.problems import busy_response
from leasehold.server.auth.dependencies import ANY_USER, ByOwner, ByViewer, CurrentEditor, CurrentUser
from leasehold.server.http.fields import PathId
from leasehold.server.http.paging import AskedPage, Page
from leasehold.server.http.problems import ALLOWED, ALLOWED_UNLESS, SIGNED_IN
from leasehold.server.services import UsesServices
from leasehold.server.teams.applications import Applications
from leasehold.server.teams.deletion import Deletion
from leasehold.server.teams.members import Members, announce_permission_change
from leasehold.server.teams.schemas import Application, ApplicationName


@cache
def application_router() -> APIRouter:
    """``/api/applications``."""
    router = APIRouter(prefix="/api/applications", tags=["applications"])

    @router.post("", status_code=201, responses=SIGNED_IN, dependencies=[ANY_USER])
    async def create_application(
        asked: ApplicationName, user: CurrentUser, services: UsesServices
    ) -> Application:
        """Create an application; the caller is its owner."""
        row = await Applications(services.database).add(asked.name, owner_id=user.user_id)
        return Application.of(row, "owner")

    @router.get("", responses=SIGNED_IN, dependencies=[ANY_USER])
    async def list_applications(
        page: AskedPage, user: CurrentUser, services: UsesServices
    ) -> Page[Application]:
        """List the caller's applications by name."""
        found = await Applications(services.database).of_user(user.user_id, page=page)
        return page.build(found, lambda each: Application.of(*each))

    @router.get("/{application_id}", responses=ALLOWED)
    async def get_application(application_id: PathId, by: ByViewer, services: UsesServices) -> Application:
        """Get an application, for members."""
        return Application.of(*await Applications(services.database).get(application_id, by=by))

    @router.patch("/{application_id}", responses=ALLOWED)
    async def rename_application(
        application_id: PathId, asked: ApplicationName, by: ByOwner, services: UsesServices
    ) -> Application:
        """Rename an application, for owners."""
        applications = Applications(services.database)
        return Application.of(*await applications.rename(application_id, asked.name, by=by))

    @router.delete("/{application_id}", status_code=204, responses=ALLOWED_UNLESS)
    async def delete_application(
        application_id: PathId, by: ByOwner, editor: CurrentEditor, services: UsesServices
    ) -> Response:
        """Delete an application with its projects and documents, for owners. 409 while another user is editing one."""
        await Applications(services.database).get(application_id, by=by)
        members = await Members(services.database).ids_of(application_id)
        edited = await Deletion(services.database, services.locks).application(application_id, by=editor)
        if edited is not None:
            return busy_response(edited, editor)
        await announce_permission_change(services, members)
        return Response(status_code=204)

    return router
