"""The built web page: files beside this module, which `make web` makes and the wheel contains."""

from __future__ import annotations

import gzip
import mimetypes
from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).parents[1] / "page"
"""Where a build is put, and looked for unless the settings say otherwise."""

_INDEX = "index.html"
_TEXT = ("text/", "application/javascript", "application/json", "image/svg")
# Below this the header costs more than the compression saves.
_WORTH_COMPRESSING = 1024
# Debian's table may be missing or say otherwise, and with nosniff a browser believes only what we say.
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".woff2": "font/woff2"}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file as it is sent. ``gzipped`` is None where that would not be smaller."""

    body: bytes
    gzipped: bytes | None
    media_type: str
    is_hashed: bool
    """Its name changes with its content, so it can be kept for ever."""


class PageFiles:
    """What was built, as it was when this was made: a build that comes later needs a restart.

    A file is found by its whole name in a list of those that there are. Nothing of a request ever becomes part of a path, so
    no spelling of ``..`` leads anywhere.
    """

    def __init__(self, directory: Path) -> None:
        files = {
            path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()
        }
        self._paths = {name: path for name, path in files.items() if not name.startswith(".")}
        index = self._paths.pop(_INDEX, None)
        self.index = None if index is None else index.read_text("utf-8")
        """The page itself; None if it was not built."""
        self._read: dict[str, PageFile] = {}

    def get(self, name: str) -> PageFile | None:
        """The file of that name, read and compressed when first asked for; None if there is none, or not any more."""
        if name in self._read:
            return self._read[name]
        path = self._paths.get(name)
        if path is None or self.index is None:
            return None
        try:
            return self._read.setdefault(name, _file(path, is_hashed=name.startswith("assets/")))
        except FileNotFoundError:  # built anew since we were started
            return None


def _file(path: Path, *, is_hashed: bool) -> PageFile:
    body = path.read_bytes()
    media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    gzipped = None
    if len(body) >= _WORTH_COMPRESSING and media_type.startswith(_TEXT):
        gzipped = gzip.compress(body, mtime=0)
    return PageFile(body, gzipped, media_type, is_hashed)
