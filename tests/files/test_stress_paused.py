"""A writer that is stopped past the end of its lease right before it replaces the file, with real sessions."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually

from leasehold import blocking
from leasehold.errors import FileChanged
from leasehold.files.blocking import FileLocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.processes import Child
    from tests.support.servers import Server

    from leasehold.files.blocking import Session


def write_and_stop(parent: Any, url: str, root: str) -> None:
    """Writes `notes` in a session of its own, and stops itself between the last look at its lease and the renaming."""
    import os
    import signal

    from leasehold import blocking
    from leasehold.errors import LeaseholdError
    from leasehold.files.blocking import FileLocks

    rename = os.rename

    def rename_later(*args: Any, **options: Any) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)
        rename(*args, **options)

    with blocking.connect(url) as locks:
        session = FileLocks(locks, root=root).session("paused")
        lease = session.acquire_write("notes", ttl=6)
        session.read_file("notes")
        os.rename = rename_later
        parent.send(fence=lease.fence)
        try:
            session.write_file("notes", b"by the paused one")
        except LeaseholdError as error:
            parent.send(code=error.code, notes=getattr(error, "__notes__", []))
        else:
            parent.send(code="written", notes=[])


def is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "notes").write_bytes(b"before")
    return tmp_path.resolve()


@pytest.fixture
def session(valkey: Server, root: Path) -> Iterator[Session]:
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    with blocking.connect(valkey.url) as locks:
        yield FileLocks(locks, root=root).session("next")


def test_a_writer_that_resumes_after_the_next_one_has_written_is_refused(
    valkey: Server, root: Path, session: Session, spawn: Callable[..., Child]
) -> None:
    paused = spawn(write_and_stop, valkey.url, str(root))
    fence = paused.read(LIMIT)["fence"]
    eventually(lambda: is_stopped(paused.pid))
    lease = session.acquire_write("notes", wait=LIMIT)  # when the other one's lease has ended
    assert lease.fence > fence
    assert session.read_file("notes").data == b"before"
    session.write_file("notes", b"by the next one")
    paused.resume()
    assert paused.read(LIMIT) == {"code": "file_changed", "notes": []}
    assert session.read_file("notes").data == b"by the next one"
    assert os.listdir(root) == ["notes"]  # noqa: PTH208 - names only


def test_a_writer_that_resumes_after_the_next_one_has_read_is_refused(
    valkey: Server, root: Path, session: Session, spawn: Callable[..., Child]
) -> None:
    paused = spawn(write_and_stop, valkey.url, str(root))
    paused.read(LIMIT)
    eventually(lambda: is_stopped(paused.pid))
    session.acquire_read("notes", wait=LIMIT)
    assert session.read_file("notes").data == b"before"
    paused.resume()
    assert paused.read(LIMIT) == {"code": "file_changed", "notes": []}
    assert session.read_file("notes").data == b"before"


def test_a_writer_that_resumes_before_the_next_one_has_read_is_detected(
    valkey: Server, root: Path, session: Session, spawn: Callable[..., Child]
) -> None:
    with session.read("notes"):
        assert session.read_file("notes").data == b"before"
    paused = spawn(write_and_stop, valkey.url, str(root))
    paused.read(LIMIT)
    eventually(lambda: is_stopped(paused.pid))
    session.acquire_write("notes", wait=LIMIT)
    paused.resume()
    told = paused.read(LIMIT)
    # The write could not be prevented, but it is not acknowledged.
    assert told == {"code": "lease_lost", "notes": [f"'{root}/notes' had been replaced by then."]}
    with pytest.raises(FileChanged):
        session.write_file("notes", b"by the next one")
    assert session.read_file("notes").data == b"by the paused one"
