"""SIGTERM and SIGINT as something that can be waited for together with a socket."""

from __future__ import annotations

import select
import signal
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import HasFileno


class StoppedError(Exception):
    """The keeper was asked to end."""


class StopSignal:
    """From its making on, SIGTERM and SIGINT no longer end the process but every wait."""

    def __init__(self) -> None:
        # Whoever started us may have ignored or blocked signals, and both are inherited, by our server too.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def wait(self, timeout: float | None, other: HasFileno | None = None) -> bool:
        """Sleep; True if ``other`` has become readable. ``StoppedError`` at once after a signal, and on every wait after it."""
        watched: list[HasFileno] = [self._woken] if other is None else [self._woken, other]
        readable, _, _ = select.select(watched, [], [], timeout)
        if self._woken in readable:
            raise StoppedError
        return bool(readable)
