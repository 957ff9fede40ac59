"""Types of request fields: names, and ids in paths and queries."""

import re
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, Field

from leasehold.documents.http.schemas import ID_PATTERN, MAX_ID

# Characters that show nothing and have no use in a name: fillers, blanks, tags, and marks of other notations.
BLANKS = (
    r"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
    "\U00013430-\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
# Those that change the character before or after them, and that some languages and pictures need. They show nothing alone.
JOINERS = (
    r"\u180b-\u180f\u200c\u200d\ufe00-\ufe0f"
    "\U000e0100-\U000e01ef"
)  # fmt: skip
# At least one visible character; no controls, and no marks that change the direction of the text after them.
_CONTROLS = r"\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069"
_UNSEEN = rf"\s\u00ad\u061c\u200b\u2060-\u206f\ufeff\ufff0-\ufffb{BLANKS}{JOINERS}"
_NAME = rf"^[^{_CONTROLS}]*[^{_CONTROLS}{_UNSEEN}][^{_CONTROLS}]*$"
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
