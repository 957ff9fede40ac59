"""The idle timer: decides from connection counts when the server shuts down."""

from __future__ import annotations

from dataclasses import dataclass

import hiredis

INFO_COMMAND = ("INFO", "clients", "stats")


@dataclass(frozen=True, slots=True)
class ConnectionCounts:
    """The counts of connections in the reply to INFO."""

    open: int
    """Connections open now, including the supervisor's own."""
    accepted: int
    """Connections accepted since the start: shows those that were opened and closed between two checks."""


def parse_counts(reply: object) -> ConnectionCounts | None:
    """The counts in the reply to ``INFO_COMMAND``; None if the server refused it, as during a long script."""
    if isinstance(reply, hiredis.HiredisError):
        return None
    lines = reply.decode().splitlines() if isinstance(reply, bytes) else []
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return ConnectionCounts(int(fields["connected_clients"]), int(fields["total_connections_received"]))


class IdleTimer:
    """Expires ``after_last`` seconds after the last client, or ``before_first`` seconds without any client."""

    def __init__(
        self, counts: ConnectionCounts, at: float, *, before_first: float, after_last: float
    ) -> None:
        self._accepted = counts.accepted
        self._since: float | None = at
        self._grace = before_first
        self._after_last = after_last

    def has_expired(self, counts: ConnectionCounts, at: float) -> bool:
        """The server has had no clients for long enough."""
        if counts.accepted != self._accepted or counts.open > 1:
            self._accepted = counts.accepted
            self._grace = self._after_last
            self._since = None if counts.open > 1 else at
        elif self._since is None:
            self._since = at
        return self._since is not None and at - self._since >= self._grace
