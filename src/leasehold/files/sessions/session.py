"""State of one opened session, which the modules of its verbs share, for asyncio and for threads."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from leasehold.core.leases.lease import LeaseState
from leasehold.files.content.last_seen import LastSeen
from leasehold.files.sessions.claims import SessionIdentity
from leasehold.files.sessions.session_store import SessionStore
from leasehold.valkey.options import default_holder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.files.sessions.context import SessionContext
    from leasehold.files.sessions.credentials import Secret
    from leasehold.files.sessions.entries import Entry
    from leasehold.files.sessions.held_file import HeldFile

L = TypeVar("L", bound=LeaseState)
H = TypeVar("H", bound="HeldFile[Any]")
_log = logging.getLogger("leasehold.files")


class Doubt(NamedTuple):
    """Versions of entries behind which there may be a lease until ``ends_at``, because a request had no reply."""

    ends_at: float
    versions: Sequence[Sequence[Entry]]


class SessionCore(Generic[L, H]):
    """One opening of a session: its files, its history in the store, and what it has seen of files."""

    def __init__(
        self,
        context: SessionContext[L],
        session_id: str,
        secret: Secret,
        make_lease: Callable[..., H],
        purpose: str | None,
    ) -> None:
        self.context = context
        self.engine = context.engine
        self.session_id = session_id
        self.secret = secret
        self.purpose = purpose
        self.make_lease = make_lease
        self.identity = SessionIdentity(session_id, secret, 0, default_holder())
        self.held: dict[str, H] = {}
        self.store = SessionStore(
            context, session_id, secret, lambda: [hold.entry for hold in list(self.held.values())]
        )
        self.last_seen = LastSeen()
        # Lists, because threads may share a session, and a list adds or removes an item in one step.
        self.being_written: list[str] = []
        self.doubts: list[Doubt] = []

    async def open(self) -> None:
        """Register the session in the store, or prove that it is ours."""
        epoch = await self.context.watch_outage(self.store.open())
        self.identity = replace(self.identity, epoch=epoch)

    def trim_ttl(self, ttl: float | None) -> tuple[float, bool]:
        """As `SessionContext.trim_ttl`; logs it."""
        allowed, trimmed = self.context.trim_ttl(ttl)
        if trimmed:
            _log.warning(
                "session %s: the ttl was trimmed to %g s, the most allowed", self.session_id, allowed
            )
        return allowed, trimmed


AnySession = SessionCore[Any, Any]
