"""Identity of a path: dots, links, case, normal forms, hard links, and refusals."""

from __future__ import annotations

import hashlib
import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from leasehold.errors import InvalidRequest
from leasehold.files.paths.case_folding import NameRules
from leasehold.files.paths.identity import FileRoot

if TYPE_CHECKING:
    from collections.abc import Callable

COMPOSED, DECOMPOSED = "caf\u00e9.txt", "cafe\u0301.txt"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "root"
    made.mkdir()
    (made / "src").mkdir()
    (made / "src" / "app.py").write_text("print()")
    return made


@pytest.fixture
def files(root: Path) -> FileRoot:
    return FileRoot(root)


def test_the_lock_is_named_after_the_absolute_path(files: FileRoot, root: Path) -> None:
    found = files.identify("src/app.py")
    assert found.path == found.absolute == f"{root}/src/app.py"
    assert found.sha256 == hashlib.sha256(found.path.encode()).hexdigest()
    assert found.inode_sha256 is None
    assert found.lock_names == (found.sha256,)


@pytest.mark.parametrize(
    "spelling",
    [
        "./src/app.py",
        "src//app.py",
        "src/./app.py",
        "src/../src/app.py",
        "new/../src/app.py",
        "{root}/src/app.py",
    ],
)
def test_dots_and_slashes_make_no_difference(files: FileRoot, root: Path, spelling: str) -> None:
    assert files.identify(spelling.format(root=root)) == files.identify(Path("src/app.py"))


def test_a_link_means_its_target_and_dots_after_it_start_there(files: FileRoot, root: Path) -> None:
    (root / "deep").mkdir()
    (root / "deep" / "link").symlink_to("../src")
    assert files.identify("deep/link/app.py") == files.identify("src/app.py")
    assert files.identify("deep/link/../src/app.py") == files.identify("src/app.py")


def test_a_link_that_leads_nowhere_yet_is_the_file_that_it_would_make(files: FileRoot, root: Path) -> None:
    (root / "dangling").symlink_to("src/later.py")
    before = files.identify("dangling")
    assert before == files.identify("src/later.py")
    (root / "dangling").write_text("made through the link")
    assert files.identify("dangling") == files.identify("src/later.py") == before


def test_a_root_that_is_a_link_is_the_directory_that_it_leads_to(files: FileRoot, root: Path) -> None:
    (root.parent / "door").symlink_to(root)
    through = FileRoot(root.parent / "door")
    assert through.identify("src/app.py").root == str(root)
    assert through.identify("src/app.py") == files.identify("src/app.py")
    assert through.identify(root.parent / "door" / "src" / "app.py") == files.identify("src/app.py")


def test_an_identity_stays_when_the_file_and_its_directories_are_made_changed_and_deleted(
    files: FileRoot, root: Path
) -> None:
    before = files.identify("a/b/Neu é.txt")
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "Neu é.txt").write_text("1")
    assert files.identify("a/b/Neu é.txt") == before
    (root / "a" / "b" / "Neu é.txt").unlink()
    assert files.identify("a/b/Neu é.txt") == before


@pytest.mark.parametrize(
    ("spelling", "said"),
    [
        ("", "a path must not be empty"),
        ("a\0b", "a path must not contain NUL"),
        ("\udc80", "a path must be valid Unicode, without lone surrogates"),
        ("x" * 5000, "a path may take 4095 bytes in UTF-8, this one takes 5000"),
        ("é" * 128, f"{'é' * 128!r} has a name of more than 255 bytes in it"),
        ("src", "'src' is a directory; only files can be locked"),
        (".", "'.' is a directory; only files can be locked"),
        ("src/..", "'src/..' is a directory; only files can be locked"),
        ("new/", "'new/' is the name of a directory; only files can be locked"),
        ("src/app.py/", "'src/app.py/' goes on after 'app.py', which is not a directory"),
        ("src/app.py/x", "'src/app.py/x' goes on after 'app.py', which is not a directory"),
        ("src/app.py/../x", "'src/app.py/../x' goes on after 'app.py', which is not a directory"),
        ("loop", "'loop' has too many symbolic links in it, or they form a loop"),
        ("pipe", "'pipe' is not a regular file"),
        ("../x", "'../x' is outside the root '{root}'"),
        ("..", "'..' is outside the root '{root}'"),
        ("/etc/passwd", "'/etc/passwd' is outside the root '{root}'"),
        ("out/passwd", "'out/passwd' is outside the root '{root}'"),
        ("out/passwd/x", "'out/passwd/x' is outside the root '{root}'"),
        ("{root}-beside", "'{root}-beside' is outside the root '{root}'"),
    ],
    ids=lambda text: text[:24].encode("ascii", "backslashreplace").decode().replace("\0", "NUL"),
)
def test_a_path_that_is_not_a_file_below_the_root_is_refused(
    files: FileRoot, root: Path, spelling: str, said: str
) -> None:
    (root / "loop").symlink_to("loop")
    (root / "out").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    before = sorted(root.rglob("*"))
    with pytest.raises(InvalidRequest) as refused:
        files.identify(spelling.format(root=root))
    assert str(refused.value) == said.format(root=root)
    assert sorted(root.rglob("*")) == before


@pytest.mark.parametrize("path", [b"src/app.py", 7, None], ids=["bytes", "number", "nothing"])
def test_a_path_is_text(files: FileRoot, path: object) -> None:
    with pytest.raises(InvalidRequest, match=r"a path must be text, not (bytes|int|NoneType)"):
        files.identify(path)  # pyright: ignore[reportArgumentType] - on purpose


def test_a_directory_that_may_not_be_looked_into_is_refused_with_the_reason(
    files: FileRoot, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "x").mkdir()
    look = os.lstat

    def refuse(path: str) -> os.stat_result:
        if path == f"{root}/x/secret":
            raise PermissionError(13, "Permission denied")
        return look(path)

    # The tests may run as root, which no file mode restricts.
    monkeypatch.setattr(os, "lstat", refuse)
    with pytest.raises(InvalidRequest, match=r"'x/secret' cannot be looked up: Permission denied"):
        files.identify("x/secret")


@pytest.mark.parametrize("root_path", ["relative", "/no/such/directory", "/etc/passwd"])
def test_the_root_is_an_existing_directory_with_an_absolute_path(root_path: str) -> None:
    with pytest.raises(InvalidRequest, match="the root must be an"):
        FileRoot(root_path)


def test_normal_forms_are_one_name_and_lead_to_the_file_that_is_there(files: FileRoot, root: Path) -> None:
    before = files.identify(COMPOSED)
    assert before.sha256 == files.identify(DECOMPOSED).sha256
    (root / DECOMPOSED).write_text("made on a machine that decomposes")
    assert files.identify(COMPOSED) == files.identify(DECOMPOSED)
    assert files.identify(COMPOSED).absolute == f"{root}/{DECOMPOSED}"
    assert files.identify(COMPOSED).sha256 == before.sha256


def test_files_that_differ_in_normal_form_only_share_a_lock_but_not_their_contents(
    files: FileRoot, root: Path
) -> None:
    (root / COMPOSED).write_text("one")
    (root / DECOMPOSED).write_text("other")
    if len(list(root.iterdir())) != 3:
        pytest.skip("this file system takes them for the same")
    one, other = files.identify(COMPOSED), files.identify(DECOMPOSED)
    assert one.sha256 == other.sha256
    assert (one.absolute, other.absolute) == (f"{root}/{COMPOSED}", f"{root}/{DECOMPOSED}")


@pytest.mark.parametrize(("one", "other"), [("x²", "x2"), ("ﬁle", "file"), ("a.", "a"), ("Ⅷ", "VIII")])
def test_names_that_only_look_similar_are_two_files(files: FileRoot, one: str, other: str) -> None:
    assert unicodedata.normalize("NFKC", one).rstrip(".") == other
    assert files.identify(one).sha256 != files.identify(other).sha256


@dataclass(frozen=True)
class FoldsBelow:
    """A file system in which some directories fold case, as ext4 can have them."""

    is_folding: Callable[[str], bool]
    drops_dots: bool = False

    def rules_of(self, directory: str) -> NameRules:
        return NameRules(folds_case=self.is_folding(directory), drops_dots=self.drops_dots)


def test_case_is_folded_in_the_directories_that_fold_it_and_in_no_other(root: Path) -> None:
    (root / "Loose").mkdir()
    files = FileRoot(root, name_rules=FoldsBelow(lambda directory: "/Loose" in directory))
    assert files.identify("Loose/A.txt").sha256 == files.identify("Loose/a.TXT").sha256
    assert files.identify("Loose/New/A.txt").sha256 == files.identify("Loose/nEW/a.TXT").sha256
    assert files.identify("Loose/A.txt").sha256 != files.identify("loose/A.txt").sha256
    assert files.identify("A.txt").sha256 != files.identify("a.txt").sha256


@pytest.mark.parametrize(
    ("one", "other"),
    [("STRASSE", "straße"), ("Σίσυφος", "ΣΊΣΥΦΟΣ"), ("É", "e\u0301"), ("a\u200db", "AB"), ("\u1e9e", "ß")],
)
def test_where_case_is_folded_the_widest_rule_decides(root: Path, one: str, other: str) -> None:
    files = FileRoot(root, name_rules=FoldsBelow(lambda _: True))
    assert files.identify(one).sha256 == files.identify(other).sha256
    assert FileRoot(root).identify(one).sha256 != FileRoot(root).identify(other).sha256


def test_dots_at_the_end_count_where_the_file_system_keeps_them(root: Path) -> None:
    dropping = FileRoot(root, name_rules=FoldsBelow(lambda _: True, drops_dots=True))
    assert dropping.identify("a.").sha256 == dropping.identify("A").sha256
    keeping = FileRoot(root, name_rules=FoldsBelow(lambda _: True))
    assert keeping.identify("a.").sha256 != keeping.identify("A").sha256


def test_hard_links_are_recognised_by_their_inode_and_keep_their_paths(files: FileRoot, root: Path) -> None:
    (root / "other").hardlink_to(root / "src" / "app.py")
    one, other = files.identify("src/app.py"), files.identify("other")
    assert one.sha256 != other.sha256
    assert one.inode_sha256 == other.inode_sha256 is not None
    assert one.lock_names == (one.sha256, one.inode_sha256)
    (root / "third").write_text("")
    (root / "fourth").hardlink_to(root / "third")
    assert files.identify("third").inode_sha256 != one.inode_sha256
    (root / "other").unlink()
    assert files.identify("src/app.py").inode_sha256 is None


def test_a_project_has_the_same_locks_wherever_it_is_mounted(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "src").mkdir(parents=True)
    (tmp_path / "elsewhere" / "src" / "APP.py").write_text("")
    here, there = FileRoot(root, project="demo"), FileRoot(tmp_path / "elsewhere", project="demo")
    assert here.identify("src/app.py").path == "src/app.py"
    assert here.identify("src/app.py").sha256 == there.identify("src/app.py").sha256
    # The other machine may fold case.
    assert here.identify("src/app.py").sha256 == there.identify("src/APP.py").sha256
    assert here.identify("src/app.py").sha256 != FileRoot(root).identify("src/app.py").sha256


def test_a_project_and_a_path_cannot_be_joined_in_two_ways(root: Path) -> None:
    (root / "a").mkdir()
    ids = [
        FileRoot(root, project="a").identify("a/b").sha256,
        FileRoot(root / "a", project="a/a").identify("b").sha256,
        FileRoot(root / "a", project="aa").identify("b").sha256,
        FileRoot(root / "a", project="a").identify("b").sha256,
    ]
    assert len(set(ids)) == 4


@pytest.mark.parametrize("project", ["", "a\0b", "a\nb", "x" * 201, 7])
def test_a_project_has_a_printable_name(root: Path, project: object) -> None:
    with pytest.raises(InvalidRequest, match="a project's name"):
        FileRoot(root, project=project)  # pyright: ignore[reportArgumentType] - on purpose
