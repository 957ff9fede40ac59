"""When is a server no longer wanted?"""

from __future__ import annotations

from dataclasses import dataclass

import hiredis

VISITORS = ("INFO", "clients", "stats")


@dataclass(frozen=True, slots=True)
class Visitors:
    """What INFO says about connections."""

    now: int
    """Connections open, the keeper's own included."""
    ever: int
    """Connections accepted since the start: this tells of visits that fell between two looks."""


def read_visitors(reply: object) -> Visitors | None:
    """From the reply to ``VISITORS``; None if the server would not say, as during a long script."""
    if isinstance(reply, hiredis.HiredisError):
        return None
    lines = reply.decode().splitlines() if isinstance(reply, bytes) else []
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return Visitors(int(fields["connected_clients"]), int(fields["total_connections_received"]))


class Idleness:
    """Watches visitors; idle once nobody was there for ``after_last``, or nobody came within ``before_first``."""

    def __init__(self, seen: Visitors, at: float, *, before_first: float, after_last: float) -> None:
        self._ever = seen.ever
        self._since: float | None = at
        self._grace = before_first
        self._after_last = after_last

    def is_idle(self, seen: Visitors, at: float) -> bool:
        """Whether the server has been alone for long enough."""
        if seen.ever != self._ever or seen.now > 1:
            self._ever = seen.ever
            self._grace = self._after_last
            self._since = None if seen.now > 1 else at
        elif self._since is None:
            self._since = at
        return self._since is not None and at - self._since >= self._grace
