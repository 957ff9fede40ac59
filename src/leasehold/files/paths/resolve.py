"""Resolves a path, however it is spelled: dots, symbolic links, case and normal forms."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from leasehold.errors import InvalidRequest
from leasehold.files.paths.case_folding import EXACT, NameRules

if TYPE_CHECKING:
    from leasehold.files.paths.case_folding import NameRulesSource

MAX_PATH_BYTES = 4095
MAX_NAME_BYTES = 255
# As many as Linux follows before it says ELOOP.
MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """An absolute path without dots and links.

    ``keys`` has one text for each of ``names``, the same for all spellings of the name. ``stat`` is the state of what is
    there; None if nothing is, or not yet.
    """

    names: tuple[str, ...]
    keys: tuple[str, ...]
    stat: os.stat_result | None

    @property
    def path(self) -> str:
        """The path as text, for the operating system."""
        return "/" + "/".join(self.names)

    def is_below(self, other: ResolvedPath) -> bool:
        """True if this is ``other`` itself or something in it."""
        return self.keys[: len(other.keys)] == other.keys


def check_path(path: str | os.PathLike[str]) -> str:
    """Return ``path`` as text if it can be the name of a file."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a path must be text, not {type(text).__name__}")
    if not text:
        raise InvalidRequest("a path must not be empty")
    if "\0" in text:
        raise InvalidRequest("a path must not contain NUL")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidRequest("a path must be valid Unicode, without lone surrogates") from error
    if size > MAX_PATH_BYTES:
        raise InvalidRequest(f"a path may take {MAX_PATH_BYTES} bytes in UTF-8, this one takes {size}")
    return text


class PathResolver:
    """Resolves a path name by name, as the kernel does, and continues where nothing exists yet.

    A name that exists only in another normal form (or case, in a directory that folds it) means the one that exists.
    A link to nothing means the path that it leads to. ``ends_as_directory``: the path ends as ``a/``, ``a/.`` or ``a/..``.
    """

    def __init__(self, path: str, start: ResolvedPath | None, name_rules: NameRulesSource) -> None:
        self._path = path
        self._name_rules = name_rules
        self._names = list(start.names) if start and not path.startswith("/") else []
        self._keys = list(start.keys) if start and not path.startswith("/") else []
        self._found: os.stat_result | None = None
        self._todo = path.split("/")[::-1]
        self._links = 0
        self.ends_as_directory = False

    @property
    def position(self) -> ResolvedPath:
        """The part that is resolved so far."""
        return ResolvedPath(tuple(self._names), tuple(self._keys), self._found)

    def resolve(self) -> ResolvedPath:
        """Resolve the whole path; `InvalidRequest` if that is not possible."""
        self._stat()
        while self._todo:
            name = self._todo.pop()
            if name in {"", "."}:
                self.ends_as_directory = True
                self._check_is_directory()
            elif name == "..":
                self.ends_as_directory = True
                self._check_is_directory()
                del self._names[-1:], self._keys[-1:]
                self._stat()
            else:
                self.ends_as_directory = False
                self._descend(name)
        return self.position

    def _descend(self, name: str) -> None:
        self._check_is_directory()
        if len(name.encode(errors="surrogateescape")) > MAX_NAME_BYTES:
            raise InvalidRequest(f"{self._path!r} has a name of more than {MAX_NAME_BYTES} bytes in it")
        rules = self._find_rules()
        if not _is_unicode(name):
            raise InvalidRequest(f"{self._path!r} leads to a name that is not valid Unicode")
        self._names.append(name)
        self._keys.append(rules.key(name))
        is_there = self._found is not None
        self._stat()
        if self._found is None and is_there and (rules.folds_case or not name.isascii()):
            self._find_other_spelling(rules)
        if self._found is not None and stat.S_ISLNK(self._found.st_mode):
            self._follow_link()

    def _follow_link(self) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise InvalidRequest(f"{self._path!r} has too many symbolic links in it, or they form a loop")
        try:
            target = os.readlink(self.position.path)  # noqa: PTH115 - a Path drops the slash at the end
        except OSError as error:  # it was a link a moment ago
            raise InvalidRequest(f"{self._path!r} was changed while it was looked up") from error
        if target.startswith("/"):
            self._names, self._keys = [], []
        else:
            del self._names[-1], self._keys[-1]
        self._todo += target.split("/")[::-1]
        self._stat()

    def _stat(self) -> None:
        try:
            self._found = os.lstat(self.position.path)
        except FileNotFoundError:
            self._found = None
        except NotADirectoryError:  # its parent was replaced by a file
            self._found = None
        except OSError as error:
            raise InvalidRequest(f"{self._path!r} cannot be looked up: {error.strerror}") from error

    def _find_other_spelling(self, rules: NameRules) -> None:
        wanted, asked = self._keys[-1], self._names[-1]
        directory = "/" + "/".join(self._names[:-1])
        try:
            same = [name for name in os.listdir(directory) if rules.key(name) == wanted]  # noqa: PTH208 - names only
        except OSError:  # it may be passed through but not read
            return
        # The one in NFC if there are several: the choice must not depend on the order of the directory.
        for name in sorted(same, key=lambda each: (EXACT.key(each) != each, each)):
            self._names[-1] = name
            self._stat()
            if self._found is not None:
                return
        self._names[-1] = asked

    def _find_rules(self) -> NameRules:
        """The name rules of the current directory, or of the nearest one that exists."""
        depth = len(self._names)
        while self._found is None and depth > 0 and not os.path.lexists("/" + "/".join(self._names[:depth])):
            depth -= 1
        return self._name_rules.rules_of("/" + "/".join(self._names[:depth]))

    def _check_is_directory(self) -> None:
        if self._found is not None and not stat.S_ISDIR(self._found.st_mode):
            raise InvalidRequest(
                f"{self._path!r} goes on after {self._names[-1]!r}, which is not a directory"
            )


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
