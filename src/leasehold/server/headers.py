"""What every answer tells a browser to be careful about."""

from __future__ import annotations

_PAGE_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
# FastAPI's page for the OpenAPI document: a script of its own in the page, and Swagger UI from its usual place.
_DOCS_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src https://fastapi.tiangolo.com data:; frame-ancestors 'none'; "
    "script-src 'unsafe-inline' https://cdn.jsdelivr.net; style-src 'unsafe-inline' https://cdn.jsdelivr.net"
)
_ANSWER_POLICY = "default-src 'none'; frame-ancestors 'none'"

Headers = list[tuple[bytes, bytes]]


def _with_policy(policy: str, *more: tuple[bytes, bytes]) -> Headers:
    return [
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
        *more,
    ]


API_HEADERS = _with_policy(_ANSWER_POLICY, (b"cache-control", b"no-store"))
"""For data: nothing in it is ever shown as a page, or kept by anybody on the way."""
PAGE_HEADERS = _with_policy(_PAGE_POLICY)
"""For the web page: everything from here, nothing inside a frame."""
DOCS_HEADERS = _with_policy(_DOCS_POLICY)
"""For the page that shows the OpenAPI document."""

OURS = frozenset(key for key, _ in API_HEADERS)
"""What a route may say otherwise."""

_DATA = ("/api/", "/healthz", "/readyz", "/metrics", "/openapi.json")


def headers_for(path: str) -> Headers:
    """The headers of every answer to a request for ``path``."""
    if path.startswith(_DATA):
        return API_HEADERS
    return DOCS_HEADERS if path == "/docs" else PAGE_HEADERS
