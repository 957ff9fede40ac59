"""Starts a Valkey for one run."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from leasehold.valkey.embedded import ensure_running

if TYPE_CHECKING:
    from pathlib import Path


def embedded(directory: Path) -> str:
    """The URL of a new server, which ends by itself two seconds after its last client has disconnected."""
    return f"unix://{quote(str(ensure_running(directory)))}"
