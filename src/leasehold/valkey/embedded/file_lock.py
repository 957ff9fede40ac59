"""An exclusive lock on a file, which the kernel gives back however its holders end."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if sys.platform != "win32":  # so that this imports there, up to the error that says what to do instead
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock, or None: somebody else holds it. Threads of one process exclude each other too.

    It is held until ``unlock``, or until every copy of the descriptor is closed, in child processes as well.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The directory may have been deleted and made anew since the open: then this lock excludes nobody.
        is_current = os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        is_current = False
    except BaseException:
        os.close(descriptor)
        raise
    if not is_current:
        os.close(descriptor)
        return None
    return descriptor


def unlock(descriptor: int) -> None:
    """Give the lock back at once, even if a process that was forked meanwhile has a copy of the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
