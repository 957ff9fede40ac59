"""Routes of the members of an application."""

from functools import cache

from fastapi import APIRouter

from leasehold.server.auth.dependencies import ByOwner, ByOwnerOrSelf, ByViewer
from leasehold.server.http.fields import PathId
from leasehold.server.http.paging import AskedPage, Page
from leasehold.server.http.problems import ALLOWED, ALLOWED_UNLESS
from leasehold.server.services import UsesServices
from leasehold.server.teams.members import Members, announce_permission_change
from leasehold.server.teams.schemas import Member, MemberRole, NewMember


@cache
def member_router() -> APIRouter:
    """``/api/applications/{application_id}/members``."""
    router = APIRouter(prefix="/api/applications/{application_id}/members", tags=["applications"])

    @router.get("", responses=ALLOWED)
    async def list_members(
        application_id: PathId, page: AskedPage, by: ByViewer, services: UsesServices
    ) -> Page[Member]:
        """List the members, for members."""
        role, found = await Members(services.database).of(application_id, by=by, page=page)
        is_owner = role == "owner"
        return page.build(
            found, lambda each: Member.of(each, with_email=is_owner or each.user_id == by.user_id)
        )

    @router.post("", status_code=201, responses=ALLOWED_UNLESS)
    async def add_member(
        application_id: PathId, asked: NewMember, by: ByOwner, services: UsesServices
    ) -> Member:
        """Add a member, for owners. 404 if no user has the address, 409 for a member."""
        # Each answer tells whether the address has an account.
        services.rate_limiter.spend("add_member", by.user_id)
        members = Members(services.database)
        added = await members.add(application_id, email=asked.email, role=asked.role, by=by)
        await announce_permission_change(services, [added.user_id])
        return Member.of(added, with_email=True)

    @router.patch("/{user_id}", responses=ALLOWED_UNLESS)
    async def change_member(
        application_id: PathId, user_id: PathId, asked: MemberRole, by: ByOwner, services: UsesServices
    ) -> Member:
        """Change a member's role, for owners. 409 for the last owner."""
        changed = await Members(services.database).change(application_id, user_id, role=asked.role, by=by)
        await announce_permission_change(services, [user_id])
        return Member.of(changed, with_email=True)

    @router.delete("/{user_id}", status_code=204, responses=ALLOWED_UNLESS)
    async def remove_member(
        application_id: PathId, user_id: PathId, by: ByOwnerOrSelf, services: UsesServices
    ) -> None:
        """Remove a member, for owners and for the member. 409 for the last owner."""
        await Members(services.database).remove(application_id, user_id, by=by)
        await announce_permission_change(services, [user_id])

    return router
