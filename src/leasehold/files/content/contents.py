"""What is in a file."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.errors import InvalidRequest, NotFound
from leasehold.files.paths.safe_open import open_directory_of, refuse_link

if TYPE_CHECKING:
    from leasehold.files.paths.identity import FileId

# Without O_NONBLOCK, opening a pipe that was put in the file's place would wait for ever.
_READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """A file as it was read: the bytes, their SHA-256 in hexadecimal, and its state then."""

    data: bytes
    sha256: str
    stat: os.stat_result


def read(file: FileId) -> Contents:
    """Everything that is in the file.

    Whoever replaces it meanwhile as `writing.write_atomically` does changes nothing of what is returned: it is
    wholly the old or wholly the new file. Not promised: the same of programs that write into it without a lock.

    Raises `NotFound` if there is no such file, `InvalidRequest` if something else is there by now, and `OSError` if it
    cannot be read. Blocks: for asyncio there is `Concurrency.run_blocking`.
    """
    try:
        with open_directory_of(file) as directory:
            opened = open_regular(file, directory)
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file.path!r}") from error
    try:
        state = os.fstat(opened)
        data = read_all(opened)
    finally:
        os.close(opened)
    return Contents(data, hash_of(data), state)


def hash_of(data: bytes) -> str:
    """By what contents are compared."""
    return hashlib.sha256(data).hexdigest()


def open_regular(file: FileId, directory: int) -> int:
    """A descriptor for reading the file itself, never what a link or a pipe in its place would lead to."""
    try:
        opened = os.open(file.parts[-1], _READING, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise refuse_link(file) from error
        if error.errno == errno.ENXIO:  # a socket
            raise InvalidRequest(f"{file.path!r} is not a regular file") from error
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise InvalidRequest(f"{file.path!r} is not a regular file")
    return opened


def read_all(opened: int) -> bytes:
    """All bytes from where the descriptor stands."""
    chunks: list[bytes] = []
    while chunk := os.read(opened, _CHUNK):
        chunks.append(chunk)
    return b"".join(chunks)
