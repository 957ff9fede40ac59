"""The problems of a route, for its OpenAPI description."""

from __future__ import annotations

from typing import Any

from leasehold.documents.http.problems import problem_responses

_ALWAYS = (401, 422, 429, 503)

Responses = dict[int | str, dict[str, Any]]

SIGNED_IN: Responses = problem_responses(*_ALWAYS)
"""Of a route for any signed-in user."""
ALLOWED: Responses = problem_responses(*_ALWAYS, 403, 404)
"""Of a route that needs a role."""
ALLOWED_UNLESS: Responses = problem_responses(*_ALWAYS, 403, 404, 409)
"""Of a route that needs a role and may conflict with the state of the object."""
