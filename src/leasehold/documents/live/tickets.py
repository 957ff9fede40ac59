"""Tickets: they let one socket in, once, where a page cannot or should not show its token."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from typing import TYPE_CHECKING, NamedTuple

from leasehold.documents.live.scripts import ISSUE_TICKET, USE_TICKET
from leasehold.documents.principal import Principal
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.script_runner import ScriptRunner

if TYPE_CHECKING:
    from leasehold.valkey.transport.protocols import Transport

LIFETIME = 30.0
"""Seconds."""

_NAMESPACE = "doc_lock:ticket"


class Admission(NamedTuple):
    """Who is let in, and when it was known that they may be: milliseconds on the store's clock."""

    principal: Principal
    since_ms: int


class Tickets:
    """Kept in the store, so that any worker takes what another one issued; as a digest, so that whoever can read the
    store cannot use them."""

    def __init__(self, wire: Transport) -> None:
        self._runner = ScriptRunner(wire)
        self._issue = ScriptCommand(_NAMESPACE, ISSUE_TICKET, "ticket")
        self._use = ScriptCommand(_NAMESPACE, USE_TICKET, "ticket")

    async def issue(self, principal: Principal) -> str:
        """A ticket for the principal, good for `LIFETIME`."""
        ticket = secrets.token_urlsafe(24)
        until = principal.expires_at
        kept = {
            "user_id": principal.user_id,
            "user_name": principal.user_name,
            "expires_at": None if math.isinf(until) else until,
            "session_id": principal.session_id,
        }
        await self._runner.run(self._issue, _digest(ticket), json.dumps(kept), int(LIFETIME * 1000))
        return ticket

    async def use(self, ticket: str) -> Admission | None:
        """Who the ticket was issued to; None if it was used before, is too old, or never was one."""
        kept: bytes | None = await self._runner.run(self._use, _digest(ticket))
        if kept is None:
            return None
        made_ms, _, text = kept.partition(b" ")
        who = json.loads(text)
        until = who["expires_at"]
        principal = Principal(
            who["user_id"], who["user_name"], math.inf if until is None else until, who["session_id"]
        )
        return Admission(principal, int(made_ms))


def _digest(ticket: str) -> str:
    return hashlib.sha256(ticket.encode()).hexdigest()
