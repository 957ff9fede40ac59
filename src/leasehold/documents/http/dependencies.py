"""What a tab calls itself never leaves the edge: inside there is only its digest."""

from __future__ import annotations

import hashlib

MAX_LENGTH = 128
PATTERN = r"^[\x20-\x7e]*$"
"""Printable ASCII."""


def digest_of(tab: str | None) -> str:
    """What stands for the tab everywhere; empty for the nameless one."""
    return hashlib.sha256(tab.encode()).hexdigest()[:32] if tab else ""
