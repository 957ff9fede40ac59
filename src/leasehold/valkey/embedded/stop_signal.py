"""SIGTERM and SIGINT as an event that can be awaited together with a socket."""

from __future__ import annotations

import select
import signal
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import HasFileno


class StoppedError(Exception):
    """The supervisor was asked to stop."""


class StopSignal:
    """Once created, SIGTERM and SIGINT end every wait instead of the process."""

    def __init__(self) -> None:
        # Our parent may have ignored or blocked signals; both are inherited, also by our server.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._woken, self._waker = socket.socketpair()
        self._waker.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    def wait(self, timeout: float | None, other: HasFileno | None = None) -> bool:
        """Sleep; True if ``other`` becomes readable. Raises ``StoppedError`` from the first signal on."""
        watched: list[HasFileno] = [self._woken] if other is None else [self._woken, other]
        readable, _, _ = select.select(watched, [], [], timeout)
        if self._woken in readable:
            raise StoppedError
        return bool(readable)
