"""One worker process: ``python -m leasehold.server.process.worker CONTROL LISTENER``, both as file descriptors.

Through CONTROL it receives its settings and reports that it serves, or why it cannot. When CONTROL is closed, on
purpose or because the parent was killed, the worker ends.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until the application is built: nothing of that is garbage, and collecting takes a tenth of the start

import asyncio
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, cast

import uvicorn

from leasehold.documents.uvicorn import SocketProtocol
from leasehold.errors import LeaseholdError
from leasehold.server.app.app import create_app
from leasehold.server.http.logs import configure_logs
from leasehold.server.process.connection_limits import ConnectionCounter, ConnectionLimits
from leasehold.server.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI

_log = logging.getLogger("leasehold.server")

# A little more than the application accepts, so that the application refuses.
_MAX_SOCKET_MESSAGE = 96 * 1024
# For closing the resources after the last request.
_CLOSING_SECONDS = 3


class ReportingServer(uvicorn.Server):
    """Calls ``on_started`` when it accepts connections."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets=sockets)
        self._on_started()


def configure(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """The configuration of uvicorn."""
    # Here, so that a broken httptools is reported to the parent.
    from leasehold.server.process.http_protocol import HttpProtocol  # noqa: PLC0415 - see above

    limits = ConnectionLimits.of(settings)
    counter = ConnectionCounter(limits, trusted_proxies=settings.trusted_proxies)

    class Sockets(SocketProtocol):
        # More than messages, which the application counts.
        frames_per_second = max(SocketProtocol.frames_per_second, 2 * settings.max_messages_per_second)
        frame_burst = max(SocketProtocol.frame_burst, round(20 * settings.max_messages_per_second))

    return uvicorn.Config(
        app,
        loop="uvloop",
        http=cast("type[asyncio.Protocol]", partial(HttpProtocol, limits=limits, counter=counter)),
        ws=Sockets,
        # 65 KiB for each socket, and up to 130, instead of 31.
        ws_per_message_deflate=False,
        ws_max_size=_MAX_SOCKET_MESSAGE,
        lifespan="off",  # see `_serve`
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=math.ceil(settings.shutdown_seconds),
    )


async def _serve(settings: Settings, listener: socket.socket, control: Connection) -> int:
    try:
        app = create_app(settings)
        gc.freeze()
        gc.enable()
        server = ReportingServer(configure(app, settings), on_started=lambda: _report(control, None))
        threading.Thread(target=_follow_parent, args=(control, server, settings), daemon=True).start()
        # Not left to uvicorn, which would log a traceback instead of a sentence, and hide the reason.
        async with app.router.lifespan_context(app):
            await server.serve(sockets=[listener])
    except LeaseholdError as error:
        _report(control, error)
    except Exception as error:  # noqa: BLE001 - the parent reports every error
        _log.exception("a worker failed")
        _report(control, LeaseholdError(f"a worker cannot start: {type(error).__name__}: {error}"))
    else:
        return 0
    return 1


def _report(control: Connection, news: LeaseholdError | None) -> None:
    """That it serves (None), or why it cannot; only the first word counts."""
    with suppress(OSError):  # the parent has ended
        control.send(news)


def _follow_parent(control: Connection, server: ReportingServer, settings: Settings) -> None:
    with suppress(EOFError, OSError):
        control.recv()
    server.should_exit = True
    time.sleep(settings.shutdown_seconds + _CLOSING_SECONDS)
    os._exit(1)  # something hangs, and there may be no other process to end it


def main(control_fd: int, listener_fd: int) -> int:
    """Serve until stopped; the exit code."""
    # Ctrl-C is for the parent, which stops this process. uvicorn handles both signals while it serves, and raises them
    # again afterwards, before the resources are closed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _ignore)
    with Connection(control_fd) as control:
        try:
            settings = control.recv()
        except EOFError:  # the parent has ended
            return 1
        assert isinstance(settings, Settings)
        configure_logs(settings)
        with (
            socket.socket(fileno=listener_fd) as listener,
            asyncio.Runner(loop_factory=_new_loop) as runner,
        ):
            listener.setblocking(False)
            return runner.run(_serve(settings, listener, control))


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop  # noqa: PLC0415 - the import fails where it is not installed

    return uvloop.new_event_loop()


def _ignore(*_: object) -> None: ...


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
