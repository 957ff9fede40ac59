"""Unified diffs of document contents."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.documents.ports import Content

_CONTEXT = 3
# Finding the smallest difference takes quadratic time, so longer contents get a coarse one.
_MAX_LINES = 1000
# Indentation makes a deeply nested content hundreds of times longer than it was sent.
_MAX_CHARACTERS = 4 * 1024 * 1024
# Lines of one character each take more memory than their characters.
_PER_LINE = 12
_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2, sort_keys=True)


def unified_diff(old: Content, new: Content) -> list[str] | None:
    """The lines of a unified diff without file names; empty for equal contents. JSON objects are compared indented.

    None if an indented content, or the diff, has more than 4 Mi characters; each line counts twelve more.
    """
    before, after = _lines(old), _lines(new)
    if before is None or after is None:
        return None
    if max(len(before), len(after)) > _MAX_LINES:
        diff = _from_first_to_last_change(before, after)
    else:
        diff = list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT))[2:]
    return diff if sum(map(len, diff)) + _PER_LINE * len(diff) <= _MAX_CHARACTERS else None


def _lines(content: Content) -> list[str] | None:
    if isinstance(content, str):
        return content.split("\n")
    pieces: list[str] = []
    left = _MAX_CHARACTERS
    for piece in _ENCODER.iterencode(content):
        pieces.append(piece)
        left -= len(piece) + (_PER_LINE if "\n" in piece else 0)
        if left < 0:
            return None
    return "".join(pieces).split("\n")


def _from_first_to_last_change(before: list[str], after: list[str]) -> list[str]:
    if before == after:
        return []
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    left = shorter - head
    tail = next((n for n in range(left) if before[-1 - n] != after[-1 - n]), left)
    start = max(0, head - _CONTEXT)
    end = max(0, tail - _CONTEXT)
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    return [
        f"@@ -{_range(start, len(before) - end)} +{_range(start, len(after) - end)} @@",
        *(f" {line}" for line in before[start:head]),
        *(f"-{line}" for line in removed),
        *(f"+{line}" for line in added),
        *(f" {line}" for line in before[len(before) - tail : len(before) - end]),
    ]


def _range(start: int, end: int) -> str:
    # Lines count from 1, but an empty range is named by the line before it.
    return f"{start + 1 if end > start else start},{end - start}"
