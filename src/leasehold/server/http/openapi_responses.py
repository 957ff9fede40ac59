"""What OpenAPI says about the problems that a route may answer with."""

from __future__ import annotations

from typing import Any

from leasehold.documents.http.problems import MEDIA_TYPE, problem_responses
from leasehold.server.documents.schemas import SaveRescued

_ALWAYS = (401, 422, 429, 503)

Responses = dict[int | str, dict[str, Any]]

SIGNED_IN: Responses = problem_responses(*_ALWAYS)
"""For whoever is signed in."""
ALLOWED: Responses = problem_responses(*_ALWAYS, 403, 404)
"""For whoever has the role."""
ALLOWED_UNLESS: Responses = problem_responses(*_ALWAYS, 403, 404, 409)
"""And unless something is in the way."""


def _rescued(*others: dict[str, Any]) -> dict[str, Any]:
    """A problem with more members; or one of the others."""
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
"""For saves, which may become drafts."""
ALLOWED_OR_STILL_A_DRAFT: Responses = ALLOWED | {
    409: _rescued(ALLOWED_UNLESS[409]["content"][MEDIA_TYPE]["schema"])
}
"""For drafts, which may stay drafts, or have been settled before."""
