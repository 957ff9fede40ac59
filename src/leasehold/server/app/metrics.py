"""Prometheus metrics of the server, and the route to read them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Annotated

from fastapi import APIRouter, Header
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.responses import Response

from leasehold.documents.http.dependencies import declare_permission
from leasehold.documents.live.hub import Hub
from leasehold.errors import NotSignedIn
from leasehold.observe.prometheus import CONTENT_TYPE_LATEST, PrometheusExporter

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_SAMPLE_SECONDS = 1.0


class ServerMetrics:
    """The metrics of one worker. Labels are route templates, never requested paths."""

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
        """Count one request with its response."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(known, route).observe(seconds)

    @asynccontextmanager
    async def sample(self, hub: Hub) -> AsyncGenerator[None]:
        """Inside, sample the open sockets once a second, so that the busiest code of a worker need not count."""
        sampling = asyncio.create_task(self._keep_sampling(hub))
        try:
            yield
        finally:
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling

    async def _keep_sampling(self, hub: Hub) -> None:
        while True:
            self._sockets.set(len(hub.presence.connecting) + len(hub.presence.of(None)))
            self._rooms.set(hub.watched)
            await asyncio.sleep(_SAMPLE_SECONDS)

    def _gauge(self, name: str, about: str) -> Gauge:
        return Gauge(name, about, registry=self.registry, multiprocess_mode="livesum")


def metrics_router(exposition: PrometheusExporter) -> APIRouter:
    """``/metrics``, for callers with the token."""
    router = APIRouter(include_in_schema=False)

    async def check_token(authorization: Annotated[str | None, Header()] = None) -> None:
        if not exposition.is_authorized(authorization):
            raise NotSignedIn("the metrics token is required: Authorization: Bearer …")

    @router.get("/metrics", dependencies=[declare_permission("metrics token", check_token)])
    async def metrics() -> Response:
        # In a thread, because there may be files to read.
        text = await asyncio.to_thread(exposition.render)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return router
