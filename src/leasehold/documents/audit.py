"""The audit log ``leasehold.audit``: one line per grant and per refusal, with its facts as fields."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from leasehold.documents.state import Person

Action = Literal["lock_granted", "lock_busy", "lock_taken", "access_refused", "socket_refused"]

_log = logging.getLogger("leasehold.audit")


def note(
    action: Action, *, document_id: str | None = None, person: Person | None = None, **facts: str
) -> None:
    """Log an action. Never pass a token, a ticket or a tab: many people read a log."""
    fields = {"action": action, "document_id": document_id, "user_id": person and person.user_id, **facts}
    text = " ".join(f"{name}={value!r}" for name, value in fields.items() if value is not None)
    _log.info("%s", text, extra=fields)
