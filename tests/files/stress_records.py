"""Journals of the stress processes, line by line, and files whose contents prove their history.

A line is written in one `write`, so a SIGKILL leaves whole lines. Times are of one clock for all processes of the
machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from leasehold.runtime import clock

if TYPE_CHECKING:
    from pathlib import Path

# Long enough that a reader meets a writer in the middle, if nothing keeps them apart.
LINES = 2_000


class Journal:
    """The history of one life of a session: ``session``, ``life``, ``at``, ``event``, and what belongs to it."""

    def __init__(self, directory: Path, session: str, life: int) -> None:
        self._who = {"session": session, "life": life}
        self._file = os.open(
            directory / f"{session}.{life}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )

    def note(self, event: str, **fields: Any) -> None:
        line = {**self._who, "at": clock.now(), "event": event, **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")


def read_journals(directory: Path, pattern: str = "*.jsonl") -> list[dict[str, Any]]:
    """All lines of all lives, in the order of their times."""
    lines = [
        json.loads(line)
        for journal in sorted(directory.glob(pattern))
        for line in journal.read_bytes().splitlines()
    ]
    return sorted(lines, key=lambda line: line["at"])


def compose(author: str, number: int) -> bytes:
    """Contents of a file that tell whether they are whole. ``author`` and ``number`` make them unlike any others."""
    line = f"{author} {number}\n".encode()
    body = line * LINES
    return body + hashlib.sha256(body).hexdigest().encode()


def is_whole(data: bytes) -> bool:
    """True if this is the complete output of `compose`."""
    body, digest = data[:-64], data[-64:]
    return hashlib.sha256(body).hexdigest().encode() == digest
