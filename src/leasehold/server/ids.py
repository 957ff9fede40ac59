"""Ids in requests: whatever is not spelled as ours are is nobody's, and never gets as far as the database."""

import re
from typing import Annotated

from fastapi import Path, Query

from leasehold.documents.http.schemas import ID_PATTERN, MAX_ID

_SPELLING = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# No stricter: whoever asks for something that could not be ours is told that there is no such thing.
PathId = Annotated[str, Path(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN)]
"""``async def endpoint(document_id: PathId)``."""
QueryId = Annotated[str | None, Query(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN)]
"""``async def endpoint(document_id: QueryId = None)``."""


def is_id(text: str) -> bool:
    """Whether something could have this id. Other spellings of the same UUID could not."""
    return _SPELLING.fullmatch(text) is not None
