"""Every request has an id: the caller's own if it is a sane one, else a new one. It is in answers and in the log."""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar
from itertools import count

HEADER = b"x-request-id"
request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""The id of the request that is being answered, for whoever writes a log line or a problem."""

# Nothing that could steer a terminal, break a line of a log, or grow it.
_SANE = re.compile(rb"[A-Za-z0-9._:@/+=-]{1,128}")


class RequestIds:
    """Gives every request its id."""

    def __init__(self) -> None:
        # Random once, and counted from there: an id must be nobody else's, but need not be a secret.
        self._prefix = secrets.token_hex(6)
        self._numbers = count(1)

    def begin(self, given: bytes | None) -> bytes:
        """The id of the request that begins here."""
        if given is not None and _SANE.fullmatch(given):
            name = given.decode()
        else:
            name = f"{self._prefix}-{next(self._numbers)}"
        request_id.set(name)
        return name.encode()
