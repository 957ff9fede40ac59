"""What workers tell each other: that rights have changed, and that sign-ins have ended."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.documents.live.scripts import END_SESSIONS, HAS_ENDED
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.script_runner import ScriptRunner
from leasehold.valkey.transport.protocols import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.documents.live.tickets import Admission
    from leasehold.valkey.transport.protocols import PubSubTransport

_log = logging.getLogger("leasehold")

CHANNEL = "doc_lock:notices"
"""Where workers and the scripts tell."""

_NAMESPACE = "doc_lock:ended"
_EVERY_SESSION = "*"
# Longer than a worker can be cut off from the store and still be of use.
_KEEP_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class RightsChanged:
    """Of a user, or of anybody."""

    user_id: str | None


@dataclass(frozen=True, slots=True)
class SessionsEnded:
    """One sign-in of a user, or every one that was good before ``at_ms``."""

    user_id: str
    session_id: str | None
    at_ms: int

    def includes(self, admission: Admission) -> bool:
        """Whether it is this one, or one of these."""
        if self.session_id is not None:
            return admission.principal.session_id == self.session_id
        return admission.since_ms <= self.at_ms


Notice = RightsChanged | SessionsEnded


class Notices:
    """A notice is a hint that may get lost. Rights can be asked for again, and ended sign-ins are written down."""

    def __init__(self, wire: PubSubTransport) -> None:
        self._wire = wire
        self._runner = ScriptRunner(wire)
        self._end = ScriptCommand(_NAMESPACE, END_SESSIONS, "ended")
        self._has_ended = ScriptCommand(_NAMESPACE, HAS_ENDED, "ended")

    async def listen(self, hear: Callable[[Notice], None], resumed: Callable[[], None]) -> bool:
        """Call ``hear`` with every notice, and ``resumed`` after every gap; False if nothing can be heard."""

        def read(payload: bytes) -> None:
            try:
                hear(_notice(payload))
            except Exception:  # noqa: BLE001 - called by the connection itself, which must go on for everybody else
                _log.exception("a notice to workers was passed over")

        return await self._wire.subscribe(CHANNEL, read, resumed)

    async def tell_rights_changed(self, user_id: str | None) -> None:
        """Tell all workers."""
        connection = await self._wire.get_connection()
        notice = json.dumps({"kind": "rights_changed", "user_id": user_id})
        self._runner.raise_if_error(await connection.call("PUBLISH", CHANNEL, notice))

    async def end_sessions(self, user_id: str, session_id: str | None) -> SessionsEnded:
        """Write it down and tell all workers."""
        session = _EVERY_SESSION if session_id is None else _named(session_id)
        at_ms = await self._runner.run(self._end, user_id, session, user_id, _KEEP_MS)
        return SessionsEnded(user_id, session_id, at_ms)

    async def have_ended(self, admissions: Sequence[Admission]) -> list[bool]:
        """Whether each has been ended since."""
        calls = [
            Call(self._has_ended, who.user_id, (_named(who.session_id), since_ms))
            for who, since_ms in admissions
        ]
        replies = await self._runner.run_many(calls)
        for reply in replies:
            self._runner.raise_if_error(reply)
        return [reply == 1 for reply in replies]

    def now_ms(self) -> int | None:
        """About what the store's clock shows; None without a connection."""
        connection = self._wire.connection
        return None if connection is None else connection.now_ms()


def _named(session_id: str) -> str:
    # Set apart from the asterisk, whatever sign-ins are called.
    return f"={session_id}"


def _notice(payload: bytes) -> Notice:
    said = json.loads(payload)
    if said["kind"] == "rights_changed":
        return RightsChanged(said["user_id"])
    session: str = said["session"]
    return SessionsEnded(
        said["user_id"], None if session == _EVERY_SESSION else session[1:], int(said["at_ms"])
    )
