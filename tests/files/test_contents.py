"""Reads of files and their replacement as a whole: attributes, refusals, temporary files."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from leasehold.errors import FileChanged, InvalidRequest, LeaseLost, NotAllowed, NotFound
from leasehold.files.content.atomic_write import ABSENT, write_atomically
from leasehold.files.content.contents import read_contents, sha256_of
from leasehold.files.paths.identity import FileId, FileRoot

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "root"
    made.mkdir()
    return made


@pytest.fixture
def file(root: Path) -> FileId:
    (root / "notes.txt").write_bytes(b"old")
    return FileRoot(root).identify("notes.txt")


def always() -> None:
    """A lease that never ends."""


def names_in(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def test_a_read_returns_the_contents_with_their_hash(file: FileId) -> None:
    found = read_contents(file)
    assert (found.data, found.sha256, found.stat.st_size) == (b"old", sha256_of(b"old"), 3)


def test_a_file_that_is_not_there_is_not_found(root: Path) -> None:
    for path in ("missing.txt", "no/directory/either.txt"):
        with pytest.raises(NotFound, match=f"there is no file '{root}/{path}'"):
            read_contents(FileRoot(root).identify(path))


def test_a_file_is_replaced_as_a_whole_and_nothing_else_is_left(file: FileId, root: Path) -> None:
    with (root / "notes.txt").open("rb") as opened_before:
        assert write_atomically(file, b"new", check=always, seen=sha256_of(b"old")) == sha256_of(b"new")
        assert opened_before.read() == b"old"
    assert read_contents(file).data == b"new"
    assert names_in(root) == ["notes.txt"]


def test_a_new_file_is_made_with_its_directories_and_the_usual_modes(root: Path) -> None:
    file = FileRoot(root).identify("a/b/new.txt")
    previous = os.umask(0o027)
    try:
        write_atomically(file, b"new", check=always, seen=ABSENT)
    finally:
        os.umask(previous)
    assert read_contents(file).data == b"new"
    assert stat.S_IMODE((root / "a" / "b" / "new.txt").stat().st_mode) == 0o640
    assert stat.S_IMODE((root / "a").stat().st_mode) == 0o750


def test_mode_owner_and_attributes_are_kept(file: FileId, root: Path) -> None:
    notes = root / "notes.txt"
    notes.chmod(0o4751)
    if os.geteuid() == 0:
        os.chown(notes, 1234, 5678)
        notes.chmod(0o4751)
    has_attributes = True
    try:
        os.setxattr(notes, "user.colour", b"blue")
    except (AttributeError, OSError):
        has_attributes = False
    before = notes.stat()
    write_atomically(file, b"new", check=always)
    after = notes.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    if has_attributes:
        assert os.getxattr(notes, "user.colour") == b"blue"


def test_an_owner_that_cannot_be_kept_is_a_reason_not_to_write(
    file: FileId, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs a file of another user")
    os.chown(root / "notes.txt", 1234, 5678)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(NotAllowed, match="cannot be replaced with its owner and attributes kept"):
        write_atomically(file, b"new", check=always)
    assert read_contents(file).data == b"old"
    assert names_in(root) == ["notes.txt"]


def test_a_file_that_is_not_what_was_seen_is_left_alone(file: FileId, root: Path) -> None:
    (root / "notes.txt").write_bytes(b"of a program that knows no locks")
    with pytest.raises(
        FileChanged, match="is not what this session last saw, so it was not written"
    ) as refused:
        write_atomically(file, b"new", check=always, seen=sha256_of(b"old"))
    assert refused.value.seen == sha256_of(b"old")
    assert refused.value.found == sha256_of(b"of a program that knows no locks") == read_contents(file).sha256
    assert names_in(root) == ["notes.txt"]


def test_a_file_that_appeared_is_left_alone(file: FileId) -> None:
    with pytest.raises(FileChanged, match="was not there before") as refused:
        write_atomically(file, b"new", check=always, seen=ABSENT)
    assert (refused.value.seen, refused.value.found) == ("", sha256_of(b"old"))
    assert read_contents(file).data == b"old"


def test_a_file_that_went_away_is_not_made_again(file: FileId, root: Path) -> None:
    (root / "notes.txt").unlink()
    with pytest.raises(FileChanged, match="no longer exists") as refused:
        write_atomically(file, b"new", check=always, seen=sha256_of(b"old"))
    assert refused.value.found is None
    assert names_in(root) == []


def test_a_file_changed_while_the_new_one_is_written_is_left_alone(
    file: FileId, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def meanwhile(opened: int) -> None:
        fsync(opened)
        (root / "notes.txt").write_bytes(b"meanwhile")

    monkeypatch.setattr(os, "fsync", meanwhile)
    with pytest.raises(FileChanged, match="was changed without its lock"):
        write_atomically(file, b"new", check=always, seen=sha256_of(b"old"))
    assert read_contents(file).data == b"meanwhile"
    assert names_in(root) == ["notes.txt"]


def test_a_file_with_several_hard_links_is_not_cut_off_from_them(file: FileId, root: Path) -> None:
    (root / "other.txt").hardlink_to(root / "notes.txt")
    with pytest.raises(InvalidRequest, match="has 2 hard links"):
        write_atomically(file, b"new", check=always)
    assert (root / "other.txt").read_bytes() == b"old"
    assert names_in(root) == ["notes.txt", "other.txt"]


def test_without_a_lease_nothing_is_written(file: FileId, root: Path) -> None:
    def lost() -> None:
        raise LeaseLost("notes", "expired")

    with pytest.raises(LeaseLost) as refused:
        write_atomically(file, b"new", check=lost)
    assert not hasattr(refused.value, "__notes__")
    assert read_contents(file).data == b"old"
    assert names_in(root) == ["notes.txt"]


def test_a_lease_that_ended_during_the_replacement_says_that_the_file_was_replaced(file: FileId) -> None:
    asked = 0

    def lost_afterwards() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise LeaseLost("notes", "expired")

    with pytest.raises(LeaseLost) as told:
        write_atomically(file, b"new", check=lost_afterwards)
    assert told.value.__notes__ == [f"{file.path!r} had been replaced by then."]
    assert read_contents(file).data == b"new"


def test_a_link_put_in_the_place_of_the_file_is_not_followed(file: FileId, root: Path) -> None:
    outside = root.parent / "outside.txt"
    outside.write_bytes(b"not yours")
    (root / "notes.txt").unlink()
    (root / "notes.txt").symlink_to(outside)
    with pytest.raises(InvalidRequest, match="has become a symbolic link"):
        read_contents(file)
    with pytest.raises(InvalidRequest, match="has become a symbolic link"):
        write_atomically(file, b"new", check=always)
    assert outside.read_bytes() == b"not yours"
    assert names_in(root) == ["notes.txt"]


def test_a_link_put_in_the_place_of_a_directory_leads_nowhere(root: Path) -> None:
    (root / "inner").mkdir()
    (root / "inner" / "notes.txt").write_bytes(b"old")
    file = FileRoot(root).identify("inner/notes.txt")
    outside = root.parent / "outside"
    (root / "inner").rename(outside)
    (root / "inner").symlink_to(outside)
    with pytest.raises(InvalidRequest, match="or a directory on the way to it has"):
        read_contents(file)
    with pytest.raises(InvalidRequest, match="or a directory on the way to it has"):
        write_atomically(file, b"new", check=always)
    assert (outside / "notes.txt").read_bytes() == b"old"
    assert names_in(outside) == ["notes.txt"]


def test_a_pipe_or_a_directory_in_the_place_of_the_file_is_refused_at_once(file: FileId, root: Path) -> None:
    (root / "notes.txt").unlink()
    os.mkfifo(root / "notes.txt")
    for attempt in (lambda: read_contents(file), lambda: write_atomically(file, b"new", check=always)):
        with pytest.raises(InvalidRequest, match="is not a regular file"):
            attempt()
    (root / "notes.txt").unlink()
    (root / "notes.txt").mkdir()
    for attempt in (lambda: read_contents(file), lambda: write_atomically(file, b"new", check=always)):
        with pytest.raises(InvalidRequest, match="is not a regular file"):
            attempt()
    assert names_in(root) == ["notes.txt"]


def test_a_full_disk_changes_nothing(file: FileId, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(file, b"new", check=always)
    assert read_contents(file).data == b"old"
    assert names_in(root) == ["notes.txt"]


def test_an_abandoned_temporary_file_is_removed_after_an_hour_and_not_before(
    file: FileId, root: Path
) -> None:
    for name, age in (("old", 3700), ("young", 60)):
        left = root / f".leasehold-0123456789abcdef01234567-{name}.tmp"
        left.write_bytes(b"half")
        os.utime(left, (left.stat().st_atime, left.stat().st_mtime - age))
    (root / ".leasehold-settings").write_text("somebody's own")
    write_atomically(file, b"new", check=always)
    assert names_in(root) == [
        ".leasehold-0123456789abcdef01234567-young.tmp",
        ".leasehold-settings",
        "notes.txt",
    ]
