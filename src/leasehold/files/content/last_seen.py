"""Hashes of the contents that a session has last seen, so that it overwrites nothing that it has not seen."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.files.paths.identity import FileId


class LastSeen:
    """The SHA-256 of the last contents seen, for each file and not for each lock.

    Names that differ in their normal form only, or in a project in case only, share a lock and may be two files. Only
    then the file system is asked.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, dict[str, str]] = {}

    def record(self, file: FileId, sha256: str) -> None:
        """Record the contents that the file has now."""
        known = self._hashes.setdefault(file.sha256, {})
        for path in [path for path in list(known) if _is_same_file(path, file.absolute)]:
            known.pop(path, None)
        known[file.absolute] = sha256

    def get(self, file: FileId) -> str | None:
        """The hash that was last seen of the file, under any spelling; None if none was."""
        known = self._hashes.get(file.sha256, {})
        if file.absolute in known:
            return known[file.absolute]
        return next(
            (sha256 for path, sha256 in list(known.items()) if _is_same_file(path, file.absolute)), None
        )


def _is_same_file(path: str, other: str) -> bool:
    """True if two names of one lock mean one file, also if neither exists."""
    if path == other:
        return True
    first, second = _lstat(path), _lstat(other)
    if first is None or second is None:
        return first is second
    return os.path.samestat(first, second)


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
