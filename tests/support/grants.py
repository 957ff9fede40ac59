"""Records the grants of one lock on the server's own clock, as MONITOR shows them."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tests.support.eventually import LIMIT

if TYPE_CHECKING:
    from tests.support.servers import Server

# Kind, token, channel, ticket, until_ms, since_ms and holder; see `record.lua`. A plain record ('x') has no until_ms:
# it becomes 'w' as soon as the queue is not empty.
_RECORD = re.compile(r'2([wg])(\w{32})\w{16}\d+ (\d+) (\d+) "(.*)" PX ')
_END = "grants-end"


@dataclass
class GrantedHold:
    """One grant to a waiter, or to an asker that others wait behind. Seconds on the server's clock."""

    token: str
    holder: str
    since: float
    until: float
    is_handed_over: bool
    """Granted while it waited, so the lease lasts for the claim window until it is claimed."""

    @property
    def pid(self) -> int:
        """Of a holder that is named by default, after its host and process."""
        return int(self.holder.rpartition(":")[2])


class GrantRecorder:
    """Reads MONITOR in a thread. The server buffers what a busy reader has not read, so no grant is missed."""

    def __init__(self, server: Server, name: str) -> None:
        self._server = server
        self._key = f"lock:{{{name}}}"
        self._holds: dict[tuple[str, str], GrantedHold] = {}
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def now(self) -> float:
        """The server's clock."""
        seconds, microseconds = self._server.call("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def stop(self) -> list[GrantedHold]:
        """End, and give all holds in the order of their grants."""
        self._server.call("ECHO", _END)
        self._thread.join(LIMIT)
        assert not self._thread.is_alive(), "MONITOR did not show the end"
        return sorted(self._holds.values(), key=lambda hold: hold.since)

    def _read(self) -> None:
        with self._server.admin(socket_timeout=LIMIT) as admin, admin.monitor() as monitor:
            self._has_begun.set()
            for shown in monitor.listen():
                command = shown["command"]
                if _END in command:
                    return
                if shown["client_type"] == "lua" and command.startswith(f"SET {self._key} "):
                    self._note(command)

    def _note(self, command: str) -> None:
        match = _RECORD.search(command)
        if match is None:
            return
        kind, token, until_ms, since_ms, holder = match.groups()
        hold = self._holds.get((token, since_ms))
        if hold is None:
            since, is_handed_over = int(since_ms) / 1000, kind == "g"
            hold = GrantedHold(token, holder, since, 0.0, is_handed_over)
            self._holds[token, since_ms] = hold
        hold.until = int(until_ms) / 1000

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._has_begun.wait(LIMIT)
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread.is_alive():
            self.stop()
