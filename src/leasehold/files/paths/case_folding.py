"""Which names a directory takes for the same: by case, by Unicode normal form, by dots at the end.

Asked of the file system, never of the operating system's name: ext4 folds the case of single directories, macOS that
of most volumes, and a Linux machine may have a Windows disk mounted.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import struct
import sys
import unicodedata
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

# From <linux/fs.h>: the flags of an inode, and the one that says that a directory folds case.
_GETFLAGS = 0x80086601
_CASEFOLD = 0x40000000
# From <sys/unistd.h> of macOS; Python does not name it.
_PC_CASE_SENSITIVE = 11
# Unicode's Default_Ignorable_Code_Point: file systems that fold case leave them out of what they compare.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Entries looked at for one whose case can be changed; more only cost time.
_LOOKED_AT = 64


@dataclass(frozen=True, slots=True)
class NameRules:
    """How a directory compares names. Normal forms never matter: see `key`."""

    folds_case: bool = False
    drops_dots: bool = False

    def key(self, name: str) -> str:
        """The same text for all names that the directory takes for the same.

        Always in NFC, also where the file system keeps two normal forms apart: they look alike to everybody, and
        other machines that work on the same files do not keep them apart. Never in NFKC: that would make ``²`` a
        ``2``. Where the rules of folding file systems differ (is ``ß`` the same as ``ss``?) names that any of them
        takes for the same have one key: one lock too few costs a wait, one too many costs the file.
        """
        if name.isascii():
            key = name.lower() if self.folds_case else name
        elif self.folds_case:
            folded = unicodedata.normalize("NFD", _IGNORABLE.sub("", name)).casefold()
            # Folding may undo the normal form, and composing what was folded may bring back what folds.
            key = unicodedata.normalize("NFC", unicodedata.normalize("NFD", folded).casefold())
        else:
            key = unicodedata.normalize("NFC", name)
        return (key.rstrip(". ") or key) if self.drops_dots else key


EXACT = NameRules()


class NameRulesSource(Protocol):
    """How directories compare names."""

    def of(self, directory: str) -> NameRules:
        """How the existing ``directory`` compares the names of what is in it."""
        ...


class FileSystemRules:
    """What the file systems of this machine do. Remembers whole volumes; directories of their own rule are asked."""

    def __init__(self) -> None:
        self._volumes: dict[int, NameRules] = {}

    def of(self, directory: str) -> NameRules:
        """See `NameRulesSource`. Leaves nothing behind, and answers as if case mattered if it cannot find out."""
        if sys.platform == "darwin":
            with suppress(OSError):
                return NameRules(folds_case=os.pathconf(directory, _PC_CASE_SENSITIVE) == 0)
        elif _has_casefold_flag(directory):
            return NameRules(folds_case=True)
        try:
            volume = os.lstat(directory).st_dev
        except OSError:
            return EXACT
        if volume not in self._volumes:
            self._volumes[volume] = _probe_volume(directory, volume)
        return self._volumes[volume]


def _has_casefold_flag(directory: str) -> bool:
    if sys.platform != "linux":
        return False
    import fcntl  # noqa: PLC0415 - Windows has none

    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        flags = fcntl.ioctl(opened, _GETFLAGS, struct.pack("@l", 0))
    except OSError:  # a file system without such flags
        return False
    finally:
        os.close(opened)
    return bool(struct.unpack("@I", flags[:4])[0] & _CASEFOLD)


def _probe_volume(directory: str, volume: int) -> NameRules:
    """Ask for a name of the volume in the other case: something in the directory, or the directory itself.

    Any evidence will do, because it is the same everywhere on a volume. So the answer does not change when the
    first file appears in an empty directory; if it did, one file could have two locks.
    """
    for found, where in _evidence(directory, volume):
        with suppress(OSError):
            return _compare(found, where)
    return _probe_with_a_file(directory)


def _evidence(directory: str, volume: int) -> Iterator[tuple[str, str]]:
    with suppress(OSError), os.scandir(directory) as entries:
        for entry, _ in zip(entries, range(_LOOKED_AT), strict=False):
            if _has_two_cases(entry.name) and entry.stat(follow_symlinks=False).st_dev == volume:
                yield entry.name, directory
    while (parent := os.path.dirname(directory)) != directory:  # noqa: PTH120 - a text, asked often
        with suppress(OSError):
            if os.lstat(parent).st_dev != volume:
                return
            name = os.path.basename(directory)  # noqa: PTH119 - a text, asked often
            # One that folds by a rule of its own says nothing about the volume.
            if _has_two_cases(name) and not _has_casefold_flag(parent):
                yield name, parent
        directory = parent


def _has_two_cases(name: str) -> bool:
    return name.isascii() and name.swapcase() != name


def _compare(name: str, where: str) -> NameRules:
    original = os.lstat(f"{where}/{name}")
    if not _is_alias(original, where, name.swapcase()):
        return EXACT
    return NameRules(folds_case=True, drops_dots=_is_alias(original, where, name + "."))


def _is_alias(original: os.stat_result, where: str, other: str) -> bool:
    """Whether ``other`` is the same directory entry, and not a hard link with that very name."""
    try:
        found = os.lstat(f"{where}/{other}")
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.EINVAL, errno.ENAMETOOLONG}:
            return False
        raise
    if not os.path.samestat(original, found):
        return False
    if stat.S_ISDIR(found.st_mode) or found.st_nlink == 1:
        return True
    return other not in os.listdir(where)  # noqa: PTH208 - names are all that is asked for


def _probe_with_a_file(directory: str) -> NameRules:
    """For the root of a volume that has nothing in it yet. Killed right here it leaves an empty hidden file."""
    name = f".leasehold-Probe-{secrets.token_hex(8)}.tmp"
    path = f"{directory}/{name}"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:  # nobody here can create anything, or at least we cannot
        return EXACT
    try:
        return _compare(name, directory)
    except OSError:
        return EXACT
    finally:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - a text
