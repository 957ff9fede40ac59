"""Reads and writes the files that a session holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from leasehold.errors import InvalidRequest, NotFound
from leasehold.files.content.atomic_write import ABSENT, stop_earlier_writers, write_atomically
from leasehold.files.content.contents import read_contents

if TYPE_CHECKING:
    from leasehold.files.content.contents import Contents
    from leasehold.files.paths.identity import FileId
    from leasehold.files.sessions.context import Path
    from leasehold.files.sessions.entries import Access
    from leasehold.files.sessions.held_file import HeldFile
    from leasehold.files.sessions.session import AnySession


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it was read under a lease: the bytes, their SHA-256, and the fence of the lease."""

    data: bytes
    sha256: str
    fence: int


async def read_file(session: AnySession, path: Path) -> FileContent:
    """The contents of a file that the session holds; remembered, so that a later write can compare them."""
    file = await session.context.identify(path)
    hold = _find_held(session, file, "read")

    def read() -> Contents:
        if hold.entry.field not in session.being_written:  # it would stop our own writer
            hold.check()
            stop_earlier_writers(file)
        return read_contents(file)

    # Recorded here and not in the thread: a caller that is cancelled has not seen the contents.
    try:
        found = await session.engine.concurrency.run_blocking(read)
    except NotFound:
        session.last_seen.record(file, ABSENT)
        raise
    hold.check()
    session.last_seen.record(file, found.sha256)
    return FileContent(found.data, found.sha256, hold.fence_of(file.sha256))


async def write_file(session: AnySession, path: Path, data: bytes) -> str:
    """Replace a file that the session holds for writing; see `leasehold.files.content.atomic_write`."""
    if not isinstance(data, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a file is written with bytes, not {type(data).__name__}")
    file = await session.context.identify(path)
    hold = _find_held(session, file, "write")
    # Confirmed by the store: another process of this session may have restored the lease, which we would not know.
    await session.context.watch_outage(hold.renew_all(None))

    # Recorded in the thread, and at once: a caller that is cancelled or loses the lease has written all the same.
    def write() -> str:
        return write_atomically(
            file,
            bytes(data),
            check=hold.check,
            seen=session.last_seen.get(file),
            when_replaced=partial(session.last_seen.record, file),
        )

    field = hold.entry.field
    session.being_written.append(field)
    try:
        return await session.engine.concurrency.run_blocking(write)
    finally:
        session.being_written.remove(field)


def _find_held(session: AnySession, file: FileId, access: Access) -> HeldFile[Any]:
    own = [hold for hold in list(session.held.values()) if file.sha256 in hold.entry.names]
    usable = [hold for hold in own if access == "read" or hold.mode == "write"]
    if not usable:
        activity = "reading" if access == "read" else "writing"
        raise InvalidRequest(f"session {session.session_id!r} does not hold {file.path!r} for {activity}")
    hold = usable[-1]
    hold.check()
    return hold
