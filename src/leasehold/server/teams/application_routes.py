"""Applications: what a team shares."""

from functools import cache

from fastapi import APIRouter
from starlette.responses import Response

from leasehold.documents.http.problems import busy
from leasehold.server.auth.dependencies import CurrentUser
from leasehold.server.editors import CurrentEditor
from leasehold.server.http.openapi_responses import ALLOWED, ALLOWED_UNLESS, SIGNED_IN
from leasehold.server.http.paging import Asks, Page
from leasehold.server.ids import PathId
from leasehold.server.rights import tell_rights_changed
from leasehold.server.services import UsesServices
from leasehold.server.teams.applications import Applications
from leasehold.server.teams.deletion import Deleting
from leasehold.server.teams.members import Members
from leasehold.server.teams.schemas import Application, ApplicationName


@cache
def applications_router() -> APIRouter:
    """``/api/applications``."""
    router = APIRouter(prefix="/api/applications", tags=["applications"])

    @router.post("", status_code=201, responses=SIGNED_IN)
    async def create_application(
        asked: ApplicationName, user: CurrentUser, services: UsesServices
    ) -> Application:
        """Make an application, and be its owner."""
        row = await Applications(services.sessions).add(asked.name, owner_id=user.user_id)
        return Application.of(row, "owner")

    @router.get("", responses=SIGNED_IN)
    async def list_applications(which: Asks, user: CurrentUser, services: UsesServices) -> Page[Application]:
        """Those that one is a member of, by name."""
        found = await Applications(services.sessions).of_user(user.user_id, which=which)
        return which.page(found, lambda each: Application.of(*each))

    @router.get("/{application_id}", responses=ALLOWED)
    async def get_application(
        application_id: PathId, user: CurrentUser, services: UsesServices
    ) -> Application:
        """For members."""
        found = await Applications(services.sessions).get(application_id, user_id=user.user_id)
        return Application.of(*found)

    @router.patch("/{application_id}", responses=ALLOWED)
    async def rename_application(
        application_id: PathId, asked: ApplicationName, user: CurrentUser, services: UsesServices
    ) -> Application:
        """For owners."""
        applications = Applications(services.sessions)
        return Application.of(*await applications.rename(application_id, asked.name, user_id=user.user_id))

    @router.delete("/{application_id}", status_code=204, responses=ALLOWED_UNLESS)
    async def delete_application(
        application_id: PathId, editor: CurrentEditor, services: UsesServices
    ) -> Response:
        """For owners: with its projects and documents. 409 if somebody else edits one of them right now."""
        members = await Members(services.sessions).ids_of(application_id)
        edited = await Deleting(services.sessions, services.locks).application(application_id, by=editor)
        if edited is not None:
            return busy(edited, editor)
        await tell_rights_changed(services, members)
        return Response(status_code=204)

    return router
