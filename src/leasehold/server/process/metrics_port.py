"""The separate port for the metrics of all workers, served by the supervisor."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from leasehold.server.process.listener import bind

if TYPE_CHECKING:
    import socket
    from collections.abc import Generator

    from leasehold.observe.prometheus import PrometheusExporter
    from leasehold.server.settings import Settings

# A slower client would occupy a thread.
_TIMEOUT = 5.0


@contextmanager
def metrics_directory(settings: Settings) -> Generator[str | None]:
    """The private directory where workers write metrics; None if metrics are off."""
    if not settings.has_metrics:
        yield None
        return
    with TemporaryDirectory(prefix="leasehold-metrics-", ignore_cleanup_errors=True) as directory:
        yield directory


@contextmanager
def serve_metrics(settings: Settings, directory: str | None) -> Generator[str | None]:
    """Inside, serve ``/metrics`` on its own port if one is set; the address, or None.

    `InvalidRequest` if the port cannot be used.
    """
    if settings.metrics_port is None:
        yield None
        return
    # Not at the top, because most servers have no such port, and start faster without it.
    from leasehold.observe.prometheus import PrometheusExporter  # noqa: PLC0415 - see above

    token = settings.metrics_token.get_secret_value() if settings.metrics_token else None
    listener = bind(settings.metrics_host, settings.metrics_port, flag="LEASEHOLD_METRICS_PORT")
    server = _Server(listener, PrometheusExporter(directory=directory, token=token))
    thread = threading.Thread(target=server.serve_forever, args=(0.1,), name="metrics", daemon=True)
    thread.start()
    host = f"[{settings.metrics_host}]" if ":" in settings.metrics_host else settings.metrics_host
    try:
        yield f"http://{host}:{listener.getsockname()[1]}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(_TIMEOUT)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, exposition: PrometheusExporter) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.exposition = exposition

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - made by it alone
    timeout = _TIMEOUT
    server_version = "leasehold"
    sys_version = ""

    def do_GET(self) -> None:
        from leasehold.observe.prometheus import CONTENT_TYPE_LATEST  # noqa: PLC0415 - loaded already by `serve_metrics`

        if self.path.partition("?")[0] != "/metrics":
            self._respond(404, b"not found\n")
        elif not self.server.exposition.is_authorized(self.headers.get("authorization")):
            self._respond(401, b"a token is required\n", ("WWW-Authenticate", "Bearer"))
        else:
            self._respond(200, self.server.exposition.render(), ("Content-Type", CONTENT_TYPE_LATEST))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
        """Scrapes are not logged."""

    def _respond(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body))), ("Connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
