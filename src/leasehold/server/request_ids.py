"""Every request has an id: the caller's own if it is a sane one, else a new one. It is in answers and in the log."""

from __future__ import annotations

import secrets
from itertools import count

from leasehold.observe.request_id import REQUEST_ID_HEADER, is_safe, request_id

__all__ = ["HEADER", "RequestIds", "request_id"]

HEADER = REQUEST_ID_HEADER.encode()


class RequestIds:
    """Gives every request its id."""

    def __init__(self) -> None:
        # Random once, and counted from there: an id must be nobody else's, but need not be a secret.
        self._prefix = secrets.token_hex(6)
        self._numbers = count(1)

    def begin(self, given: bytes | None) -> bytes:
        """The id of the request that begins here."""
        if given is not None and is_safe(name := given.decode("latin-1")):
            pass
        else:
            name = f"{self._prefix}-{next(self._numbers)}"
        request_id.set(name)
        return name.encode()
