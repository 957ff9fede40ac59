"""Notices between workers: changed permissions, and ended logins."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.documents.store.scripts import END_SESSIONS, HAS_ENDED
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.script_runner import ScriptRunner
from leasehold.valkey.transport.protocols import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.documents.store.tickets import Admission
    from leasehold.valkey.transport.protocols import PubSubTransport

_log = logging.getLogger("leasehold.documents")

CHANNEL = "doc_lock:notices"
"""The channel on which workers and scripts publish notices."""

_NAMESPACE = "doc_lock:ended"
_EVERY_SESSION = "*"
# Longer than a worker without the store can be of any use.
_KEEP_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class RightsChanged:
    """The permissions of a user have changed, or with None of any user."""

    user_id: str | None


@dataclass(frozen=True, slots=True)
class SessionsEnded:
    """One login of a user has ended, or with None all that were valid before ``at_ms``."""

    user_id: str
    session_id: str | None
    at_ms: int

    def includes(self, admission: Admission) -> bool:
        """The notice is about this login."""
        if self.session_id is not None:
            return admission.principal.session_id == self.session_id
        return admission.since_ms <= self.at_ms


Notice = RightsChanged | SessionsEnded


class WorkerNotices:
    """A notice is a hint that may be lost. Permissions can be checked again, and ended logins are stored."""

    def __init__(self, wire: PubSubTransport) -> None:
        self._wire = wire
        self._runner = ScriptRunner(wire)
        self._end = ScriptCommand(_NAMESPACE, END_SESSIONS, "ended")
        self._has_ended = ScriptCommand(_NAMESPACE, HAS_ENDED, "ended")

    async def listen(self, hear: Callable[[Notice], None], resumed: Callable[[], None]) -> bool:
        """Call ``hear`` with every notice, and ``resumed`` after every gap; False if pub/sub is not available."""

        def read(payload: bytes) -> None:
            try:
                hear(_notice(payload))
            except Exception:  # noqa: BLE001 - called by the connection itself, which must go on for other listeners
                _log.exception("a notice of another worker was dropped")

        return await self._wire.subscribe(CHANNEL, read, resumed)

    async def announce_rights_changed(self, user_id: str | None) -> None:
        """Publish the notice to all workers."""
        connection = await self._wire.get_connection()
        notice = json.dumps({"kind": "rights_changed", "user_id": user_id})
        self._runner.raise_if_error(await connection.call("PUBLISH", CHANNEL, notice))

    async def end_sessions(self, user_id: str, session_id: str | None) -> SessionsEnded:
        """Store that logins have ended, and publish the notice to all workers."""
        session = _EVERY_SESSION if session_id is None else _named(session_id)
        at_ms = await self._runner.run(self._end, user_id, session, user_id, _KEEP_MS)
        return SessionsEnded(user_id, session_id, at_ms)

    async def have_ended(self, admissions: Sequence[Admission]) -> list[bool]:
        """For each: its login has ended since."""
        calls = [
            Call(self._has_ended, user.user_id, (_named(user.session_id), since_ms))
            for user, since_ms in admissions
        ]
        replies = await self._runner.run_many(calls)
        for reply in replies:
            self._runner.raise_if_error(reply)
        return [reply == 1 for reply in replies]

    def now_ms(self) -> int | None:
        """The store's clock, roughly; None without a connection."""
        connection = self._wire.connection
        return None if connection is None else connection.now_ms()


def _named(session_id: str) -> str:
    # Distinct from the asterisk, whatever session ids look like.
    return f"={session_id}"


def _notice(payload: bytes) -> Notice:
    notice = json.loads(payload)
    if notice["kind"] == "rights_changed":
        return RightsChanged(notice["user_id"])
    session: str = notice["session"]
    return SessionsEnded(
        notice["user_id"], None if session == _EVERY_SESSION else session[1:], int(notice["at_ms"])
    )
