"""The command and its descendants, as a process group or a process tree.

Stopping only the command would leave the ``step1`` of ``sh -c "step1; step2"`` running without the lock.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class ProcessSet(Protocol):
    """Processes that are signalled together."""

    def send_signal(self, number: int) -> None:
        """Send a signal to all of them. `PermissionError` if we may not signal any of them."""
        ...

    def is_gone(self) -> bool:
        """Whether all of them have ended."""
        ...


class ProcessGroup:
    """The process group that the command leads."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def send_signal(self, number: int) -> None:
        """See `ProcessSet`."""
        with suppress(ProcessLookupError):
            os.killpg(self._leader, number)

    def is_gone(self) -> bool:
        """See `ProcessSet`."""
        try:
            os.killpg(self._leader, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False


class ProcessTree:
    """The command and its descendants, for a command that shares its process group with other processes.

    Known members are remembered by pid and start time, because the children of a dead parent can no longer be
    found through it. Without ``/proc`` only the command itself is reached.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._members: set[tuple[int, str]] = set()

    def send_signal(self, number: int) -> None:
        """See `ProcessSet`."""
        refused: PermissionError | None = None
        reached = False
        for pid in self._find_living() or [self._root]:
            try:
                os.kill(pid, number)
                reached = True
            except ProcessLookupError:
                pass
            except PermissionError as error:
                refused = error
        if refused is not None and not reached:
            raise refused

    def is_gone(self) -> bool:
        """See `ProcessSet`."""
        return not self._find_living()

    def _find_living(self) -> list[int]:
        running = _read_processes()
        family = {pid for pid, started in self._members if pid in running and running[pid][1] == started}
        if self._root in running and not self._members:
            family.add(self._root)
        while grown := {pid for pid, (parent, _) in running.items() if parent in family} - family:
            family |= grown
        self._members |= {(pid, running[pid][1]) for pid in family}
        return sorted(family)


def _read_processes() -> dict[int, tuple[int, str]]:
    """Parent and start time of every process that has not ended."""
    processes: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process ended in between
            # The name in the middle is in parentheses and may contain any character, also parentheses.
            state, parent, *rest = entry.read_text(errors="replace").rpartition(")")[2].split()
            if state not in "ZX":
                processes[int(entry.parent.name)] = (int(parent), rest[17])
    return processes
