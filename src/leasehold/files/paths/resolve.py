"""From any spelling of a path to the one place that it means."""

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
    """Where a path leads: absolute, without dots and links.

    ``keys`` has one text for each of ``names``, the same for every way to write it. ``found`` is what is there; None
    if nothing is, or not yet.
    """

    names: tuple[str, ...]
    keys: tuple[str, ...]
    found: os.stat_result | None

    @property
    def path(self) -> str:
        """As the operating system wants it."""
        return "/" + "/".join(self.names)

    def is_below(self, other: ResolvedPath) -> bool:
        """Whether this is ``other`` itself or something in it."""
        return self.keys[: len(other.keys)] == other.keys


def check_path(path: str | os.PathLike[str]) -> str:
    """``path`` as text if it can be the name of a file."""
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
    """One step through a path after another, as the kernel goes, but also on where nothing is yet.

    A name that is not there as it is spelled, but in another normal form (or case, in a directory that folds it),
    means what is there. A link that leads nowhere means the place where it leads.
    """

    def __init__(self, path: str, start: ResolvedPath | None, folding: NameRulesSource) -> None:
        self._path = path
        self._folding = folding
        self._names = list(start.names) if start and not path.startswith("/") else []
        self._keys = list(start.keys) if start and not path.startswith("/") else []
        self._found: os.stat_result | None = None
        self._todo = path.split("/")[::-1]
        self._links = 0
        self._ends_as_directory = False

    @property
    def here(self) -> ResolvedPath:
        """How far it came."""
        return ResolvedPath(tuple(self._names), tuple(self._keys), self._found)

    def to_the_end(self) -> ResolvedPath:
        """The place that the path means; `InvalidRequest` if there can be none."""
        self._look()
        while self._todo:
            name = self._todo.pop()
            if name in {"", "."}:
                self._ends_as_directory = True
                self._check_is_directory()
            elif name == "..":
                self._ends_as_directory = True
                self._check_is_directory()
                del self._names[-1:], self._keys[-1:]
                self._look()
            else:
                self._ends_as_directory = False
                self._enter(name)
        return self.here

    @property
    def ends_as_directory(self) -> bool:
        """Whether the last part says that a directory is meant, as in ``a/``, ``a/.`` and ``a/..``."""
        return self._ends_as_directory

    def _enter(self, name: str) -> None:
        self._check_is_directory()
        if len(name.encode(errors="surrogateescape")) > MAX_NAME_BYTES:
            raise InvalidRequest(f"{self._path!r} has a name of more than {MAX_NAME_BYTES} bytes in it")
        fold = self._fold()
        if not _is_unicode(name):
            raise InvalidRequest(f"{self._path!r} leads to a name that is not valid Unicode")
        self._names.append(name)
        self._keys.append(fold.key(name))
        is_there = self._found is not None
        self._look()
        if self._found is None and is_there and (fold.folds_case or not name.isascii()):
            self._look_for_other_spelling(fold)
        if self._found is not None and stat.S_ISLNK(self._found.st_mode):
            self._follow()

    def _follow(self) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise InvalidRequest(
                f"{self._path!r} has too many symbolic links in it, or they go round in a circle"
            )
        try:
            target = os.readlink(self.here.path)  # noqa: PTH115 - a Path drops the slash at the end
        except OSError as error:  # it was one a moment ago
            raise InvalidRequest(f"{self._path!r} was changed while it was looked up") from error
        if target.startswith("/"):
            self._names, self._keys = [], []
        else:
            del self._names[-1], self._keys[-1]
        self._todo += target.split("/")[::-1]
        self._look()

    def _look(self) -> None:
        try:
            self._found = os.lstat(self.here.path)
        except FileNotFoundError:
            self._found = None
        except NotADirectoryError:  # replaced by a file since we looked
            self._found = None
        except OSError as error:
            raise InvalidRequest(f"{self._path!r} cannot be looked up: {error.strerror}") from error

    def _look_for_other_spelling(self, fold: NameRules) -> None:
        wanted, asked = self._keys[-1], self._names[-1]
        directory = "/" + "/".join(self._names[:-1])
        try:
            same = [name for name in os.listdir(directory) if fold.key(name) == wanted]  # noqa: PTH208 - names only
        except OSError:  # a directory that may be passed through but not read
            return
        # The one in NFC if there are several: which one it is must not depend on the order of the directory.
        for name in sorted(same, key=lambda each: (EXACT.key(each) != each, each)):
            self._names[-1] = name
            self._look()
            if self._found is not None:
                return
        self._names[-1] = asked

    def _fold(self) -> NameRules:
        """How the directory compares names in which we are, or the nearest one that exists."""
        depth = len(self._names)
        while self._found is None and depth > 0 and not os.path.lexists("/" + "/".join(self._names[:depth])):
            depth -= 1
        return self._folding.of("/" + "/".join(self._names[:depth]))

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
