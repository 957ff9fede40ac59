"""Tickets: each opens one socket, once, where a page cannot or should not send its token."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from typing import TYPE_CHECKING, NamedTuple

from leasehold.documents.ports import Principal
from leasehold.documents.store.scripts import ISSUE_TICKET, USE_TICKET
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.script_runner import ScriptRunner

if TYPE_CHECKING:
    from leasehold.valkey.transport.protocols import Transport

LIFETIME = 30.0
"""Seconds."""

_NAMESPACE = "doc_lock:ticket"


class Admission(NamedTuple):
    """An authenticated user, and when the credentials were valid: milliseconds on the store's clock."""

    principal: Principal
    since_ms: int


class Tickets:
    """Stored in Valkey, so that any worker accepts a ticket of another; as a digest, so that reading the store
    reveals no ticket."""

    def __init__(self, wire: Transport) -> None:
        self._runner = ScriptRunner(wire)
        self._issue = ScriptCommand(_NAMESPACE, ISSUE_TICKET, "ticket")
        self._use = ScriptCommand(_NAMESPACE, USE_TICKET, "ticket")

    async def issue(self, principal: Principal) -> str:
        """A ticket for the principal, valid for `LIFETIME`."""
        ticket = secrets.token_urlsafe(24)
        until = principal.expires_at
        stored = {
            "user_id": principal.user_id,
            "user_name": principal.user_name,
            "expires_at": None if math.isinf(until) else until,
            "session_id": principal.session_id,
        }
        await self._runner.run(self._issue, _digest(ticket), json.dumps(stored), int(LIFETIME * 1000))
        return ticket

    async def use(self, ticket: str) -> Admission | None:
        """The user of the ticket; None if it was used before, has expired, or was never issued."""
        stored: bytes | None = await self._runner.run(self._use, _digest(ticket))
        if stored is None:
            return None
        made_ms, _, text = stored.partition(b" ")
        user = json.loads(text)
        until = user["expires_at"]
        principal = Principal(
            user["user_id"], user["user_name"], math.inf if until is None else until, user["session_id"]
        )
        return Admission(principal, int(made_ms))


def _digest(ticket: str) -> str:
    return hashlib.sha256(ticket.encode()).hexdigest()
