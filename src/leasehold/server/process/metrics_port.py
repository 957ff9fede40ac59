"""The separate port for the metrics of all workers, served by the supervisor."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from leasehold.server.http.allowed_hosts import AllowedHosts
from leasehold.server.process.listener import bind

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from starlette.types import Receive, Scope, Send

    from leasehold.observe.prometheus import PrometheusExporter
    from leasehold.server.settings import Settings


@contextmanager
def metrics_directory(settings: Settings) -> Generator[str | None]:
    """The private directory where workers write metrics; None if metrics are off."""
    if not settings.has_metrics:
        yield None
        return
    with TemporaryDirectory(prefix="leasehold-metrics-", ignore_cleanup_errors=True) as directory:
        yield directory


@asynccontextmanager
async def serve_metrics(settings: Settings, directory: str | None) -> AsyncGenerator[str | None]:
    """Inside, serve ``/metrics`` on its own port if one is set; the address, or None.

    `InvalidRequest` if the port cannot be used.
    """
    if settings.metrics_port is None:
        yield None
        return
    # Not at the top, because most servers have no such port, and start faster without it.
    import uvicorn  # noqa: PLC0415 - see above
    from uvicorn.server import ServerState  # noqa: PLC0415 - see above

    from leasehold.observe.prometheus import PrometheusExporter  # noqa: PLC0415 - see above
    from leasehold.server.process.connection_limits import (  # noqa: PLC0415 - see above
        ConnectionCounter,
        ConnectionLimits,
    )
    from leasehold.server.process.http_protocol import HttpProtocol  # noqa: PLC0415 - see above

    token = settings.metrics_token.get_secret_value() if settings.metrics_token else None
    # Without a token a page of another site must not read them under a name of its own.
    is_any_host = token is not None or "*" in settings.allowed_hosts
    app = MetricsApp(
        PrometheusExporter(directory=directory, token=token),
        AllowedHosts(None if is_any_host else settings.allowed_hosts),
    )
    listener = bind(settings.metrics_host, settings.metrics_port, flag="LEASEHOLD_METRICS_PORT")
    config = uvicorn.Config(
        app, lifespan="off", ws="none", log_config=None, access_log=False, proxy_headers=False
    )
    config.load()
    limits = ConnectionLimits(connections=32, connections_per_address=8, seconds=5, head_bytes=8192)
    state = ServerState()
    make = partial(HttpProtocol, config, state, {}, limits=limits, counter=ConnectionCounter(limits))
    server = await asyncio.get_running_loop().create_server(make, sock=listener)
    host = f"[{settings.metrics_host}]" if ":" in settings.metrics_host else settings.metrics_host
    try:
        yield f"http://{host}:{listener.getsockname()[1]}/metrics"
    finally:
        server.close()
        for connection in tuple(state.connections):
            connection.transport.abort()


class MetricsApp:
    """An ASGI application with one path."""

    def __init__(self, exposition: PrometheusExporter, hosts: AllowedHosts) -> None:
        self._exposition = exposition
        self._hosts = hosts
        self._rendering = asyncio.Lock()

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """See ASGI."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        status, body, extra = await self._answer(scope, headers)
        length = (b"content-length", str(len(body)).encode())
        start: dict[str, Any] = {"status": status, "headers": [*extra, length, (b"connection", b"close")]}
        await send({"type": "http.response.start"} | start)
        await send({"type": "http.response.body", "body": body})

    async def _answer(
        self, scope: Scope, headers: dict[bytes, bytes]
    ) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
        from leasehold.observe.prometheus import CONTENT_TYPE_LATEST  # noqa: PLC0415 - loaded already by `serve_metrics`

        if not self._hosts.allows(headers.get(b"host")):
            return 421, b"this server does not have this name\n", []
        if scope["method"] != "GET":
            return 501, b"only GET is supported\n", []
        if scope["path"] != "/metrics":
            return 404, b"not found\n", []
        if not self._exposition.is_authorized(headers.get(b"authorization", b"").decode("latin-1")):
            return 401, b"a token is required\n", [(b"www-authenticate", b"Bearer")]
        async with self._rendering:
            # In a thread, because it reads files; in one at a time, because requests are cheaper than this.
            body = await asyncio.to_thread(self._exposition.render)
        return 200, body, [(b"content-type", CONTENT_TYPE_LATEST.encode())]
