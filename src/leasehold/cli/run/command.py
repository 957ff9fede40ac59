"""The command that ``leasehold run`` runs: finding, starting, signalling and stopping it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from leasehold.cli.errors import CommandError
from leasehold.cli.exit_codes import AFTER_SIGNAL, Exit
from leasehold.cli.run.process_tree import Group, Kin, Tree

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOOK_EVERY = 0.02


def find_executable(command: str) -> str:
    """The file that ``command`` names; asked before the lock is, so that a slip of the pen locks nothing."""
    found = shutil.which(command)
    if found is not None:
        return found
    if shutil.which(command, os.F_OK) is None:
        raise CommandError(
            Exit.NOT_FOUND, "command_not_found", f"{command!r}: command not found", command=command
        )
    raise CommandError(
        Exit.CANNOT_RUN, "command_not_executable", f"{command!r} is not executable", command=command
    )


class Command:
    """A running command. It has our stdin, stdout, stderr and every file descriptor we were given.

    Without a terminal it leads a process group of its own, so that all of it can be signalled. With one it
    stays in ours, as the children of a script do: another group would be in the background, where reading
    from the terminal stops a process, and pipes such as ``leasehold run … | less`` would lose their keyboard.
    Then the terminal itself tells the command about Ctrl-C, Ctrl-\\ and Ctrl-Z.
    """

    def __init__(self, process: asyncio.subprocess.Process, kin: Kin, terminal: int | None) -> None:
        self._process = process
        self._kin = kin
        self._terminal = terminal

    @classmethod
    async def start(cls, command: list[str], environ: Mapping[str, str]) -> Self:
        """Start it; ``CommandError`` if it cannot be."""
        terminal = _open_terminal()
        try:
            process = await asyncio.create_subprocess_exec(
                *_tethered(find_executable(command[0]), command),
                env=environ,
                close_fds=False,
                process_group=0 if terminal is None else None,
            )
        except OSError as error:
            raise CommandError(
                Exit.CANNOT_RUN,
                "command_not_executable",
                f"{command[0]!r} cannot be run: {error.strerror}",
                command=command[0],
            ) from error
        kin = Group(process.pid) if terminal is None else Tree(process.pid)
        return cls(process, kin, terminal)

    async def wait(self) -> int:
        """Its exit code, as a shell would say it."""
        code = await self._process.wait()
        return code if code >= 0 else AFTER_SIGNAL - code

    def pass_on(self, number: int) -> None:
        """Send a signal that we were sent, unless the terminal has sent it to the command as well.

        The terminal signals its foreground group and no other. A ``kill -INT`` to us alone while we are in
        the foreground cannot be told from Ctrl-C and is not passed on: twice is worse than not at all,
        because to many programs a second Ctrl-C means not to clean up.
        """
        if number in {signal.SIGINT, signal.SIGQUIT} and self._is_in_foreground():
            return
        with suppress(PermissionError):
            self._kin.send(number)

    async def stop(self, grace: float) -> bool:
        """End it and all that it started: SIGTERM, and SIGKILL after ``grace`` seconds. False if we may not."""
        try:
            self._kin.send(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    # Nobody tells when a grandchild ends.
                    while self._process.returncode is None or not self._kin.is_gone():  # noqa: ASYNC110 - the kernel tells nobody when a grandchild ends
                        await asyncio.sleep(_LOOK_EVERY)
            self._kin.send(signal.SIGKILL)
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
    """The controlling terminal, whatever stdin is: a command may ask for a password there all the same."""
    try:
        return os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return None


def _tethered(executable: str, command: list[str]) -> list[str]:
    if sys.platform != "linux" or not sys.executable:
        return [executable, *command[1:]]
    tether = str(Path(__file__).with_name("parent_death.py"))
    return [sys.executable, "-IS", tether, str(os.getpid()), executable, *command]
