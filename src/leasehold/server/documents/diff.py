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


def unified_diff(old: Content, new: Content) -> list[str]:
    """The lines of a unified diff without file names; empty for equal contents. JSON objects are compared indented."""
    before, after = _lines(old), _lines(new)
    if max(len(before), len(after)) > _MAX_LINES:
        return _from_first_to_last_change(before, after)
    return list(difflib.unified_diff(before, after, lineterm="", n=_CONTEXT))[2:]


def _lines(content: Content) -> list[str]:
    if isinstance(content, str):
        return content.split("\n")
    return json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True).split("\n")


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
