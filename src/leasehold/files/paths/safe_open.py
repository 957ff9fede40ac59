"""Opens a file's directory without following links that were put in its path."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Generator

    from leasehold.files.paths.identity import FileId

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_parent_directory(file: FileId, *, make: bool = False) -> Generator[int]:
    """The file's directory as a descriptor, reached from the root without following any link.

    An identity contains no links. One that is met here was put there since, perhaps to lead out of the root:
    `InvalidRequest`. ``make`` creates missing directories; without it they are a `FileNotFoundError`.
    """
    opened = _open_without_links(file, file.root, None)
    try:
        for name in file.parts[:-1]:
            inner = _open_inner(file, name, opened, make=make)
            os.close(opened)
            opened = inner
        yield opened
    finally:
        os.close(opened)


def link_error(file: FileId) -> InvalidRequest:
    """The error for a link in a place where there was none."""
    return InvalidRequest(f"{file.path!r} has become a symbolic link, or a directory on the way to it has")


def _open_inner(file: FileId, name: str, outer: int, *, make: bool) -> int:
    try:
        return _open_without_links(file, name, outer)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):  # another process has created it
        os.mkdir(name, dir_fd=outer)
        os.fsync(outer)
    return _open_without_links(file, name, outer)


def _open_without_links(file: FileId, name: str, outer: int | None) -> int:
    try:
        return os.open(name, _DIRECTORY, dir_fd=outer)
    except OSError as error:
        # Linux reports ENOTDIR for a link when only a directory is accepted.
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            raise link_error(file) from error
        raise
