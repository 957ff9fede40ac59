"""The valkey-server process: its settings, start and shutdown."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from time import monotonic
from typing import TYPE_CHECKING

from leasehold.valkey.embedded.probe import NotReadyError, ProbeClient, connect

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from leasehold.valkey.embedded.data_dir import DataDir
    from leasehold.valkey.embedded.stop_signal import StopSignal

TO_LISTEN = 30.0
"""Seconds from start to a listening socket. Loading data afterwards has no limit."""

TO_END = 3.0
"""Seconds for each request to shut down, before the next, more forceful one."""


class ServerEndedError(Exception):
    """The server process has ended."""


class Server:
    """A valkey-server as a child process."""

    def __init__(self, home: DataDir, *, binary: Path, socket: Path, lock: int) -> None:
        """Start it; ``OSError`` with the binary's name if this machine cannot run it."""
        self._socket = socket
        # Relative if possible, so that no special character in the path of the data directory has to be quoted.
        listen = socket.name if socket.parent == home.root else str(socket)
        self._process = subprocess.Popen(  # noqa: S603 - our own binary and settings
            [str(binary), *_settings(listen=listen, log=home.log.name)],
            cwd=home.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            # The lock stays held while the server runs, even if the supervisor is killed: two servers must never
            # append to one file.
            pass_fds=(lock,),
            preexec_fn=_end_with_parent(),  # noqa: PLW1509 - the supervisor has no other threads
        )

    def connect(self, stop: StopSignal) -> ProbeClient:
        """A client, once the server answers; ``ServerEndedError`` if it ends before that."""
        stuck_at = monotonic() + TO_LISTEN
        while True:
            if (status := self._process.poll()) is not None:
                raise ServerEndedError(f"valkey-server ended with status {status}")
            try:
                return connect(self._socket, timeout=1.0)
            except NotReadyError:
                stuck_at = monotonic() + TO_LISTEN
            except OSError as error:
                if monotonic() > stuck_at:
                    raise ServerEndedError("valkey-server did not listen on its socket") from error
            stop.wait(0.005)

    def end(self, client: ProbeClient | None) -> None:
        """Shut it down so that everything is on disk, or kill it if that fails. On return it has ended."""
        if client is not None:
            try:
                client.send("SHUTDOWN")  # immediate, where a signal waits for the server's next tick
            except OSError:
                self._process.terminate()
        else:
            self._process.terminate()
        for force in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(TO_END)
            except subprocess.TimeoutExpired:
                force()
        self._process.wait()


def _settings(*, listen: str, log: str) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": listen,
        "unixsocketperm": "700",
        "dir": ".",
        "logfile": log,
        "daemonize": "no",
        "save": "",
        "appendonly": "yes",
        "appendfsync": "everysec",
        # Leases come and go: at the default of 64 MB the file would hold a million ended ones, all read at a start.
        "auto-aof-rewrite-min-size": "8mb",
        "maxmemory-policy": "noeviction",
    }
    return [word for name, value in settings.items() for word in (f"--{name}", value)]


def _end_with_parent() -> Callable[[], None] | None:
    """For the child between fork and exec: request SIGTERM for when the supervisor ends, even by SIGKILL."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    supervisor = os.getpid()
    pr_set_pdeathsig = 1

    def request_signal() -> None:
        libc.prctl(pr_set_pdeathsig, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != supervisor:  # it ended before the request
            os._exit(1)

    return request_signal
