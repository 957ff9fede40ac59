"""What is told of documents by any process, for those in this one who want to hear it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasehold.documents.store.decoding import CHANNEL, read_event
from leasehold.errors import StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from leasehold.documents.state import Event
    from leasehold.valkey.transport.protocols import PubSubTransport

_log = logging.getLogger("leasehold")

# Where nothing can be heard, listeners are told to look for themselves this often.
_DEAF_INTERVAL = 1.0
_RETRY_EVERY = 0.5


class Bulletin:
    """One subscription for all who listen. What is told is a hint: it may get lost, or come twice."""

    def __init__(self, wire: PubSubTransport) -> None:
        self._wire = wire
        self._listeners: dict[object, tuple[Callable[[Event], None], Callable[[], None]]] = {}
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._is_heard: bool | None = None
        self._listening: asyncio.Task[None] | None = None

    async def open(self) -> bool:
        """Be subscribed, on return; False if nothing can be heard."""
        if self._is_heard is None:
            self._is_heard = await self._wire.subscribe(CHANNEL, self._hear, self._resume)
        return self._is_heard

    @contextmanager
    def watch(self, document_id: str) -> Generator[asyncio.Event]:
        """What is set whenever something is told of the document."""
        news = asyncio.Event()
        watchers = self._watchers.setdefault(document_id, set())
        watchers.add(news)
        try:
            yield news
        finally:
            watchers.discard(news)
            if not watchers:
                self._watchers.pop(document_id, None)

    def listen(self, hear: Callable[[Event], None], resumed: Callable[[], None]) -> Callable[[], None]:
        """See `leasehold.documents.DocumentLocks.listen`."""
        key = object()
        self._listeners[key] = (hear, resumed)
        if not self._is_heard and (self._listening is None or self._listening.done()):
            self._listening = asyncio.get_running_loop().create_task(self._listen(), name="leasehold-listen")

        def end() -> None:
            self._listeners.pop(key, None)
            if not self._listeners and self._listening is not None:
                self._listening.cancel()

        return end

    async def _listen(self) -> None:
        while True:
            try:
                if await self.open():
                    self._resume()
                    return
            except StoreUnavailable:
                await asyncio.sleep(_RETRY_EVERY)
                continue
            except StoreRefused as refusal:
                _log.warning("changes of documents cannot be heard: %s", refusal)
                return
            await asyncio.sleep(_DEAF_INTERVAL)
            self._resume()

    def _hear(self, payload: bytes) -> None:
        if not self._listeners and not self._watchers:
            return
        try:
            event = read_event(payload)
        except StoreRefused as refusal:
            _log.debug("news of a document were passed over: %s", refusal)
            return
        for news in self._watchers.get(event.state.document_id, ()):
            news.set()
        for hear, _ in tuple(self._listeners.values()):
            _call(hear, event)

    def _resume(self) -> None:
        for watchers in self._watchers.values():
            for news in watchers:
                news.set()
        for _, resumed in tuple(self._listeners.values()):
            _call(resumed)


def _call(tell: Callable[..., None], *arguments: object) -> None:
    try:
        tell(*arguments)
    except Exception:  # noqa: BLE001 - called by the connection itself, which must go on for everybody else
        _log.exception("a listener to changes of documents failed")
