"""Replacing a file as a whole, under a lease.

The new contents are written to a file beside it, which is then renamed. That file is also the fence: whoever writes
first removes those of all earlier writers. A writer that was paused after its last look at its lease finds nothing
to rename when it wakes up, and one that renamed before that has changed the contents, which the next one compares
after removing. So of two writers that held the lock one after another none can undo the other unawares. Whoever reads
through a session removes them, too, so what it has read stays as it is while its lease lasts.
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
from leasehold.files.content.contents import hash_of, open_regular, read_all
from leasehold.files.paths.safe_open import open_directory_of, refuse_link

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.files.paths.identity import FileId

ABSENT = ""
"""What was last seen of a file that was not there."""

PREFIX = ".leasehold-"
SUFFIX = ".tmp"
# No write takes so long. If one does, it is refused and nothing is harmed.
_LEFT_BEHIND_AFTER = 3600.0
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def stop_earlier_writers(file: FileId) -> None:
    """Take from earlier writers of the file, paused or dead, what they would put in its place.

    For one who holds the file, also for reading only. Where the directory may not be written or is not there, nothing is done.
    """
    with suppress(OSError), open_directory_of(file) as directory:
        _remove_earlier(directory, _mark_of(file))


def write_atomically(
    file: FileId,
    data: bytes,
    *,
    check: Callable[[], None],
    seen: str | None = None,
    when_replaced: Callable[[str], None] = lambda _: None,
) -> str:
    """Put ``data`` in the place of the file's contents, and return its SHA-256. Missing directories are made, and stay.

    ``check`` raises if the lease is not valid any more; it is asked right before and right after the replacement. ``seen`` is
    the SHA-256 of what the caller last saw of the file, or `ABSENT`, or None if it has never looked.

    On return the file has the new contents, on disk, with its owner, mode and attributes as before, and the lease
    was valid all the time. Everybody else has seen the old or the new file and nothing between.

    Raises, and nothing was changed: `FileChanged` if the contents are not what was seen, or if a later writer has
    overtaken this one; `InvalidRequest` if the file has several hard links, or is not a file any more; `NotAllowed` if
    its owner or its attributes could not be kept; whatever ``check`` raises; `OSError` if it cannot be written.
    The one exception: an error from the last check or the last fsync comes when the file has been replaced. Then
    ``when_replaced`` was called with the new SHA-256, the error has a note that says so, and a `LeaseLost` has
    ``is_replaced``.

    Killed in the middle it leaves a file ``.leasehold-….tmp``, which the next write to the same file removes, as
    does any in its directory after an hour. Blocks: for asyncio there is `Concurrency.run_blocking`.
    """
    with open_directory_of(file, make=True) as directory:
        mark = _mark_of(file)
        _remove_earlier(directory, mark)
        before = _look_at(file, directory, seen)
        name = f"{mark}{secrets.token_hex(8)}{SUFFIX}"
        try:
            _write_aside(file, directory, name, data, before)
            _check_is_same(file, directory, before, seen)
            check()
            _replace(file, directory, name, seen)
        except BaseException:
            with suppress(OSError):
                os.unlink(name, dir_fd=directory)
            raise
        digest = hash_of(data)
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


def _mark_of(file: FileId) -> str:
    """How the names of files begin that are to replace this one: as its lock, so that no other writer has the same."""
    return f"{PREFIX}{file.sha256[:24]}-"


def _remove_earlier(directory: int, mark: str) -> None:
    """Remove what earlier writers of this file have beside it, and what anybody left behind long ago."""
    with os.scandir(directory) as entries:
        found = [
            entry.name for entry in entries if entry.name.startswith(PREFIX) and entry.name.endswith(SUFFIX)
        ]
    for name in found:
        if name.startswith(mark) or _is_left_behind(directory, name):
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)


def _is_left_behind(directory: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and time.time() - found.st_mtime > _LEFT_BEHIND_AFTER


def _look_at(file: FileId, directory: int, seen: str | None) -> os.stat_result | None:
    """The file as it is now, if it is as it was seen and can be replaced; None if there is none."""
    try:
        opened = open_regular(file, directory)
    except FileNotFoundError:
        if seen not in {None, ABSENT}:
            raise FileChanged(file.path, seen=seen, found=None, why="is not there any more") from None
        return None
    try:
        state = os.fstat(opened)
        if state.st_nlink > 1:
            raise InvalidRequest(
                f"{file.path!r} has {state.st_nlink} hard links, and replacing it would cut it off from the others"
            )
        if seen is not None and (found := hash_of(read_all(opened))) != seen:
            why = "was not there before" if seen == ABSENT else None
            raise FileChanged(file.path, seen=seen, found=found, why=why)
    finally:
        os.close(opened)
    return state


def _write_aside(file: FileId, directory: int, name: str, data: bytes, before: os.stat_result | None) -> None:
    # A new file gets the mode that the umask leaves; one that replaces another is nobody's business until it does.
    opened = os.open(name, _NEW, 0o666 if before is None else 0o600, dir_fd=directory)
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
    """Owner first: changing it takes rights away that the mode may give."""
    mine = os.fstat(opened)
    try:
        if (mine.st_uid, mine.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(opened, before.st_uid, before.st_gid)
        _copy_extended(file, directory, opened)
        os.fchmod(opened, stat.S_IMODE(before.st_mode))
    except PermissionError as error:
        raise NotAllowed(f"{file.path!r} cannot be replaced with its owner and attributes kept") from error


def _copy_extended(file: FileId, directory: int, opened: int) -> None:
    """Access control lists, too: without them the mode would give the group what was meant for the list."""
    if not hasattr(os, "listxattr"):  # not on macOS
        return
    source = open_regular(file, directory)
    try:
        for name in os.listxattr(source):
            # The kernel's own: it labels new files itself, and takes capabilities from changed ones.
            if not name.startswith(("security.", "trusted.")):
                os.setxattr(opened, name, os.getxattr(source, name))
    except OSError as error:
        if error.errno not in {errno.ENOTSUP, errno.ENODATA}:
            raise
    finally:
        os.close(source)


def _check_is_same(file: FileId, directory: int, before: os.stat_result | None, seen: str | None) -> None:
    """Whether the file is still the one that was compared. Writing the new one may have taken a while."""
    try:
        now = os.stat(file.parts[-1], dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if now is not None and stat.S_ISLNK(now.st_mode):
        raise refuse_link(file)
    if _version(now) != _version(before):
        raise _changed(file, directory, seen, "was changed by somebody without its lock")


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
        opened = open_regular(file, directory)
        try:
            found = hash_of(read_all(opened))
        finally:
            os.close(opened)
    return FileChanged(file.path, seen=seen, found=found, why=why)
