"""What people call things."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

# At least one character to be seen, and no controls, nor marks that turn the direction of what follows.
_UNSEEN = r"\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069"
_PATTERN = rf"^[^{_UNSEEN}]*[^\s{_UNSEEN}][^{_UNSEEN}]*$"

Name = Annotated[
    str, Field(min_length=1, max_length=200, pattern=_PATTERN, examples=["Atlas"]), AfterValidator(str.strip)
]
"""Of an application or a project, or a document's title: one line of text."""
