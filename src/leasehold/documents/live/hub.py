"""The hub of a worker: knows the watched documents, and sends their changes to the sockets."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from leasehold.documents.live.expiry_timers import ExpiryTimers
from leasehold.documents.live.limits import SocketLimits
from leasehold.documents.live.messages import CloseCode, HeartbeatRequested, Wanted
from leasehold.documents.live.presence import Presence
from leasehold.documents.live.rendering import EventRenderer, infer_event
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency
from leasehold.runtime.periodic import every

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from leasehold.documents.access_control import PermissionCheck
    from leasehold.documents.live.socket import Socket
    from leasehold.documents.live.worker_notices import WorkerNotices
    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.state import Event, LockState

_log = logging.getLogger("leasehold.documents")

# Events may be lost without a sign, so every state is read once in a while.
_READ_EVERY = 30.0
# Distinct from the topics of documents: their ids are not empty.
_HEARTBEAT_TOPIC = ""


class WatchedDocument:
    """The members of a document's room, and the newest known state.

    ``joining`` counts sockets that do not have the state yet; ``revision`` is the hub's number of the last update.
    """

    __slots__ = ("document_id", "joining", "members", "revision", "state")

    def __init__(self, document_id: str) -> None:
        self.document_id = document_id
        self.state: LockState | None = None
        self.joining = 0
        self.revision = 0
        self.members: set[Socket] = set()

    @property
    def is_empty(self) -> bool:
        """The room has no members, and no socket is joining."""
        return not self.members and not self.joining

    def broadcast(self, change: EventRenderer) -> None:
        """Send the change to every member."""
        topic, others, holder_id = self.document_id, change.for_others(), change.user_id
        # A copy: a socket that turns out to be gone leaves during the loop.
        for socket in tuple(self.members):
            mine = socket.editor.user_id == holder_id
            socket.outbox.publish(topic, change.for_holder(socket.editor) if mine else others)


class Hub:
    """Starts listening with the first socket. Shares no state with other workers."""

    def __init__(
        self,
        documents: DocumentLocks,
        *,
        permissions: PermissionCheck,
        notices: WorkerNotices,
        limits: SocketLimits | None = None,
    ) -> None:
        self.documents = documents
        self.permissions = permissions
        self.limits = limits or SocketLimits()
        self.presence = Presence(permissions=permissions, notices=notices, limits=self.limits)
        self._rooms: dict[str, WatchedDocument] = {}
        self._revision = 0
        self._timers = ExpiryTimers(documents.states, self.begin_read)
        self._tasks = AsyncioConcurrency()
        self._stop_listening: Callable[[], None] | None = None

    @property
    def watched(self) -> int:
        """The number of documents watched in this worker."""
        return len(self._rooms)

    def start(self) -> None:
        """Start listening, unless started already."""
        if self._stop_listening is not None:
            return
        self._stop_listening = self.documents.listen(self.on_event, self._read_all)
        self.presence.start()
        heartbeat = self.documents.times.heartbeat
        self._tasks.spawn(every(lambda: heartbeat, self._request_heartbeats, "heartbeats"))
        self._tasks.spawn(every(lambda: _READ_EVERY, self._sweep, "reading watched locks"))

    async def close(self) -> None:
        """Close every socket, and stop listening."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        await self.presence.close()
        await self._tasks.close()
        await self._timers.close()

    @asynccontextmanager
    async def joining(self, document_id: str) -> AsyncGenerator[WatchedDocument]:
        """The room, with a state read after this call. It stays during the block, so that no change is missed."""
        room = self._rooms.setdefault(document_id, WatchedDocument(document_id))
        room.joining += 1
        try:
            # The hub listens already: every change from here on is an event, or is in the state read now.
            update = self.begin_read()
            update(await self.documents.state(document_id))
            yield room
        finally:
            room.joining -= 1
            self._drop_if_empty(room)

    def leave(self, socket: Socket, document_id: str) -> None:
        """Remove the socket from the room."""
        room = self._rooms.get(document_id)
        if room is not None:
            room.members.discard(socket)
            self._drop_if_empty(room)

    def on_event(self, event: Event) -> None:
        """Apply an event. It may be late, so a state that is not newer is dropped."""
        room = self._rooms.get(event.state.document_id)
        if room is not None and _is_newer(event.state, room.state):
            self._update(room, event.state, event)

    def begin_read(self) -> Callable[[LockState], None]:
        """Call this before reading from the store, and the returned function with each state that was read.

        A state newer than the known one is sent to the room's members.
        """
        begun = self._revision

        def update(state: LockState) -> None:
            room = self._rooms.get(state.document_id)
            if room is None:
                return
            known = room.state
            # A read that began after the last update is right in any case. Others may have been overtaken.
            if room.revision > begun and not _is_newer(state, known):
                return
            self._update(room, state)
            if known is not None and state.version < known.version:
                _force_reconnect(room)

        return update

    def _update(self, room: WatchedDocument, state: LockState, event: Event | None = None) -> None:
        known, room.state = room.state, state
        self._revision += 1
        room.revision = self._revision
        self._timers.set(state)
        if known is None or state.version <= known.version:
            return  # members have no other state yet, or would drop this one as older
        event = event or infer_event(known, state)
        if event is not None:
            room.broadcast(EventRenderer(event))

    def _drop_if_empty(self, room: WatchedDocument) -> None:
        if room.is_empty and self._rooms.get(room.document_id) is room:
            del self._rooms[room.document_id]
            self._timers.drop(room.document_id)

    def _read_all(self) -> None:
        self._timers.read_now(self._rooms)

    async def _sweep(self) -> None:
        self._read_all()

    async def _request_heartbeats(self) -> None:
        """Browsers slow down the timers of a hidden tab, but not its socket."""
        wanted: dict[Socket, list[str]] = {}
        for room in self._rooms.values():
            if room.state is None or room.state.holder is None:
                continue
            holder = room.state.holder.editor
            for socket in self.presence.of(holder.user_id):
                if socket in room.members and socket.editor.tab == holder.tab:
                    wanted.setdefault(socket, []).append(room.document_id)
        for socket, document_ids in wanted.items():
            message = HeartbeatRequested(data=Wanted(document_ids=document_ids))
            socket.outbox.publish(_HEARTBEAT_TOPIC, message.model_dump_json())


def _is_newer(state: LockState, known: LockState | None) -> bool:
    return known is None or (state.version, state.read_at) > (known.version, known.read_at)


def _force_reconnect(room: WatchedDocument) -> None:
    """The store has lost a state: it restarted from an older snapshot, or failed over to a replica that was behind.

    Clients have received that state and would drop all older ones. With a new socket they forget it.
    """
    _log.warning("the store has lost the newest state of the lock of %r", room.document_id)
    for socket in tuple(room.members):
        socket.close(CloseCode.GOING_AWAY)
