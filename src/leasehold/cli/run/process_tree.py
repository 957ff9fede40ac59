"""The command together with everything that it has started.

Stopping only the command would leave ``sh -c "step1; step2"`` with a ``step1`` that works on without the lock.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class Kin(Protocol):
    """Processes that are signalled together."""

    def send(self, number: int) -> None:
        """Send a signal to all of them. `PermissionError` if none may be signalled by us."""
        ...

    def is_gone(self) -> bool:
        """Whether none of them runs any more."""
        ...


class Group:
    """A process group of the command's own."""

    def __init__(self, leader: int) -> None:
        self._leader = leader

    def send(self, number: int) -> None:
        """See `Kin`."""
        with suppress(ProcessLookupError):
            os.killpg(self._leader, number)

    def is_gone(self) -> bool:
        """See `Kin`."""
        try:
            os.killpg(self._leader, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass
        return False


class Tree:
    """The command and its descendants, for when its process group is shared with others.

    Known members are remembered, by pid and start time: when a parent dies, its children cannot be found
    through it any more. Without ``/proc`` only the command itself is reached.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._members: set[tuple[int, str]] = set()

    def send(self, number: int) -> None:
        """See `Kin`."""
        refused: PermissionError | None = None
        reached = False
        for pid in self._living() or [self._root]:
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
        """See `Kin`."""
        return not self._living()

    def _living(self) -> list[int]:
        census = _census()
        family = {pid for pid, started in self._members if pid in census and census[pid][1] == started}
        if self._root in census and not self._members:
            family.add(self._root)
        while grown := {pid for pid, (parent, _) in census.items() if parent in family} - family:
            family |= grown
        self._members |= {(pid, census[pid][1]) for pid in family}
        return sorted(family)


def _census() -> dict[int, tuple[int, str]]:
    """Parent and start time of every process that has not ended."""
    census: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # ended while we were looking
            # The name in the middle is in parentheses and may hold anything, parentheses too.
            state, parent, *rest = entry.read_text(errors="replace").rpartition(")")[2].split()
            if state not in "ZX":
                census[int(entry.parent.name)] = (int(parent), rest[17])
    return census
