"""Reads the contents of a file, and hashes them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.errors import InvalidRequest, NotFound
from leasehold.files.paths.safe_open import link_error, open_parent_directory

if TYPE_CHECKING:
    from leasehold.files.paths.identity import FileId

# Without O_NONBLOCK, opening a pipe that was put in the file's place would wait for ever.
_READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """A file as it was read: the bytes, their SHA-256 in hexadecimal, and its state then."""

    data: bytes
    sha256: str
    stat: os.stat_result


def read_contents(file: FileId) -> Contents:
    """The whole contents of the file.

    If it is replaced at the same time by `atomic_write.write_atomically`, the result is wholly the old or wholly the
    new file. Not promised: the same for programs that write into it without a lock.

    Raises `NotFound` if there is no such file, `InvalidRequest` if something else is there by now, and `OSError` if it
    cannot be read. Blocks: see `leasehold.core.ports.Concurrency.run_blocking`.
    """
    try:
        with open_parent_directory(file) as directory:
            opened = open_regular_file(file, directory)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file.path!r}") from error
    try:
        state = os.fstat(opened)
        data = read_all(opened)
    finally:
        os.close(opened)
    return Contents(data, sha256_of(data), state)


def sha256_of(data: bytes) -> str:
    """The hash by which contents are compared."""
    return hashlib.sha256(data).hexdigest()


def open_regular_file(file: FileId, directory: int) -> int:
    """A descriptor for reading the file itself, never the target of a link or a pipe in its place."""
    try:
        opened = os.open(file.parts[-1], _READ_FLAGS, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise link_error(file) from error
        if error.errno == errno.ENXIO:  # a socket
            raise InvalidRequest(f"{file.path!r} is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise InvalidRequest(f"{file.path!r} is not a regular file")
    return opened


def read_all(opened: int) -> bytes:
    """All bytes from the descriptor's position."""
    chunks: list[bytes] = []
    while chunk := os.read(opened, _CHUNK_BYTES):
        chunks.append(chunk)
    return b"".join(chunks)
