"""Finding out whether a directory folds case, without leaving anything behind."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from leasehold.files.paths import case_folding
from leasehold.files.paths.case_folding import EXACT, FileSystemRules, NameRules


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "Directory"
    made.mkdir()
    if (tmp_path / "dIRECTORY").exists():
        pytest.skip("the file system of this machine folds case itself")
    return made


@pytest.fixture
def folding_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.lstat` as it is where case is folded; no such file system comes with every machine."""
    exact = os.lstat

    def loose(path: str) -> os.stat_result:
        try:
            return exact(path)
        except FileNotFoundError:
            for found in Path(path).parent.iterdir():
                if found.name.lower() == Path(path).name.lower().rstrip("."):
                    return exact(found)
            raise

    monkeypatch.setattr(os, "lstat", loose)


def test_case_matters_on_this_file_system_and_nothing_is_left_behind(directory: Path) -> None:
    assert FileSystemRules().rules_of(str(directory)) == EXACT
    assert list(directory.iterdir()) == []


def test_a_hard_link_whose_name_differs_in_case_does_not_count_as_folding(directory: Path) -> None:
    (directory / "ABC").write_text("")
    (directory / "abc").hardlink_to(directory / "ABC")
    assert FileSystemRules().rules_of(str(directory)) == EXACT


@pytest.mark.usefixtures("folding_volume")
@pytest.mark.parametrize("names", [["Abc"], ["123", "_"], []], ids=["a name", "no letters", "empty"])
def test_a_volume_that_folds_case_is_recognised_by_its_entries(directory: Path, names: list[str]) -> None:
    for name in names:
        (directory / name).write_text("")
    assert FileSystemRules().rules_of(str(directory)) == NameRules(folds_case=True, drops_dots=True)
    assert sorted(os.listdir(directory)) == sorted(names)  # noqa: PTH208 - names only


@pytest.mark.usefixtures("folding_volume")
def test_an_empty_volume_is_found_out_with_a_file_that_is_removed_again(directory: Path) -> None:
    assert case_folding._probe_with_a_file(str(directory)).folds_case
    assert os.listdir(directory) == []  # noqa: PTH208 - names only


def test_an_empty_volume_on_which_case_matters(directory: Path) -> None:
    assert case_folding._probe_with_a_file(str(directory)) == EXACT
    assert list(directory.iterdir()) == []


def test_a_directory_that_cannot_be_probed_counts_as_exact(directory: Path) -> None:
    assert FileSystemRules().rules_of(str(directory / "not" / "there")) == EXACT
    assert case_folding._probe_with_a_file(str(directory / "not" / "there")) == EXACT


def test_a_directory_with_the_flag_folds_case_whatever_its_volume_does(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loose = directory / "Loose"
    loose.mkdir()
    fcntl = pytest.importorskip("fcntl")

    def flags_of(opened: int, request: int, buffer: bytes) -> bytes:
        is_loose = Path(f"/proc/self/fd/{opened}").readlink() == loose
        assert request == 0x80086601
        return (0x40000000 if is_loose else 0x80000).to_bytes(4, sys.byteorder) + bytes(4)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    monkeypatch.setattr(fcntl, "ioctl", flags_of)
    system = FileSystemRules()
    assert system.rules_of(str(loose)) == NameRules(folds_case=True)
    assert system.rules_of(str(directory)) == EXACT
