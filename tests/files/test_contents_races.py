"""Writers that are killed, paused and cancelled in the middle of replacing a file."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually

from leasehold.errors import FileChanged
from leasehold.files.content.atomic_write import write_atomically
from leasehold.files.content.contents import read_contents, sha256_of
from leasehold.files.paths.identity import FileId, FileRoot
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Count
    from tests.support.processes import Child


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def file(root: Path) -> FileId:
    (root / "notes.txt").write_bytes(b"old")
    return FileRoot(root).identify("notes.txt")


def always() -> None:
    """A lease that never ends."""


def write_late(parent: Any, root: str) -> None:
    """Replaces the file, and waits for the test's word after the last look at its lease and before renaming."""
    from leasehold.errors import LeaseholdError
    from leasehold.files.content.atomic_write import write_atomically
    from leasehold.files.content.contents import sha256_of
    from leasehold.files.paths.identity import FileRoot

    has_asked = False

    def check() -> None:
        nonlocal has_asked
        if not has_asked:
            has_asked = True
            parent.send(checked=True)
            parent.receive()

    file = FileRoot(root).identify("notes.txt")
    try:
        written = write_atomically(file, b"late", check=check, seen=sha256_of(b"old"))
    except LeaseholdError as error:
        parent.send(refused=error.code, message=str(error))
    else:
        parent.send(written=written)


def test_a_writer_that_wakes_up_after_the_next_one_has_written_changes_nothing(
    file: FileId, root: Path, spawn: Callable[..., Child]
) -> None:
    late = spawn(write_late, str(root))
    assert late.read() == {"checked": True}
    write_atomically(file, b"next", check=always, seen=sha256_of(b"old"))
    late.send()
    told = late.read()
    assert told["refused"] == "file_changed"
    assert "belongs to a later writer by now" in told["message"]
    assert read_contents(file).data == b"next"
    assert [entry.name for entry in root.iterdir()] == ["notes.txt"]


def test_a_writer_that_wakes_up_before_the_next_one_writes_is_detected_by_it(
    file: FileId, root: Path, spawn: Callable[..., Child]
) -> None:
    late = spawn(write_late, str(root))
    assert late.read() == {"checked": True}
    seen = read_contents(file).sha256
    late.send()
    assert late.read() == {"written": sha256_of(b"late")}
    with pytest.raises(FileChanged):
        write_atomically(file, b"next", check=always, seen=seen)
    assert read_contents(file).data == b"late"


def test_the_temporary_file_of_a_killed_writer_is_removed_by_the_next_one(
    file: FileId, root: Path, spawn: Callable[..., Child]
) -> None:
    writer = spawn(write_late, str(root))
    assert writer.read() == {"checked": True}
    writer.kill()
    assert len(list(root.glob(".leasehold-*.tmp"))) == 1
    assert read_contents(file).data == b"old"
    write_atomically(file, b"next", check=always, seen=sha256_of(b"old"))
    assert [entry.name for entry in root.iterdir()] == ["notes.txt"]


def test_writers_of_files_whose_names_differ_in_case_only_do_not_disturb_each_other(
    file: FileId, root: Path, spawn: Callable[..., Child]
) -> None:
    (root / "NOTES.txt").write_bytes(b"another file")
    if len(list(root.iterdir())) != 2:
        pytest.skip("this file system takes them for the same")
    writer = spawn(write_late, str(root))
    assert writer.read() == {"checked": True}
    write_atomically(FileRoot(root).identify("NOTES.txt"), b"new", check=always)
    writer.send()
    assert writer.read() == {"written": sha256_of(b"late")}
    assert (root / "NOTES.txt").read_bytes() == b"new"


def write_for_ever(parent: Any, root: str) -> None:
    import itertools

    from leasehold.files.content.atomic_write import write_atomically
    from leasehold.files.paths.identity import FileRoot

    file = FileRoot(root).identify("notes.txt")
    parent.send(ready=True)
    for number in itertools.count():
        write_atomically(file, b"%d " % number * 50_000, check=lambda: None)


def is_whole(data: bytes) -> bool:
    numbers = data.split()
    return data == b"old" or (len(numbers) == 50_000 and len(set(numbers)) == 1)


def test_a_file_is_whole_whenever_it_is_read_and_however_its_writer_dies(
    file: FileId, root: Path, spawn: Callable[..., Child], count: Count
) -> None:
    reads = 0
    seen: set[str] = set()
    for _ in range(count(full=20, quick=3)):
        writer = spawn(write_for_ever, str(root))
        assert writer.read() == {"ready": True}
        first = read_contents(file).sha256
        eventually(lambda first=first: read_contents(file).sha256 != first)
        for _ in range(50):
            found = read_contents(file)
            assert is_whole(found.data)
            seen.add(found.sha256)
            reads += 1
        writer.kill()
        assert is_whole(read_contents(file).data)
    assert len(seen) > 3, f"{reads} reads saw too little"
    write_atomically(file, b"old", check=always)
    assert [entry.name for entry in root.iterdir()] == ["notes.txt"]


async def test_a_caller_that_is_cancelled_goes_on_only_when_the_work_has_ended() -> None:
    began, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def work() -> str:
        began.set()
        assert go_on.wait(LIMIT)
        done.append("written")
        return "answer"

    task = asyncio.create_task(AsyncioConcurrency().run_blocking(work))
    assert await asyncio.to_thread(began.wait, LIMIT)
    for _ in range(3):  # more than once, as impatient callers do
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["written"]


async def test_work_that_fails_after_the_cancellation_is_a_cancellation() -> None:
    began, go_on = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert go_on.wait(LIMIT)
        raise OSError("late")

    task = asyncio.create_task(AsyncioConcurrency().run_blocking(work))
    assert await asyncio.to_thread(began.wait, LIMIT)
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_blocking_work_returns_its_result_or_raises_its_error() -> None:
    assert await AsyncioConcurrency().run_blocking(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await AsyncioConcurrency().run_blocking(lambda: 1 // 0)
