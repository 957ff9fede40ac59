"""The id of a request, which travels with it from one service to the next. Needs nothing but Python."""

from __future__ import annotations

import re
from contextvars import ContextVar

REQUEST_ID_HEADER = "x-request-id"

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""The id of the request that is being answered, for whoever writes a log line or a problem; ``-`` if there is none."""

# Nothing that could steer a terminal, break a line of a log, or grow it.
_SANE = re.compile(r"[A-Za-z0-9._:@/+=-]{1,128}")


def is_sane(given: str) -> bool:
    """Whether an id that somebody else chose may be written down."""
    return _SANE.fullmatch(given) is not None
