"""Ids in requests: whatever is not spelled as ours are is nobody's, and never gets as far as the database."""

from __future__ import annotations

import re

_SPELLING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_id(text: str) -> bool:
    """Whether something could have this id. Other spellings of the same UUID could not."""
    return _SPELLING.fullmatch(text) is not None
