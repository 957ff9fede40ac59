"""A port of its own for the metrics of all workers, kept by the process that watches over them."""

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

# Whoever does not finish a request in this time holds a thread for nothing.
_PATIENCE = 5.0


@contextmanager
def metrics_directory(settings: Settings) -> Generator[str | None]:
    """Where the workers write their metrics, for this user alone; None if nobody may read them."""
    if not settings.has_metrics:
        yield None
        return
    with TemporaryDirectory(prefix="leasehold-metrics-", ignore_cleanup_errors=True) as directory:
        yield directory


@contextmanager
def metrics_served(settings: Settings, directory: str | None) -> Generator[str | None]:
    """Inside, ``/metrics`` is served on the port that the settings name; its address, or None if they name none.

    `InvalidRequest` if it cannot be listened on.
    """
    if settings.metrics_port is None:
        yield None
        return
    # Not at the top: most servers have no such port, and start faster without.
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
        thread.join(_PATIENCE)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listener: socket.socket, exposition: PrometheusExporter) -> None:
        super().__init__(listener.getsockname()[:2], _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.exposition = exposition

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever hangs up in the middle has what they wanted."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - made by it alone
    timeout = _PATIENCE
    server_version = "leasehold"
    sys_version = ""

    def do_GET(self) -> None:
        from leasehold.observe.prometheus import CONTENT_TYPE_LATEST  # noqa: PLC0415 - imported already by who serves

        if self.path.partition("?")[0] != "/metrics":
            self._answer(404, b"not found\n")
        elif not self.server.exposition.is_authorized(self.headers.get("authorization")):
            self._answer(401, b"this needs a token\n", ("WWW-Authenticate", "Bearer"))
        else:
            self._answer(200, self.server.exposition.render(), ("Content-Type", CONTENT_TYPE_LATEST))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
        """Scrapes are no news."""

    def _answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body))), ("Connection", "close")):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
