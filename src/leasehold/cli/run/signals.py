"""Forwards the signals that ``leasehold run`` receives to the command."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from leasehold.cli.run.command import ChildProcess

# The signals that users send to programs and that would otherwise end us, leaving the command without a lock.
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class SignalForwarder:
    """Forwards signals to the command. Before the command runs, they cancel the task that waits for the lock."""

    def __init__(self) -> None:
        self.command: ChildProcess | None = None
        self.stopped_by: int | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        # Signals that are ignored on entry (nohup, `&` in scripts) stay ignored, here and in the command.
        self._numbers = [number for number in _FORWARDED if signal.getsignal(number) != signal.SIG_IGN]
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._forward, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._numbers:
            self._loop.remove_signal_handler(number)

    def _forward(self, number: int) -> None:
        if self.command is not None:
            self.command.forward_signal(number)
        elif self._task is not None:
            self.stopped_by = number
            self._task.cancel()
