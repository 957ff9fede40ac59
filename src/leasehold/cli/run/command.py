"""Finds, starts, signals and stops the command of ``leasehold run``."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from leasehold.cli.errors import CliError
from leasehold.cli.exit_codes import AFTER_SIGNAL, ExitCode
from leasehold.cli.run.process_tree import ProcessGroup, ProcessSet, ProcessTree

if TYPE_CHECKING:
    from collections.abc import Mapping

_POLL_INTERVAL = 0.02


def find_executable(command: str) -> str:
    """The path of the executable. Looked up before the lock is acquired, so that a typo does not take the lock."""
    found = shutil.which(command)
    if found is not None:
        return found
    if shutil.which(command, os.F_OK) is None:
        raise CliError(
            ExitCode.NOT_FOUND, "command_not_found", f"{command!r}: command not found", command=command
        )
    raise CliError(
        ExitCode.CANNOT_RUN, "command_not_executable", f"{command!r} is not executable", command=command
    )


class ChildProcess:
    """The running command. It inherits our stdin, stdout, stderr and all other file descriptors.

    Without a terminal it leads its own process group, so that all of it can be signalled. With a terminal it
    stays in our group, as the children of a script do: another group would be in the background, where reading
    from the terminal stops a process, and pipes such as ``leasehold run … | less`` would lose their keyboard.
    Then the terminal itself signals the command on Ctrl-C, Ctrl-\\ and Ctrl-Z.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, processes: ProcessSet, terminal: int | None
    ) -> None:
        self._process = process
        self._processes = processes
        self._terminal = terminal

    @classmethod
    async def start(cls, command: list[str], environ: Mapping[str, str]) -> Self:
        """Start the command; ``CliError`` if it cannot be executed."""
        terminal = _open_terminal()
        try:
            process = await asyncio.create_subprocess_exec(
                *_with_parent_death_signal(find_executable(command[0]), command),
                env=environ,
                close_fds=False,
                process_group=0 if terminal is None else None,
            )
        except OSError as error:
            raise CliError(
                ExitCode.CANNOT_RUN,
                "command_not_executable",
                f"{command[0]!r} cannot be executed: {error.strerror}",
                command=command[0],
            ) from error
        processes = ProcessGroup(process.pid) if terminal is None else ProcessTree(process.pid)
        return cls(process, processes, terminal)

    async def wait(self) -> int:
        """Wait for the exit code, in the form that shells use."""
        code = await self._process.wait()
        return code if code >= 0 else AFTER_SIGNAL - code

    def forward_signal(self, number: int) -> None:
        """Send the command a signal that we received, unless the terminal has sent it to the command as well.

        The terminal signals its foreground group and no other. A ``kill -INT`` to us alone while we are in
        the foreground is indistinguishable from Ctrl-C and not forwarded: twice is worse than not at all,
        because many programs skip their clean-up on a second Ctrl-C.
        """
        if number in {signal.SIGINT, signal.SIGQUIT} and self._is_in_foreground():
            return
        with suppress(PermissionError):
            self._processes.send_signal(number)

    async def stop(self, grace: float) -> bool:
        """End the command and its descendants: SIGTERM, then SIGKILL after ``grace`` seconds. False if not permitted."""
        try:
            self._processes.send_signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    while self._process.returncode is None or not self._processes.is_gone():  # noqa: ASYNC110 - the kernel sends no event when a grandchild ends
                        await asyncio.sleep(_POLL_INTERVAL)
            self._processes.send_signal(signal.SIGKILL)
        except PermissionError:
            return False
        await self._process.wait()
        return True

    def _is_in_foreground(self) -> bool:
        if self._terminal is None:
            return False
        with suppress(OSError):  # the terminal has been closed
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        return False


def _open_terminal() -> int | None:
    """Open the controlling terminal. Not stdin: a command may ask for a password there even if stdin is a pipe."""
    try:
        return os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return None


def _with_parent_death_signal(executable: str, command: list[str]) -> list[str]:
    if sys.platform != "linux" or not sys.executable:
        return [executable, *command[1:]]
    script = str(Path(__file__).with_name("parent_death.py"))
    return [sys.executable, "-IS", script, str(os.getpid()), executable, *command]
