"""The data directory: its location, its checks and its files."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from leasehold.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class DataDir:
    """The directory of one embedded server. ``root`` is its real path, so every path to it names the same server."""

    root: Path

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor and its server while either runs. Never deleted: the lock is on the file."""
        return self.root / "keeper.lock"

    @property
    def starting_lock(self) -> Path:
        """Held by the one caller that starts a supervisor, so that many callers do not start many."""
        return self.root / "starting.lock"

    @property
    def log(self) -> Path:
        """The log of the supervisor and the server."""
        return self.root / "server.log"

    @property
    def socket(self) -> Path:
        """The server's socket, if this path is short enough for one."""
        return self.root / "server.sock"

    @property
    def socket_record(self) -> Path:
        """Contains the path of the socket if ``socket`` is too long."""
        return self.root / "socket.path"


def default_data_dir() -> Path:
    """The user's directory: ``$XDG_DATA_HOME/leasehold``, else ``~/.local/share/leasehold``, or the macOS equivalent."""
    try:
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Application Support" / "leasehold"
        configured = os.environ.get("XDG_DATA_HOME", "")
        # The specification says to ignore a relative one.
        base = Path(configured) if Path(configured).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError as error:
        raise InvalidRequest("this user has no home directory: give a data_dir") from error
    return base / "leasehold"


def open_data_dir(data_dir: Path | str | None) -> DataDir:
    """Create the directory if it is missing (mode 0700) and check that only we can write to it.

    ``InvalidRequest``: it is a file, cannot be created or written, belongs to another user, or others may write to
    it. An existing directory keeps its mode: every file in it is created 0600, so readers of the directory learn
    nothing.
    """
    if data_dir == "":
        raise InvalidRequest("data_dir is empty: give a directory, or None for the default")
    given = default_data_dir() if data_dir is None else Path(data_dir)
    try:
        root = given.resolve()
        if not root.is_dir():
            root.mkdir(parents=True, exist_ok=True)
            root.chmod(0o700)  # afterwards, because the caller's umask applies to mkdir
        status = root.stat()
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidRequest(
            f"data_dir {str(given)!r} is, or lies under, a file: give a directory"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:  # also a NUL in the path, or a loop of symlinks
        raise InvalidRequest(f"data_dir {str(given)!r} cannot be used: {error}") from error
    if status.st_uid != os.geteuid():
        raise InvalidRequest(
            f"data_dir {str(given)!r} belongs to user {status.st_uid}, not to {os.geteuid()}: give one of your own"
        )
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise InvalidRequest(
            f"data_dir {str(given)!r} may be written by others: chmod go-w it, or give another"
        )
    as_effective_user = os.access in os.supports_effective_ids
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK, effective_ids=as_effective_user):
        raise InvalidRequest(f"data_dir {str(given)!r} is not writable")
    return DataDir(root)
