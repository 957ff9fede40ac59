"""Document content as canonical JSON, so that equal contents are equal texts."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from leasehold.documents.ports import Content

MAX_DEPTH = 200
"""Levels of nesting. JSON readers give up somewhere above this."""


def encode_content(content: Content) -> str:
    """Canonical JSON of ``content``, independent of the order of its keys.

    Raises `InvalidRequest` for what could be stored but not sent again: NaN and infinity, unpaired surrogates, and
    more than `MAX_DEPTH` levels.
    """
    _check_depth(content)
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    except ValueError:
        raise InvalidRequest("content must not contain NaN or infinity") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("content contains an unpaired surrogate") from None
    return text


def check_size(content: Content, *, at_most: int) -> int:
    """The size in bytes; `InvalidRequest` above ``at_most``."""
    size = len((content if isinstance(content, str) else encode_content(content)).encode(errors="replace"))
    if size > at_most:
        raise InvalidRequest(f"content has {size} bytes, and at most {at_most} are allowed")
    return size


def decode_content(text: str) -> Content:
    """Reverse `encode_content`."""
    return json.loads(text)


def hash_of(encoded: str) -> str:
    """The SHA-256 of encoded content in hexadecimal."""
    return hashlib.sha256(encoded.encode()).hexdigest()


def _check_depth(content: Content) -> None:
    # By levels, because the event loop waits for this: one entry per value takes seconds for a large content.
    containers: list[dict[str, Any] | list[Any]] = [] if isinstance(content, str) else [content]
    for _ in range(MAX_DEPTH):
        values = [
            value
            for container in containers
            for value in (container.values() if isinstance(container, dict) else container)
        ]
        containers = [value for value in values if isinstance(value, dict | list)]
        if not containers:
            return
    raise InvalidRequest(f"content must not be nested deeper than {MAX_DEPTH} levels")
