"""Content as it is kept: JSON in one spelling, so that equal contents are equal texts."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any, cast

from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from leasehold.documents.ports import Content

MAX_DEPTH = 200
"""Containers inside containers. Whoever reads JSON gives up somewhere above this."""


def encode_content(content: Content) -> str:
    """The one spelling of ``content``, whatever the order of its keys.

    Raises `InvalidRequest` for what could be kept but not sent again: NaN and infinity, halves of characters,
    more than `MAX_DEPTH` levels.
    """
    _check(content)
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("content must be valid Unicode: it has half of a surrogate pair") from None
    return text


def check_size(content: Content, *, at_most: int) -> int:
    """How many bytes it takes; `InvalidRequest` if that is more than allowed."""
    size = len((content if isinstance(content, str) else encode_content(content)).encode(errors="replace"))
    if size > at_most:
        raise InvalidRequest(f"content may take {at_most} bytes, not {size}")
    return size


def decode_content(text: str) -> Content:
    """What was encoded."""
    return json.loads(text)


def hash_of(encoded: str) -> str:
    """The SHA-256 of encoded content, in hexadecimal."""
    return hashlib.sha256(encoded.encode()).hexdigest()


def _check(content: Content) -> None:
    pending: list[tuple[Any, int]] = [(content, 1)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidRequest("content must not contain NaN or infinity")
        if not isinstance(value, dict | list):
            continue
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"content must not be nested deeper than {MAX_DEPTH} levels")
        container = cast("dict[str, Any] | list[Any]", value)
        inside = container.values() if isinstance(container, dict) else container
        pending += [(each, depth + 1) for each in inside]
