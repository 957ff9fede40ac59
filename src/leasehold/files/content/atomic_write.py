"""Replaces a file as a whole, under a lease.

The new contents are written to a temporary file beside it, which is then renamed. That file is also the fence: each
writer first removes those of all earlier writers. A writer that was paused after its last check of its lease finds
nothing to rename when it resumes, and one that renamed before that has changed the contents, which the next one compares
after removing. So of two writers that held the lock one after another, neither can undo the other unnoticed. A read
through a session removes them, too, so the contents that it returned stay while its lease lasts.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from leasehold.errors import FileChanged, InvalidRequest, LeaseLost, NotAllowed
from leasehold.files.content.contents import open_regular_file, read_all, sha256_of
from leasehold.files.paths.safe_open import link_error, open_parent_directory

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.files.paths.identity import FileId

ABSENT = ""
"""As ``seen``: the file was not there."""

PREFIX = ".leasehold-"
SUFFIX = ".tmp"
# No write takes so long. If one does, it fails, and nothing is changed.
_ABANDONED_AFTER = 3600.0
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def stop_earlier_writers(file: FileId) -> None:
    """Remove the temporary files of earlier writers, paused or dead, which would replace the file.

    For a holder of the file, also for reading only. Does nothing if the directory is not writable or not there.
    """
    with suppress(OSError), open_parent_directory(file) as directory:
        _remove_temp_files(directory, _temp_prefix(file))


def write_atomically(
    file: FileId,
    data: bytes,
    *,
    check: Callable[[], None],
    seen: str | None = None,
    when_replaced: Callable[[str], None] = lambda _: None,
) -> str:
    """Replace the file's contents with ``data``, and return its SHA-256. Missing directories are created, and stay.

    ``check`` raises if the lease has ended; it is called right before and right after the replacement. ``seen`` is the
    SHA-256 of the contents that the caller last saw, or `ABSENT`, or None if it has seen none.

    On return the file has the new contents, on disk, with its owner, mode and attributes as before, and the lease was
    valid all the time. Other programs have seen the old or the new file and nothing between.

    Raises, and nothing was changed: `FileChanged` if the contents are not those that were seen, or if a later writer has
    overtaken this one; `InvalidRequest` if the file has several hard links, or is no longer a file; `NotAllowed` if its
    owner or its attributes could not be kept; any error of ``check``; `OSError` if it cannot be written. The one
    exception: an error of the last check or the last fsync is raised after the file has been replaced. Then
    ``when_replaced`` was called with the new SHA-256, the error has a note about it, and a `LeaseLost` has
    ``is_replaced``.

    If the process is killed in the middle, a file ``.leasehold-….tmp`` stays, which the next write to the same file
    removes, as does any in its directory after an hour. Blocks: see `leasehold.core.ports.Concurrency.run_blocking`.
    """
    with open_parent_directory(file, make=True) as directory:
        prefix = _temp_prefix(file)
        _remove_temp_files(directory, prefix)
        before = _stat_replaceable(file, directory, seen)
        name = f"{prefix}{secrets.token_hex(8)}{SUFFIX}"
        try:
            _write_temp_file(file, directory, name, data, before)
            _check_unchanged(file, directory, before, seen)
            check()
            _replace(file, directory, name, seen)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=directory)
            raise
        digest = sha256_of(data)
        when_replaced(digest)
        try:
            check()
            os.fsync(directory)
        except Exception as error:
            error.add_note(f"{file.path!r} had been replaced by then.")
            if isinstance(error, LeaseLost):
                error.is_replaced = True
            raise
    return digest


def _temp_prefix(file: FileId) -> str:
    """The prefix of this file's temporary files: from the name of its lock, so that no other file has the same."""
    return f"{PREFIX}{file.sha256[:24]}-"


def _remove_temp_files(directory: int, prefix: str) -> None:
    """Remove the temporary files of earlier writers of this file, and abandoned ones of any file."""
    with os.scandir(directory) as entries:
        found = [
            entry.name for entry in entries if entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX)
        ]
    for name in found:
        if name.startswith(prefix) or _is_abandoned(directory, name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)


def _is_abandoned(directory: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > _ABANDONED_AFTER


def _stat_replaceable(file: FileId, directory: int, seen: str | None) -> os.stat_result | None:
    """The state of the file, if it is as it was seen and can be replaced; None if there is none."""
    try:
        opened = open_regular_file(file, directory)
    except FileNotFoundError:
        if seen not in {None, ABSENT}:
            raise FileChanged(file.path, seen=seen, found=None, why="no longer exists") from None
        return None
    try:
        state = os.fstat(opened)
        if state.st_nlink > 1:
            raise InvalidRequest(
                f"{file.path!r} has {state.st_nlink} hard links, and replacing it would cut it off from the others"
            )
        if seen is not None and (found := sha256_of(read_all(opened))) != seen:
            why = "was not there before" if seen == ABSENT else None
            raise FileChanged(file.path, seen=seen, found=found, why=why)
    finally:
        os.close(opened)
    return state


def _write_temp_file(
    file: FileId, directory: int, name: str, data: bytes, before: os.stat_result | None
) -> None:
    # A new file gets the mode of the umask; one that replaces another is private until it does.
    opened = os.open(name, _CREATE_FLAGS, 0o666 if before is None else 0o600, dir_fd=directory)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(opened, left) :]
        if before is not None:
            _keep_attributes(file, directory, opened, before)
        os.fsync(opened)
    finally:
        os.close(opened)


def _keep_attributes(file: FileId, directory: int, opened: int, before: os.stat_result) -> None:
    """Copy owner, attributes and mode. Owner first: changing it drops permissions that the mode may grant."""
    mine = os.fstat(opened)
    try:
        if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(opened, before.st_uid, before.st_gid)
        _copy_extended(file, directory, opened)
        os.fchmod(opened, stat.S_IMODE(before.st_mode))
    except PermissionError as error:
        raise NotAllowed(f"{file.path!r} cannot be replaced with its owner and attributes kept") from error


def _copy_extended(file: FileId, directory: int, opened: int) -> None:
    """Copy extended attributes and access control lists: without a list the mode would grant its rights to the group."""
    if not hasattr(os, "listxattr"):  # not on macOS
        return
    source = open_regular_file(file, directory)
    try:
        for name in os.listxattr(source):
            # The kernel's own: it labels new files itself, and removes capabilities from changed ones.
            if not name.startswith(("security.", "trusted.")):
                os.setxattr(opened, name, os.getxattr(source, name))
    except OSError as error:
        if error.errno not in {errno.ENOTSUP, errno.ENODATA}:
            raise
    finally:
        os.close(source)


def _check_unchanged(file: FileId, directory: int, before: os.stat_result | None, seen: str | None) -> None:
    """Raise if the file is not the one that was compared: writing the new one may have taken a while."""
    try:
        now = os.stat(file.parts[-1], dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if now is not None and stat.S_ISLNK(now.st_mode):
        raise link_error(file)
    if _version(now) != _version(before):
        raise _changed(file, directory, seen, "was changed without its lock")


def _version(state: os.stat_result | None) -> tuple[int, ...] | None:
    if state is None:
        return None
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_nlink)


def _replace(file: FileId, directory: int, name: str, seen: str | None) -> None:
    try:
        os.rename(name, file.parts[-1], src_dir_fd=directory, dst_dir_fd=directory)
    except FileNotFoundError as error:
        raise _changed(file, directory, seen, "belongs to a later writer by now") from error
    except IsADirectoryError as error:
        raise InvalidRequest(f"{file.path!r} is a directory; only files can be written") from error


def _changed(file: FileId, directory: int, seen: str | None, why: str) -> FileChanged:
    found = None
    with suppress(OSError, InvalidRequest):
        opened = open_regular_file(file, directory)
        try:
            found = sha256_of(read_all(opened))
        finally:
            os.close(opened)
    return FileChanged(file.path, seen=seen, found=found, why=why)
