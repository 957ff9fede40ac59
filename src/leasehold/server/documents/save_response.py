"""What whoever saves is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from leasehold.documents.http.problems import respond
from leasehold.documents.ports import Saved
from leasehold.errors import StoreError
from leasehold.server.documents.schemas import SavedContent, SaveRescued

if TYPE_CHECKING:
    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.outcomes import SaveAnswer
    from leasehold.documents.ports import Grant, RescueReason

_WHY: dict[RescueReason, str] = {
    "stale_fence": "somebody else has got the lock meanwhile",
    "stale_base": "there is a newer version than the one that this was made from",
    "not_holder": "the lock was not granted to you at this tab",
}


def tell_saved(answer: SaveAnswer) -> Response:
    """200 with the version, or 409 with the draft."""
    outcome = answer.outcome
    if isinstance(outcome, Saved):
        saved = SavedContent(version=outcome.version, lock_lost=answer.lock_lost)
        return Response(saved.model_dump_json(), media_type="application/json")
    return respond(
        SaveRescued(
            type="save_rescued",
            code="save_rescued",
            title="Kept as a draft",
            status=409,
            message=f"{_WHY[outcome.reason]}; what you wrote is kept as a draft",
            draft_id=outcome.draft_id,
            reason=outcome.reason,
            version=outcome.version,
        )
    )


async def is_lost(locks: DocumentLocks, grant: Grant) -> bool | None:
    """Whether the grant has ended; None if the store of locks does not say."""
    try:
        state = await locks.state(grant.document_id)
    except StoreError:
        return None
    return not state.is_held_by(grant.editor) or state.version.fence != grant.fence
