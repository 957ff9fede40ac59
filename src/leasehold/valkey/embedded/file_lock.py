"""An exclusive lock on a file; the kernel releases it when its holders end, even if killed."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if (
    sys.platform != "win32"
):  # so that the import works there, and the error that says what to do instead is raised
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None if it is held already, be it by a thread of this process.

    It is held until ``unlock``, or until every copy of the descriptor is closed, in child processes as well.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The directory may have been deleted and created again since the open: then this lock excludes no other.
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
    """Release the lock at once, even if a process forked since has a copy of the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
