"""Distributes the published changes of documents to listeners in this process."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from leasehold.documents.store.decoding import CHANNEL, read_event
from leasehold.errors import StoreRefused
from leasehold.runtime.subscription import keep_subscribed

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from leasehold.documents.state import Event
    from leasehold.valkey.transport.protocols import PubSubTransport

_log = logging.getLogger("leasehold.documents")


class EventBus:
    """One subscription for all listeners. Events are hints: they may be lost, or come twice."""

    def __init__(self, wire: PubSubTransport) -> None:
        self._wire = wire
        self._listeners: dict[object, tuple[Callable[[Event], None], Callable[[], None]]] = {}
        self._watchers: dict[str, set[asyncio.Event]] = {}
        self._is_heard: bool | None = None
        self._listening: asyncio.Task[None] | None = None

    async def subscribe(self) -> bool:
        """Subscribe once; False if pub/sub is not available."""
        if self._is_heard is None:
            self._is_heard = await self._wire.subscribe(CHANNEL, self._on_payload, self._resume)
        return self._is_heard

    @contextmanager
    def watch(self, document_id: str) -> Generator[asyncio.Event]:
        """A flag that is set at every event of the document."""
        changed = asyncio.Event()
        watchers = self._watchers.setdefault(document_id, set())
        watchers.add(changed)
        try:
            yield changed
        finally:
            watchers.discard(changed)
            if not watchers:
                self._watchers.pop(document_id, None)

    def listen(self, hear: Callable[[Event], None], resumed: Callable[[], None]) -> Callable[[], None]:
        """See `leasehold.documents.DocumentLocks.listen`."""
        key = object()
        self._listeners[key] = (hear, resumed)
        if not self._is_heard and (self._listening is None or self._listening.done()):
            work = keep_subscribed(self.subscribe, self._resume, deaf_every=1.0, to="document events")
            self._listening = asyncio.get_running_loop().create_task(work, name="leasehold-listen")

        def end() -> None:
            self._listeners.pop(key, None)
            if not self._listeners and self._listening is not None:
                self._listening.cancel()

        return end

    def _on_payload(self, payload: bytes) -> None:
        if not self._listeners and not self._watchers:
            return
        try:
            event = read_event(payload)
        except StoreRefused as refusal:
            _log.debug("a document event was dropped: %s", refusal)
            return
        for changed in self._watchers.get(event.state.document_id, ()):
            changed.set()
        for hear, _ in tuple(self._listeners.values()):
            _call(hear, event)

    def _resume(self) -> None:
        for watchers in self._watchers.values():
            for changed in watchers:
                changed.set()
        for _, resumed in tuple(self._listeners.values()):
            _call(resumed)


def _call(callback: Callable[..., None], *arguments: object) -> None:
    try:
        callback(*arguments)
    except Exception:  # noqa: BLE001 - called by the connection itself, which must go on for other listeners
        _log.exception("a listener to document events failed")
