"""Signals to ``leasehold run`` are meant for the command."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

    from leasehold.cli.run.command import Command

# All that people send to programs and that would otherwise end us, and leave the command without a lock.
_HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Signals:
    """Passes signals on to the command. Before there is one, they cancel the task that waits for the lock."""

    def __init__(self) -> None:
        self.command: Command | None = None
        self.stopped_by: int | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        # What we were told to ignore stays ignored, here and in the command: nohup, and `&` in scripts.
        self._numbers = [number for number in _HEARD if signal.getsignal(number) != signal.SIG_IGN]
        for number in self._numbers:
            self._loop.add_signal_handler(number, self._heard, number)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._numbers:
            self._loop.remove_signal_handler(number)

    def _heard(self, number: int) -> None:
        if self.command is not None:
            self.command.pass_on(number)
        elif self._task is not None:
            self.stopped_by = number
            self._task.cancel()
