"""The files of the built web page."""

from __future__ import annotations

import gzip
import mimetypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_INDEX = "index.html"
_TEXT = ("text/", "application/javascript", "application/json", "image/svg")
# Below this the header costs more than the compression saves.
_WORTH_COMPRESSING = 1024
# The system's table may be missing or differ, and with nosniff the browser trusts only our header.
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file as it is sent. ``gzipped`` is None where compression does not pay."""

    body: bytes
    gzipped: bytes | None
    media_type: str
    is_hashed: bool
    """Its name changes with its content, so it can be cached forever."""


class PageFiles:
    """The files of the build at start; a later build needs a restart.

    A file is looked up by its whole name in a list. No part of a request becomes part of a path, so no spelling of
    ``..`` leads anywhere.
    """

    def __init__(self, directory: Path) -> None:
        files = {
            path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()
        }
        self._paths = {name: path for name, path in files.items() if not name.startswith(".")}
        index = self._paths.pop(_INDEX, None)
        self.index = None if index is None else index.read_text("utf-8")
        """The page; None if it was not built."""
        self._read: dict[str, PageFile] = {}

    def get(self, name: str) -> PageFile | None:
        """The file of that name, read and compressed on first use; None if it does not exist."""
        if name in self._read:
            return self._read[name]
        path = self._paths.get(name)
        if path is None or self.index is None:
            return None
        try:
            return self._read.setdefault(name, _file(path, is_hashed=name.startswith("assets/")))
        except FileNotFoundError:  # built again since we started
            return None


def _file(path: Path, *, is_hashed: bool) -> PageFile:
    body = path.read_bytes()
    media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    gzipped = None
    if len(body) >= _WORTH_COMPRESSING and media_type.startswith(_TEXT):
        gzipped = gzip.compress(body, mtime=0)
    return PageFile(body, gzipped, media_type, is_hashed)
