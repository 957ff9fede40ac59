"""What a session has last seen of each file, so that it overwrites nothing that it does not know."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.files.paths.identity import FileId


class LastSeen:
    """The SHA-256 of what was seen, for each file and not for each lock.

    Names that differ in their normal form only, or in a project in case only, share a lock and may be two files. Only then is
    the file system asked.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, dict[str, str]] = {}

    def note(self, file: FileId, sha256: str) -> None:
        """Remember what is in the file now."""
        known = self._hashes.setdefault(file.sha256, {})
        for path in [path for path in list(known) if _is_one(path, file.absolute)]:
            known.pop(path, None)
        known[file.absolute] = sha256

    def of(self, file: FileId) -> str | None:
        """What was last seen of the file, under whichever spelling; None if nothing."""
        known = self._hashes.get(file.sha256, {})
        if file.absolute in known:
            return known[file.absolute]
        return next((sha256 for path, sha256 in list(known.items()) if _is_one(path, file.absolute)), None)

    def clear(self) -> None:
        """Forget everything."""
        self._hashes.clear()


def _is_one(path: str, other: str) -> bool:
    """Whether two names of one lock mean one file. If neither is there, nothing speaks against it."""
    if path == other:
        return True
    first, second = _look_at(path), _look_at(other)
    if first is None or second is None:
        return first is second
    return os.path.samestat(first, second)


def _look_at(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
