"""The id of the current request, which is passed from service to service. Has no dependencies."""

from __future__ import annotations

import re
from contextvars import ContextVar

REQUEST_ID_HEADER = "x-request-id"

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""The id of the current request, for log lines and problems; ``-`` without a request."""

# No characters that could steer a terminal or break a log line, and not too many.
_SAFE = re.compile(r"[A-Za-z0-9._:@/+=-]{1,128}")


def is_safe(given: str) -> bool:
    """Whether an id from another service may be logged."""
    return _SAFE.fullmatch(given) is not None
