"""Prometheus metrics of the server itself, and who may read them all."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.responses import Response

from leasehold.errors import NotSignedIn
from leasehold.observe.prometheus import CONTENT_TYPE_LATEST, PrometheusExporter

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from leasehold.documents.live.hub import Hub

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_LOOK_EVERY = 1.0


class ServerMetrics:
    """The metrics of one worker. Labels are routes as they are written here, never the paths that people ask for."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route")
        self._requests = Counter(
            "leasehold_http_requests_total", "Answers.", (*labels, "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "leasehold_http_request_seconds",
            "From the request to the end of its answer.",
            labels,
            registry=self.registry,
            buckets=_BUCKETS,
        )
        self._sockets = self._gauge("leasehold_sockets", "Sockets that are open.")
        self._rooms = self._gauge("leasehold_rooms", "Documents that are watched, counted by each worker.")

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """One request has been answered."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    @asynccontextmanager
    async def watching(self, hub: Hub) -> AsyncGenerator[None]:
        """Inside, look once a second at who is connected: the busiest places of a worker need not count."""
        looking = asyncio.create_task(self._keep_looking(hub))
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def _keep_looking(self, hub: Hub) -> None:
        while True:
            self._sockets.set(len(hub.presence.connecting) + len(hub.presence.of(None)))
            self._rooms.set(hub.watched)
            await asyncio.sleep(_LOOK_EVERY)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, registry=self.registry, multiprocess_mode="livesum")


def metrics_router(exposition: PrometheusExporter) -> APIRouter:
    """``/metrics``, for those who have the token."""
    router = APIRouter(include_in_schema=False)

    @router.get("/metrics")
    async def metrics(authorization: Annotated[str | None, Header()] = None) -> Response:
        if not exposition.is_authorized(authorization):
            raise NotSignedIn("this needs the token of the metrics: Authorization: Bearer …")
        # In a thread: there may be files to read.
        text = await asyncio.to_thread(exposition.render)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return router
