"""Who got what, and who was refused: one line each in the log ``leasehold.audit``, with the facts as fields."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from leasehold.documents.state import Person

Deed = Literal["lock_granted", "lock_busy", "lock_taken", "access_refused", "socket_refused"]

_log = logging.getLogger("leasehold.audit")


def note(deed: Deed, *, document_id: str | None = None, person: Person | None = None, **facts: str) -> None:
    """Write it down. Never a token, a ticket or a tab: a log is read by many."""
    fields = {"deed": deed, "document_id": document_id, "user_id": person and person.user_id, **facts}
    said = " ".join(f"{name}={value!r}" for name, value in fields.items() if value is not None)
    _log.info("%s", said, extra=fields)
