"""The log in the data directory: written by the server and its supervisor, and bounded."""

from __future__ import annotations

import os
from contextlib import suppress
from time import strftime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

LARGEST = 256 * 1024
"""Bytes from which on the log becomes the old log; at most two of this size are kept."""


def write_log(log: Path, text: str) -> None:
    """Add a line. Opened each time, as the server does, so that ``bound_log`` can rename it under both."""
    # A log that cannot be written, as in a deleted directory, must not change how the supervisor ends.
    with suppress(OSError), log.open("a", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"{os.getpid()}:K {strftime('%d %b %Y %H:%M:%S')} {text}\n")


def bound_log(log: Path) -> None:
    """Rename the log if it is too large."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > LARGEST:
            log.replace(log.with_suffix(".log.old"))


def open_log(log: Path) -> int:
    """A descriptor for a process's standard error: catches tracebacks and errors of the dynamic loader."""
    return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def tail_of_log(log: Path, *, lines: int = 8) -> str:
    """The last lines, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            last = file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(last)
