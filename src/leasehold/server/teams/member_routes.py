"""Who works on an application, and as what."""

from functools import cache

from fastapi import APIRouter

from leasehold.server.auth.dependencies import CurrentUser
from leasehold.server.http.openapi_responses import ALLOWED, ALLOWED_UNLESS
from leasehold.server.http.paging import Asks, Page
from leasehold.server.ids import PathId
from leasehold.server.rights import tell_rights_changed
from leasehold.server.services import UsesServices
from leasehold.server.teams.members import Members
from leasehold.server.teams.schemas import Member, MemberRole, NewMember


@cache
def members_router() -> APIRouter:
    """``/api/applications/{application_id}/members``."""
    router = APIRouter(prefix="/api/applications/{application_id}/members", tags=["applications"])

    @router.get("", responses=ALLOWED)
    async def list_members(
        application_id: PathId, which: Asks, user: CurrentUser, services: UsesServices
    ) -> Page[Member]:
        """For members."""
        role, found = await Members(services.sessions).of(application_id, by=user.user_id, which=which)
        is_owner = role == "owner"
        return which.page(
            found, lambda each: Member.of(each, with_email=is_owner or each.user_id == user.user_id)
        )

    @router.post("", status_code=201, responses=ALLOWED_UNLESS)
    async def add_member(
        application_id: PathId, asked: NewMember, user: CurrentUser, services: UsesServices
    ) -> Member:
        """For owners. 404 if nobody is registered with the address, 409 if they are a member already."""
        added = await Members(services.sessions).add(
            application_id, email=asked.email, role=asked.role, by=user.user_id
        )
        await tell_rights_changed(services, [added.user_id])
        return Member.of(added, with_email=True)

    @router.patch("/{user_id}", responses=ALLOWED_UNLESS)
    async def change_member(
        application_id: PathId, user_id: PathId, asked: MemberRole, user: CurrentUser, services: UsesServices
    ) -> Member:
        """For owners. 409 if that would leave no owner."""
        changed = await Members(services.sessions).change(
            application_id, user_id, role=asked.role, by=user.user_id
        )
        await tell_rights_changed(services, [user_id])
        return Member.of(changed, with_email=True)

    @router.delete("/{user_id}", status_code=204, responses=ALLOWED_UNLESS)
    async def remove_member(
        application_id: PathId, user_id: PathId, user: CurrentUser, services: UsesServices
    ) -> None:
        """For owners, and for whoever leaves. 409 if that would leave no owner."""
        await Members(services.sessions).remove(application_id, user_id, by=user.user_id)
        await tell_rights_changed(services, [user_id])

    return router
