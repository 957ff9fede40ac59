"""Exports metrics to Prometheus: of this process, or of several that write to one directory."""

from __future__ import annotations

import hmac
import os
from typing import TYPE_CHECKING

from leasehold.extras import requires_extra

with requires_extra(__name__, "observe"):
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, multiprocess

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["CONTENT_TYPE_LATEST", "SHARED_DIRECTORY", "PrometheusExporter", "forget_process"]

SHARED_DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that makes prometheus-client write to a directory. It must be set before its first import."""


class PrometheusExporter:
    """Renders the metrics of ``registry``, or those of all processes that write to ``directory``.

    Without a ``token`` every request is authorized.
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
            # A separate registry, because the metrics of this process are in the directory as well.
            self._registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(self._registry, path=str(directory))

    def is_authorized(self, authorization: str | None) -> bool:
        """Whether the ``Authorization`` header has the token. Compared in constant time."""
        if self._token is None:
            return True
        return hmac.compare_digest((authorization or "").encode("utf-8", "replace"), self._token)

    def render(self) -> bytes:
        """The current metrics in Prometheus' text format. Reads files if there are several processes."""
        return generate_latest(self._registry)


def forget_process(pid: int, directory: Path | str) -> None:
    """Drop the gauges of a process that has ended; its counters still count."""
    multiprocess.mark_process_dead(pid, str(directory))  # pyright: ignore[reportUnknownMemberType] - it has no types
