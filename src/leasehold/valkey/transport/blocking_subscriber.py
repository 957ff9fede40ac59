"""The blocking client's subscriber: a thread that receives the client's notifications."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from leasehold.errors import StoreRefused, StoreUnavailable
from leasehold.valkey import notifications
from leasehold.valkey.transport import handshake
from leasehold.valkey.transport.protocols import RECONNECT_BACKOFF

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.valkey.transport.blocking_connection import BlockingConnection

# The thread ends as soon as its socket does; this is for a machine that is very busy.
_STOP_TIMEOUT = 2.0


class BlockingSubscriber:
    """Subscribes on a connection of its own, and on a new one whenever that breaks.

    What is published in between is lost: ``on_gap`` is called as soon as the next subscription is in force.
    """

    def __init__(
        self,
        connect: Callable[[], BlockingConnection],
        channel: str,
        handle: Callable[[bytes], None],
        on_gap: Callable[[], None],
        fraction: Callable[[], float],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._handle = handle
        self._on_gap = on_gap
        self._fraction = fraction
        self._connection: BlockingConnection | None = None
        self._server = "the store"
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leasehold-subscriber", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. On return the connection is closed."""
        self._is_stopped.set()
        connection = self._connection
        if connection is not None:
            connection.shut_down()
        if self._thread is not threading.current_thread():
            self._thread.join(_STOP_TIMEOUT)

    def _run(self) -> None:
        tries = 0
        while not self._is_stopped.is_set():
            try:
                self._connection = connection = self._connect()
                self._server = connection.name
                tries = 0
                if not self._is_stopped.is_set():
                    connection.receive(notifications.channel_name(self._channel), self._handle, self._on_gap)
                connection.close()
            except StoreRefused as refusal:
                handshake.warn_no_notifications(self._server, refusal)
                return
            except StoreUnavailable:
                tries += 1
                self._is_stopped.wait(RECONNECT_BACKOFF.pause(tries, self._fraction()))
