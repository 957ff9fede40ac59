"""The server's socket file, seen as a door that its keeper can close before the server ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class Door:
    """Closed, nobody finds the socket any more, while every connection made before stays."""

    def __init__(self, socket: Path) -> None:
        self._open = socket
        self._closed = socket.with_suffix(".closed")

    @property
    def is_open(self) -> bool:
        """Whether clients can find it. They cannot if somebody deleted it, the whole directory perhaps."""
        return self._open.exists()

    def close(self) -> None:
        """Hide the socket."""
        self._open.rename(self._closed)

    def reopen(self) -> None:
        """Show it again, as it was."""
        self._closed.rename(self._open)

    def remove(self) -> None:
        """Leave nothing. Only for the holder of the keeper's lock, while no server runs."""
        self._open.unlink(missing_ok=True)
        self._closed.unlink(missing_ok=True)
