"""Responses to saves, and their OpenAPI description."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from leasehold.documents.http.problems import problem_responses, respond
from leasehold.documents.ports import Saved
from leasehold.errors import StoreError
from leasehold.http_problems import MEDIA_TYPE
from leasehold.server.documents.schemas import SavedContent, SaveRescued
from leasehold.server.http.problems import ALLOWED, ALLOWED_UNLESS, Responses

if TYPE_CHECKING:
    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.outcomes import SaveAnswer
    from leasehold.documents.ports import Grant, RescueReason

_REASONS: dict[RescueReason, str] = {
    "stale_fence": "another editor has the lock by now",
    "stale_base": "the document has a newer version than the one that this was made from",
    "not_holder": "the lock was not granted to you in this tab",
}


def save_response(answer: SaveAnswer) -> Response:
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
            message=f"{_REASONS[outcome.reason]}; your text is kept as a draft",
            draft_id=outcome.draft_id,
            reason=outcome.reason,
            version=outcome.version,
        )
    )


async def is_lost(locks: DocumentLocks, grant: Grant) -> bool | None:
    """True if the grant has ended; None if the lock store does not answer."""
    try:
        state = await locks.state(grant.document_id)
    except StoreError:
        return None
    return not state.is_held_by(grant.editor) or state.version.fence != grant.fence


def _rescued(*others: dict[str, Any]) -> dict[str, Any]:
    """The problem `SaveRescued`, or one of the others."""
    response = problem_responses(409)[409]
    content = response["content"][MEDIA_TYPE]
    problem = content["schema"]
    schema = SaveRescued.model_json_schema(mode="serialization")
    own = {name: schema["properties"][name] for name in ("draft_id", "reason", "version")}
    problem["properties"] |= own
    problem["title"] = SaveRescued.__name__
    problem["required"] = [*problem["required"], *own]
    if others:
        content["schema"] = {"anyOf": [problem, *others]}
    return response


ALLOWED_OR_RESCUED: Responses = ALLOWED | {409: _rescued()}
"""Of a save, which may become a draft."""
ALLOWED_OR_STILL_A_DRAFT: Responses = ALLOWED | {
    409: _rescued(ALLOWED_UNLESS[409]["content"][MEDIA_TYPE]["schema"])
}
"""Of restoring a draft, which may stay a draft or be settled already."""
