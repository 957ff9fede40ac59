"""The clock of a server, as known from the time in one of its replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.core.validity import drifted

if TYPE_CHECKING:
    from collections.abc import Callable


class ServerClock:
    """Translates moments on our own clock to the server's, and never to later ones.

    The server's time in a reply had passed when the reply came, so from our clock at that moment on the translation is
    behind the server's clock, and falls behind further with age, as the two clocks may differ in rate. A server's
    clock that was stepped back is the exception: translations are late by that step until the next reading.
    """

    __slots__ = ("_now", "_read_at", "offset")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._read_at: float | None = None
        self.offset = 0.0
        """The server's clock minus ours, in seconds, as last read."""

    def read(self, server_ms: float) -> None:
        """Note the server's time in a reply that has just come."""
        now = self._now()
        self.offset = server_ms / 1000 - now
        self._read_at = now

    def to_ms(self, moment: float) -> int:
        """Return the server's time at ``moment`` of our clock; 0 if no time was ever read."""
        if self._read_at is None:
            return 0
        return int((self._read_at + self.offset + drifted(moment - self._read_at)) * 1000)
