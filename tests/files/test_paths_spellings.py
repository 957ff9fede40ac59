"""Same file ⇔ same lock, for generated trees and spellings; and nothing outside the root."""

# The spelling of a path is the matter here, and a `Path` would tidy it up.
# ruff: noqa: PTH110, PTH112, PTH116, PTH118, PTH121

from __future__ import annotations

import hashlib
import itertools
import os
import stat
import tempfile
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.files.spellings import spellings, trees

from leasehold.errors import InvalidRequest
from leasehold.files.paths.case_folding import NameRules
from leasehold.files.paths.identity import FileId, FileRoot

if TYPE_CHECKING:
    from tests.conftest import Count

Identify = Callable[[str, str], FileId]


@dataclass(frozen=True)
class FoldsEverywhere:
    """Reports every directory as case-folding; this machine may have none that is."""

    def rules_of(self, directory: str) -> NameRules:
        return NameRules(folds_case=True)


def is_the_same_everywhere(root: str, path: str) -> FileId:
    return FileRoot(root, name_rules=FoldsEverywhere()).identify(path)


def is_exact(root: str, path: str) -> FileId:
    return FileRoot(root).identify(path)


def in_a_project(root: str, path: str) -> FileId:
    return FileRoot(root, project="demo").identify(path)


def explore(check: Callable[[st.DataObject], None], examples: int, *, shrink: bool = True) -> None:
    phases = [Phase.explicit, Phase.reuse, Phase.generate, *([Phase.shrink] if shrink else [])]
    settings(
        max_examples=examples,
        deadline=None,
        phases=phases,
        database=None,
        suppress_health_check=list(HealthCheck),
    )(given(st.data())(check))()


def check_spellings(identify: Identify, *, folds_case: bool) -> Callable[[st.DataObject], None]:
    """Fails if two paths get one lock without meaning one file, or the other way round."""

    def check(data: st.DataObject) -> None:
        tree = data.draw(trees(folds_case=folds_case))
        if not tree.files:
            return
        with tempfile.TemporaryDirectory() as directory:
            root = os.path.realpath(directory)
            tree.build(Path(root))
            pairs = data.draw(st.lists(spellings(tree, folds_case=folds_case), min_size=2, max_size=6))
            for path, file in pairs:
                if file.is_real and os.path.exists(f"{root}/{path}"):
                    # The kernel agrees about what was generated, wherever it knows the spelling.
                    assert os.path.samefile(f"{root}/{path}", f"{root}{file.path}"), (path, file)
            try:
                found = [(path, file, identify(root, path)) for path, file in pairs]
            except InvalidRequest as refused:
                raise AssertionError(f"a file was refused: {refused}") from refused
            for (path, file, one), (other_path, other, two) in itertools.combinations(found, 2):
                assert (one.sha256 == two.sha256) == (file is other), (path, other_path, file, other)
            for path, file, identity in found:
                assert identity.absolute == f"{root}{file.path}" or not file.is_real, (path, file)

    return check


@pytest.mark.timeout(900)
@pytest.mark.parametrize("folds_case", [False, True], ids=["case matters", "case is folded"])
def test_two_spellings_have_one_lock_exactly_if_they_mean_one_file(folds_case: bool, count: Count) -> None:
    identify = is_the_same_everywhere if folds_case else is_exact
    explore(check_spellings(identify, folds_case=folds_case), count(full=2_000, quick=80))


@pytest.mark.timeout(900)
def test_in_a_project_two_spellings_have_one_lock_exactly_if_they_mean_one_file(count: Count) -> None:
    # With names that differ in more than case: other machines may fold it.
    def identify(root: str, path: str) -> FileId:
        return FileRoot(root, project="demo", name_rules=FoldsEverywhere()).identify(path)

    explore(check_spellings(identify, folds_case=True), count(full=1_000, quick=40))


SOUP = [
    "",
    ".",
    "..",
    "..",
    "a",
    "b",
    "é",
    "e\u0301",
    "in",
    "out",
    "up",
    "self",
    "loop",
    "file",
    "gone",
    "x" * 300,
]


def check_soup(identify: Identify) -> Callable[[st.DataObject], None]:
    """Fails if a path outside the root is accepted, or an existing file below it is refused."""

    def check(data: st.DataObject) -> None:
        parts = data.draw(st.lists(st.sampled_from(SOUP), min_size=1, max_size=8))
        start = data.draw(st.sampled_from(["", "{root}/", "{outer}/", "{door}/", "/"]))
        with tempfile.TemporaryDirectory() as directory:
            outer = Path(os.path.realpath(directory))
            root = outer / "a"
            for each in (root, root / "a", root / "a" / "b", root / "é", outer / "b"):
                each.mkdir()
            for file in (
                root / "file",
                root / "a" / "file",
                root / "a" / "b" / "file",
                outer / "file",
                outer / "b" / "file",
            ):
                file.write_text(str(file))
            (outer / "door").symlink_to(root)
            (outer / "b" / "in").symlink_to("../a/a")
            for place in (root, root / "a"):
                (place / "in").symlink_to(root / "a" / "b")
                (place / "out").symlink_to(outer / "b")
                (place / "up").symlink_to("..")
                (place / "self").symlink_to(".")
                (place / "loop").symlink_to("loop")
                (place / "gone").symlink_to("nowhere/at/all")
            path = start.format(root=root, outer=outer, door=outer / "door") + "/".join(parts)
            _compare(identify, root, path)

    return check


def _compare(identify: Identify, root: Path, path: str) -> None:
    known, real = _ask_the_kernel(os.path.join(root, path))
    is_inside = f"{real}/".startswith(f"{root}/")
    try:
        identity = identify(str(root), path)
    except InvalidRequest as error:
        refused = str(error)
        assert known is None or not is_inside or not stat.S_ISREG(known.st_mode), refused
        assert known is None or is_inside or refused == f"{path!r} is outside the root {str(root)!r}"
        return
    assert os.path.realpath(identity.absolute) == identity.absolute
    assert identity.absolute.startswith(f"{root}/"), f"{path!r} led to {identity.absolute!r}"
    if known is not None:
        assert identity.absolute == real
        assert identity.sha256 == hashlib.sha256(unicodedata.normalize("NFC", real).encode()).hexdigest()


def _ask_the_kernel(path: str) -> tuple[os.stat_result | None, str]:
    """The state of an existing file, and its path."""
    try:
        return os.stat(path), os.path.realpath(path)
    except OSError:
        return None, ""


@pytest.mark.timeout(900)
def test_nothing_leads_out_of_the_root_and_every_file_in_it_is_found(count: Count) -> None:
    explore(check_soup(is_exact), count(full=2_000, quick=120))


def planted(path_of: Callable[[str, str], str]) -> Identify:
    """An identity that is made in a wrong way."""

    def identify(root: str, path: str) -> FileId:
        absolute = path_of(root, path)
        if not f"{absolute}/".startswith(f"{root}/"):
            raise InvalidRequest(f"{path!r} is outside the root {root!r}")
        if os.path.isdir(absolute):
            raise InvalidRequest("a directory")
        return FileId(
            absolute,
            hashlib.sha256(absolute.encode()).hexdigest(),
            None,
            root,
            tuple(absolute[len(root) + 1 :].split("/")),
        )

    return identify


def _lexically(root: str, path: str) -> str:
    return os.path.normpath(os.path.join(root, path))


def _without_links(root: str, path: str) -> str:
    # Dots first, links afterwards: `link/..` is then the directory of the link.
    return os.path.realpath(_lexically(root, path))


def _raw_text(root: str, path: str) -> str:
    return os.path.join(root, path)


def _raw(root: str, path: str) -> str:
    return os.path.realpath(os.path.join(root, path))


def _compatible(root: str, path: str) -> str:
    return unicodedata.normalize("NFKC", os.path.realpath(os.path.join(root, path)))


def _composed(root: str, path: str) -> str:
    return unicodedata.normalize("NFC", os.path.realpath(os.path.join(root, path)))


@pytest.mark.parametrize(
    ("path_of", "folds_case"),
    [(_lexically, False), (_without_links, False), (_raw, False), (_compatible, False), (_composed, True)],
    ids=["links not followed", "dots before links", "normal form kept", "NFKC", "case kept"],
)
def test_the_search_finds_a_wrong_way_to_compare_paths(
    path_of: Callable[[str, str], str], folds_case: bool
) -> None:
    with pytest.raises(AssertionError):
        explore(check_spellings(planted(path_of), folds_case=folds_case), 2_000, shrink=False)


@pytest.mark.parametrize("path_of", [_lexically, _raw_text], ids=["links not followed", "nothing looked at"])
def test_the_search_finds_a_way_out_of_the_root(path_of: Callable[[str, str], str]) -> None:
    with pytest.raises(AssertionError):
        explore(check_soup(planted(path_of)), 2_000, shrink=False)
