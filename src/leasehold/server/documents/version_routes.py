"""Routes of saves and versions."""

from functools import cache
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from leasehold.documents.ports import Save
from leasehold.server.auth.dependencies import CurrentEditor, require
from leasehold.server.documents.content import check_size
from leasehold.server.documents.save_response import ALLOWED_OR_RESCUED, save_response
from leasehold.server.documents.schemas import (
    NewContent,
    SavedContent,
    Version,
    VersionSummary,
    respond_with_content,
    show_version,
)
from leasehold.server.documents.versions import Versions
from leasehold.server.http.fields import PathId
from leasehold.server.http.large_bodies import LargeBodyRoute
from leasehold.server.http.paging import AskedPage, Page
from leasehold.server.http.problems import ALLOWED
from leasehold.server.services import UsesServices


@cache
def version_router() -> APIRouter:
    """``/api/documents/{document_id}/content`` and ``…/versions``."""
    router = APIRouter(prefix="/api/documents/{document_id}", tags=["documents"], route_class=LargeBodyRoute)

    @router.put(
        "/content",
        response_model=SavedContent,
        responses=ALLOWED_OR_RESCUED,
        dependencies=[require("editor")],
    )
    async def save_content(
        document_id: PathId, asked: NewContent, editor: CurrentEditor, services: UsesServices
    ) -> Response:
        """Save, for editors who hold the lock. 409 if it cannot become a version: then it is kept as a draft."""
        size = check_size(asked.content, at_most=services.settings.max_content_bytes)
        # Counted before anything is kept: a refused client still has the text, and retries.
        services.rate_limiter.spend("content", editor.user_id, size)
        save = Save(document_id, editor, asked.content, asked.base_version, int(asked.fence))
        return save_response(await services.locks.save(save, release=asked.release, reason=asked.reason))

    @router.get("/versions", responses=ALLOWED, dependencies=[require("viewer")])
    async def list_versions(
        document_id: PathId, page: AskedPage, services: UsesServices
    ) -> Page[VersionSummary]:
        """List the versions, newest first, for viewers."""
        found = await Versions(services.database).of(document_id, page=page)
        return page.build(found, show_version)

    @router.get(
        "/versions/{version}", response_model=Version, responses=ALLOWED, dependencies=[require("viewer")]
    )
    async def get_version(
        document_id: PathId,
        version: Annotated[int, Path(ge=0, le=2**53 - 1)],
        services: UsesServices,
    ) -> Response:
        """Get a version, for viewers."""
        row = await Versions(services.database).get(document_id, version)
        return respond_with_content(show_version(row), row.content)

    return router
