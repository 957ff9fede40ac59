"""The blocking client's ear: one thread that hears what is published for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from leasehold.errors import StoreRefused, StoreUnavailable
from leasehold.valkey import notifications
from leasehold.valkey.transport import handshake
from leasehold.valkey.transport.protocols import RECONNECT_BACKOFF

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.valkey.transport.blocking_connection import BlockingLink

# The thread ends as soon as its socket does; this is for a machine that is very busy.
_END_WITHIN = 2.0


class Ear:
    """Listens on a connection of its own, and on a new one whenever that breaks.

    What is said while there is none is not heard. That is no harm: waiters also look, and holders also renew.
    """

    def __init__(
        self,
        connect: Callable[[], BlockingLink],
        channel: str,
        hear: Callable[[bytes], None],
        fraction: Callable[[], float],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._hear = hear
        self._fraction = fraction
        self._link: BlockingLink | None = None
        self._server = "the store"
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leasehold-ear", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no more. On return the connection is closed."""
        self._is_stopped.set()
        link = self._link
        if link is not None:
            link.hang_up()
        if self._thread is not threading.current_thread():
            self._thread.join(_END_WITHIN)

    def _run(self) -> None:
        tries = 0
        while not self._is_stopped.is_set():
            try:
                self._link = link = self._connect()
                self._server = link.name
                tries = 0
                if not self._is_stopped.is_set():
                    link.hear(notifications.channel_name(self._channel), self._hear)
                link.close()
            except StoreRefused as refusal:
                handshake.warn_deaf(self._server, refusal)
                return
            except StoreUnavailable:
                tries += 1
                self._is_stopped.wait(RECONNECT_BACKOFF.pause(tries, self._fraction()))
