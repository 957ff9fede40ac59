"""A minimal client that probes a server over its unix socket: one command at a time."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import hiredis

from leasehold.valkey.embedded.socket_file import find_socket

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.valkey.embedded.data_dir import DataDir


class NotReadyError(Exception):
    """A server runs but cannot reply yet: it is loading its data, or is overloaded."""


class ProbeClient:
    """One connection. Raises ``OSError`` if the server is gone or takes longer than ``timeout``."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._reader = hiredis.Reader()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(str(path))
        except BaseException:
            self._socket.close()
            raise

    def call(self, *words: str) -> object:
        """Send a command and return its reply; an error reply is returned as an ``hiredis.HiredisError``."""
        self.send(*words)
        return self.receive()

    def send(self, *words: str) -> None:
        """Send a command, without its reply. Words have no spaces: this is the inline form of the protocol."""
        self._socket.sendall(" ".join(words).encode() + b"\r\n")

    def receive(self) -> object:
        """The next reply."""
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def fileno(self) -> int:
        """The descriptor of the socket, for select."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def connect(path: Path, *, timeout: float) -> ProbeClient:
    """A client whose server has answered PING.

    ``NotReadyError``: a server runs but is not ready. Another ``OSError``: no server runs.
    """
    try:
        client = ProbeClient(path, timeout=timeout)
    except (BlockingIOError, TimeoutError) as error:
        # More connections wait to be accepted than the kernel queues.
        raise NotReadyError("the server does not accept connections") from error
    try:
        reply = client.call("PING")
        if isinstance(reply, hiredis.HiredisError) and str(reply).startswith("LOADING"):
            raise NotReadyError(str(reply))
    except TimeoutError as error:
        client.close()
        raise NotReadyError(f"no reply to PING in {timeout:.1f} s") from error
    except BaseException:
        client.close()
        raise
    return client


def find_running(home: DataDir, *, timeout: float) -> Path:
    """The socket of the server of ``home``, which has just replied; raises as ``connect`` does if not."""
    path = find_socket(home)
    if path is None:
        raise FileNotFoundError("no server has chosen its socket yet")
    connect(path, timeout=timeout).close()
    return path
