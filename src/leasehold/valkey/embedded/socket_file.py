"""The server's socket file: in the data directory, or in a short runtime directory if that path is too long."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.valkey.embedded.data_dir import DataDir

LONGEST = 103
"""Bytes in a socket's path: sun_path is 104 with its NUL on macOS, 108 on Linux."""


class SocketFile:
    """The socket's name, which can be hidden before the server ends: open connections stay, new ones fail."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hidden = path.with_suffix(".closed")

    @property
    def is_visible(self) -> bool:
        """Clients can find the socket. They cannot if it was deleted, perhaps with the whole directory."""
        return self._path.exists()

    def hide(self) -> None:
        """Keep new clients away."""
        self._path.rename(self._hidden)

    def show(self) -> None:
        """Undo `hide`."""
        self._hidden.rename(self._path)

    def remove(self) -> None:
        """Delete the file, hidden or not. Only for the holder of the supervisor's lock, while no server runs."""
        self._path.unlink(missing_ok=True)
        self._hidden.unlink(missing_ok=True)


def find_socket(home: DataDir) -> Path | None:
    """The socket of this data directory's server, running or not; None if no supervisor has chosen one yet."""
    if _fits(home.socket):
        return home.socket
    # Read, not computed: the supervisor's $XDG_RUNTIME_DIR may differ from ours (cron, sudo, a new login).
    try:
        return Path(home.socket_record.read_text(encoding="utf-8", errors="surrogateescape"))
    except FileNotFoundError:
        return None


def choose_socket(home: DataDir) -> Path:
    """The path for the server to listen on, which ``find_socket`` then finds. Only for the holder of the lock."""
    if _fits(home.socket):
        return home.socket
    name = hashlib.sha256(os.fsencode(home.root)).hexdigest()[:16] + ".sock"
    chosen = _runtime_dir(name) / name
    draft = home.socket_record.with_suffix(".new")
    draft.write_text(str(chosen), encoding="utf-8", errors="surrogateescape")
    draft.replace(home.socket_record)
    return chosen


def _runtime_dir(name: str) -> Path:
    configured = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if configured.is_absolute() and _fits(configured / "leasehold" / name):
        try:
            return _make_private(configured / "leasehold")
        except OSError:
            pass  # left over from a login that has ended, or of another user, as after su
    # Not the temporary directory: that may be a long path again, as on macOS. Made private below.
    return _make_private(Path(f"/tmp/leasehold-{os.geteuid()}"))  # noqa: S108 - made private and checked to be ours


def _make_private(directory: Path) -> Path:
    directory.mkdir(mode=0o700, exist_ok=True)
    # lstat: in /tmp any user could have created a symlink or a directory of this name.
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{directory} does not belong to this user; a shorter data_dir avoids it")
    directory.chmod(0o700)
    return directory


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= LONGEST
