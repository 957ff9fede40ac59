"""Saving, and what was saved."""

from functools import cache
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.ports import Save
from leasehold.server.auth.dependencies import CurrentUser
from leasehold.server.documents.content import check_size
from leasehold.server.documents.save_response import tell_saved
from leasehold.server.documents.schemas import (
    NewContent,
    SavedContent,
    Version,
    VersionSummary,
    show_version,
)
from leasehold.server.documents.versions import Versions
from leasehold.server.editors import CurrentEditor
from leasehold.server.http.openapi_responses import ALLOWED, ALLOWED_OR_RESCUED
from leasehold.server.http.paging import Asks, Page
from leasehold.server.ids import PathId
from leasehold.server.services import UsesServices


@cache
def versions_router() -> APIRouter:
    """``/api/documents/{document_id}/content`` and ``…/versions``."""
    router = APIRouter(prefix="/api/documents/{document_id}", tags=["documents"])

    @router.put("/content", response_model=SavedContent, responses=ALLOWED_OR_RESCUED)
    async def save_content(
        document_id: PathId, asked: NewContent, editor: CurrentEditor, services: UsesServices
    ) -> Response:
        """For editors who hold the lock. 409 if it could not become a version: then it is kept as a draft."""
        await PermissionCheck(services.access).check(editor.user_id, document_id, "editor")
        size = check_size(asked.content, at_most=services.settings.max_content_bytes)
        # Before anything is kept: whoever is refused still has the text, and asks again.
        services.limiter.spend("content", editor.user_id, size)
        save = Save(document_id, editor, asked.content, asked.base_version, int(asked.fence))
        return tell_saved(await services.locks.save(save, release=asked.release, reason=asked.reason))

    @router.get("/versions", responses=ALLOWED)
    async def list_versions(
        document_id: PathId, which: Asks, user: CurrentUser, services: UsesServices
    ) -> Page[VersionSummary]:
        """For viewers, newest first."""
        await PermissionCheck(services.access).check(user.user_id, document_id, "viewer")
        found = await Versions(services.sessions).of(document_id, which=which)
        return which.page(found, lambda each: VersionSummary(**show_version(each)))

    @router.get("/versions/{version}", responses=ALLOWED)
    async def get_version(
        document_id: PathId,
        version: Annotated[int, Path(ge=0, le=2**53 - 1)],
        user: CurrentUser,
        services: UsesServices,
    ) -> Version:
        """For viewers."""
        await PermissionCheck(services.access).check(user.user_id, document_id, "viewer")
        return Version(**show_version(await Versions(services.sessions).get(document_id, version)))

    return router
