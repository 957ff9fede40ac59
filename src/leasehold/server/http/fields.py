"""Types of request fields: names, and ids in paths and queries."""

import re
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, Field

from leasehold.documents.http.schemas import ID_PATTERN, MAX_ID

# At least one visible character; no controls, and no marks that change the direction of the text after them.
_INVISIBLE = r"\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069"
_NAME = rf"^[^{_INVISIBLE}]*[^\s{_INVISIBLE}][^{_INVISIBLE}]*$"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Name = Annotated[
    str, Field(min_length=1, max_length=200, pattern=_NAME, examples=["Atlas"]), AfterValidator(str.strip)
]
"""The name of an application or a project, or a document's title: one line of text."""

# No stricter than this: an id that is not a UUID is answered with 404, not with 422.
PathId = Annotated[str, Path(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN)]
"""``async def endpoint(document_id: PathId)``."""
QueryId = Annotated[str | None, Query(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN)]
"""``async def endpoint(document_id: QueryId = None)``."""


def is_id(text: str) -> bool:
    """True for a UUID as we write it. The database is not asked for anything else."""
    return _UUID.fullmatch(text) is not None
