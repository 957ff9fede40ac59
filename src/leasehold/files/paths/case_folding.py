"""Finds out which names a directory treats as equal: by case, Unicode normal form, and trailing dots.

The file system is probed, never the name of the operating system: ext4 folds the case of single directories, macOS that
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
# Unicode's Default_Ignorable_Code_Point: file systems that fold case ignore them in comparisons.
_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Entries inspected for one whose case can be changed; more only cost time.
_MAX_INSPECTED = 64


@dataclass(frozen=True, slots=True)
class NameRules:
    """The rules by which a directory compares names. Normal forms never matter: see `key`."""

    folds_case: bool = False
    drops_dots: bool = False

    def key(self, name: str) -> str:
        """The same text for all names that the directory treats as equal.

        Always in NFC, also where the file system keeps two normal forms apart: people cannot tell them apart, and other
        machines that work on the same files treat them as equal. Never in NFKC: that would make ``²`` a ``2``. Where the
        rules of folding file systems differ (is ``ß`` equal to ``ss``?) names that any of them treats as equal have one
        key: one lock too few costs a wait, one too many costs the file.
        """
        if name.isascii():
            key = name.lower() if self.folds_case else name
        elif self.folds_case:
            folded = unicodedata.normalize("NFD", _IGNORABLE.sub("", name)).casefold()
            # Folding may undo the normal form, and composing the result may produce characters that fold again.
            key = unicodedata.normalize("NFC", unicodedata.normalize("NFD", folded).casefold())
        else:
            key = unicodedata.normalize("NFC", name)
        return (key.rstrip(". ") or key) if self.drops_dots else key


EXACT = NameRules()


class NameRulesSource(Protocol):
    """Finds the name rules of directories."""

    def rules_of(self, directory: str) -> NameRules:
        """The rules for names in the existing ``directory``."""
        ...


class FileSystemRules:
    """Probes the file systems of this machine. Caches whole volumes, but not directories with rules of their own."""

    def __init__(self) -> None:
        self._volumes: dict[int, NameRules] = {}

    def rules_of(self, directory: str) -> NameRules:
        """See `NameRulesSource`. Leaves no files behind; `EXACT` if it cannot find out."""
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
    """Look up a name on the volume in the other case: an entry of the directory, or the directory itself.

    Any name is evidence, because the rules are the same everywhere on a volume. So the result does not change when the
    first file appears in an empty directory; if it did, one file could have two locks.
    """
    for found, where in _find_names(directory, volume):
        with suppress(OSError):
            return _compare(found, where)
    return _probe_with_a_file(directory)


def _find_names(directory: str, volume: int) -> Iterator[tuple[str, str]]:
    with suppress(OSError), os.scandir(directory) as entries:
        for entry, _ in zip(entries, range(_MAX_INSPECTED), strict=False):
            if _has_two_cases(entry.name) and entry.stat(follow_symlinks=False).st_dev == volume:
                yield entry.name, directory
    while (parent := os.path.dirname(directory)) != directory:  # noqa: PTH120 - a text, asked often
        with suppress(OSError):
            if os.lstat(parent).st_dev != volume:
                return
            name = os.path.basename(directory)  # noqa: PTH119 - a text, asked often
            # A directory that folds by a flag of its own is no evidence about the volume.
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
    """True if ``other`` is the same directory entry, and not a hard link with that very name."""
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
    return other not in os.listdir(where)  # noqa: PTH208 - names only


def _probe_with_a_file(directory: str) -> NameRules:
    """For the root of a volume that is empty. If the process is killed here, an empty hidden file stays."""
    name = f".leasehold-Probe-{secrets.token_hex(8)}.tmp"
    path = f"{directory}/{name}"
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    except OSError:  # the directory is not writable
        return EXACT
    try:
        return _compare(name, directory)
    except OSError:
        return EXACT
    finally:
        with suppress(OSError):
            os.unlink(path)  # noqa: PTH108 - a text
