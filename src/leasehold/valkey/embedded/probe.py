"""A few words with a server over its unix socket: one question at a time."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import hiredis

from leasehold.valkey.embedded.socket_file import find_socket

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.valkey.embedded.data_dir import DataDir


class StillBusyError(Exception):
    """A server is there but cannot answer yet: it is loading its data, or does not get round to it."""


class Conversation:
    """A connection for asking. Raises ``OSError`` as soon as the server is gone or takes longer than ``timeout``."""

    def __init__(self, path: Path, *, timeout: float) -> None:
        self._reader = hiredis.Reader()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(str(path))
        except BaseException:
            self._socket.close()
            raise

    def ask(self, *words: str) -> object:
        """The reply; an error reply is returned as an ``hiredis.HiredisError``."""
        self.say(*words)
        return self.hear()

    def say(self, *words: str) -> None:
        """Ask, and come back for the reply later. Words have no spaces: this is the inline form of the protocol."""
        self._socket.sendall(" ".join(words).encode() + b"\r\n")

    def hear(self) -> object:
        """The next reply."""
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def open_conversation(path: Path, *, timeout: float) -> Conversation:
    """A connection whose server has answered PING.

    ``StillBusyError``: one is there but not ready. Another ``OSError``: nobody is there.
    """
    try:
        conversation = Conversation(path, timeout=timeout)
    except (
        BlockingIOError,
        TimeoutError,
    ) as error:  # more connections wait to be accepted than the kernel queues
        raise StillBusyError("the server does not accept connections") from error
    try:
        reply = conversation.ask("PING")
        if isinstance(reply, hiredis.HiredisError) and str(reply).startswith("LOADING"):
            raise StillBusyError(str(reply))
    except TimeoutError as error:
        conversation.close()
        raise StillBusyError(f"no reply to PING in {timeout:.1f} s") from error
    except BaseException:
        conversation.close()
        raise
    return conversation


def find_answering(home: DataDir, *, timeout: float) -> Path:
    """The socket of the server of ``home``, which has just answered; raises as ``open_conversation`` does if not."""
    path = find_socket(home)
    if path is None:
        raise FileNotFoundError("no server has chosen its socket yet")
    open_conversation(path, timeout=timeout).close()
    return path
