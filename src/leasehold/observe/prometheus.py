"""Metrics as Prometheus reads them: of this process, or of several that write to one directory."""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING

from leasehold.extras import requires_extra

with requires_extra(__name__, "observe"):
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, multiprocess

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CONTENT_TYPE_LATEST", "SHARED_DIRECTORY", "Exposition", "forget_process"]

SHARED_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that tells prometheus-client to write to a directory. It must be set before its first import."""


class Exposition:
    """What a scrape gets: the metrics of ``registry``, or those of all processes that write to ``directory``.

    Without a ``token`` everybody gets it.
    """

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        directory: Path | str | None = None,
        token: str | None = None,
    ) -> None:
        self._token = None if token is None else f"Bearer {token}".encode()
        self._registry = registry or CollectorRegistry()
        directory = directory or os.environ.get(SHARED_DIRECTORY)
        if directory:
            # A registry of its own: what this process has in memory is in the directory as well.
            self._registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(self._registry, path=str(directory))

    def admits(self, authorization: str | None) -> bool:
        """Whether the header of that name lets one in. Compared in constant time."""
        if self._token is None:
            return True
        return hmac.compare_digest((authorization or "").encode("utf-8", "replace"), self._token)

    def text(self) -> bytes:
        """What is true now. Reads files where there are several processes."""
        return generate_latest(self._registry)


def forget_process(pid: int, directory: Path | str) -> None:
    """A process is no more: its gauges do not count any longer, its counters do."""
    multiprocess.mark_process_dead(pid, str(directory))  # pyright: ignore[reportUnknownMemberType] - it has no types
