"""Identifies files below a root: one identity for each, however its path is spelled."""

from __future__ import annotations

import hashlib
import stat
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.errors import InvalidRequest
from leasehold.files.paths.case_folding import FileSystemRules, NameRules, NameRulesSource
from leasehold.files.paths.resolve import PathResolver, ResolvedPath, check_path

if TYPE_CHECKING:
    import os

MAX_PROJECT_BYTES = 200
# In a project, one of the machines may have a file system that folds case. All of them must find the same lock.
_ANY_MACHINE = NameRules(folds_case=True)


@dataclass(frozen=True, slots=True)
class FileId:
    """The identity of one file.

    ``path`` is for people: absolute, or in a project relative to its root. ``sha256`` names its lock. ``inode_sha256``
    names a second lock if the file has several hard links, and is None otherwise. ``root`` and ``parts`` are its path on
    this machine, without any link between the root and the file.
    """

    path: str
    sha256: str
    inode_sha256: str | None
    root: str
    parts: tuple[str, ...]

    @property
    def absolute(self) -> str:
        """Its absolute path on this machine."""
        return self.root.rstrip("/") + "/" + "/".join(self.parts)

    @property
    def lock_names(self) -> tuple[str, ...]:
        """The names of its locks: one, or two for a file with several hard links."""
        return (self.sha256,) if self.inode_sha256 is None else (self.sha256, self.inode_sha256)


class FileRoot:
    """Identifies the files below ``root``, and refuses all others.

    With ``project`` the identity is made of the project's name and the path from the root, so that machines that
    have the files mounted at different places find the same lock. Without it, it is made of the absolute path.

    Raises `InvalidRequest` if ``root`` is not an existing directory. Links on the way to the root are followed
    once, here: changing them later makes no difference.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        project: str | None = None,
        name_rules: NameRulesSource | None = None,
    ) -> None:
        self._name_rules: NameRulesSource = FileSystemRules() if name_rules is None else name_rules
        self._project = None if project is None else check_project(project)
        text = check_path(root)
        if not text.startswith("/"):
            raise InvalidRequest(f"the root must be an absolute path, not {text!r}")
        self._root = PathResolver(text, None, self._name_rules).resolve()
        if self._root.stat is None or not stat.S_ISDIR(self._root.stat.st_mode):
            raise InvalidRequest(f"the root must be an existing directory, and {text!r} is not")

    def identify(self, path: str | os.PathLike[str]) -> FileId:
        """The file at ``path``; a relative path starts at the root. Neither the file nor its directories need exist.

        All spellings of one file have the same identity: with dots and slashes, through links, in another Unicode
        normal form, and in another case where the file system ignores it. It does not change when the file is created,
        written or deleted. Two files have different ones, with two exceptions: names that differ in their normal form
        only, where a file system keeps them apart, and in a project names that differ in case only.

        Raises `InvalidRequest` if it is not a file, or not below the root. Not promised: the meaning of a link that is
        changed afterwards, and one identity for a file that is mounted at two places.
        """
        text = check_path(path)
        resolver = PathResolver(text, self._root, self._name_rules)
        try:
            resolved = resolver.resolve()
        except InvalidRequest:
            # An error outside the root must not reveal what is there.
            self._check_is_inside(resolver.position, text)
            raise
        self._check_is_inside(resolved, text)
        _check_is_file(resolved, text, ends_as_directory=resolver.ends_as_directory)
        parts = resolved.names[len(self._root.names) :]
        readable = resolved.path if self._project is None else "/".join(parts)
        return FileId(readable, self._digest(resolved), _inode_digest(resolved.stat), self._root.path, parts)

    def _check_is_inside(self, resolved: ResolvedPath, text: str) -> None:
        if not resolved.is_below(self._root):
            raise InvalidRequest(f"{text!r} is outside the root {self._root.path!r}")

    def _digest(self, resolved: ResolvedPath) -> str:
        if self._project is None:
            return _digest("/" + "/".join(resolved.keys))
        parts = resolved.names[len(self._root.names) :]
        return _digest(self._project, "/".join(_ANY_MACHINE.key(name) for name in parts))


def check_project(project: str) -> str:
    """Return ``project`` in NFC if it is a valid name of a project."""
    if not isinstance(project, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a project's name must be text, not {type(project).__name__}")
    if not project or not project.isprintable():
        raise InvalidRequest(f"a project's name must be printable and not empty, not {project!r}")
    name = unicodedata.normalize("NFC", project)
    if len(name.encode()) > MAX_PROJECT_BYTES:
        raise InvalidRequest(f"a project's name may take {MAX_PROJECT_BYTES} bytes in UTF-8")
    return name


def _check_is_file(resolved: ResolvedPath, text: str, *, ends_as_directory: bool) -> None:
    if resolved.stat is not None and stat.S_ISDIR(resolved.stat.st_mode):
        raise InvalidRequest(f"{text!r} is a directory; only files can be locked")
    if ends_as_directory:
        raise InvalidRequest(f"{text!r} is the name of a directory; only files can be locked")
    if resolved.stat is not None and not stat.S_ISREG(resolved.stat.st_mode):
        raise InvalidRequest(f"{text!r} is not a regular file")


def _inode_digest(found: os.stat_result | None) -> str | None:
    if found is None or found.st_nlink < 2:
        return None
    return _digest("inode", str(found.st_dev), str(found.st_ino))


def _digest(*parts: str) -> str:
    # NUL is in no path and in no project, so two different lists never join to the same text.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
