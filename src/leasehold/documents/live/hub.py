"""One per worker: which documents are watched, and what those who watch are told."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from leasehold.documents.live.expiry_timers import Deadlines
from leasehold.documents.live.limits import SocketLimits
from leasehold.documents.live.messages import CloseCode, HeartbeatRequested, Wanted
from leasehold.documents.live.presence import Attendance
from leasehold.documents.live.rendering import News, between
from leasehold.documents.live.room import Room
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency
from leasehold.runtime.periodic import every

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from leasehold.documents.access_control import Gate
    from leasehold.documents.live.socket import Socket
    from leasehold.documents.live.worker_notices import Notices
    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.state import Event, LockState

_log = logging.getLogger("leasehold")

# What is told may get lost without a sign, so everything is looked at once in a while.
_LOOK_EVERY = 30.0
# Set apart from what is told of documents: their ids are not empty.
_ABOUT_HEARTBEATS = ""


class Hub:
    """Begins to listen with the first socket. Nothing in here is needed by another worker."""

    def __init__(
        self, documents: DocumentLocks, *, gate: Gate, notices: Notices, limits: SocketLimits | None = None
    ) -> None:
        self.documents = documents
        self.gate = gate
        self.limits = limits or SocketLimits()
        self.attendance = Attendance(gate=gate, notices=notices, limits=self.limits)
        self._rooms: dict[str, Room] = {}
        self._lessons = 0
        self._deadlines = Deadlines(documents.states, self.reading)
        self._tasks = AsyncioConcurrency()
        self._stop_listening: Callable[[], None] | None = None

    @property
    def watched(self) -> int:
        """How many documents somebody watches here."""
        return len(self._rooms)

    def start(self) -> None:
        """Listen, from now on."""
        if self._stop_listening is not None:
            return
        self._stop_listening = self.documents.listen(self.hear, self._look_at_all)
        self.attendance.start()
        heartbeat = self.documents.times.heartbeat
        self._tasks.spawn(every(lambda: heartbeat, self._request_heartbeats, "heartbeats"))
        self._tasks.spawn(every(lambda: _LOOK_EVERY, self._sweep, "looking at what is watched"))

    async def close(self) -> None:
        """Send every socket away, and listen no more."""
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        await self.attendance.close()
        await self._tasks.close()
        await self._deadlines.close()

    @asynccontextmanager
    async def joining(self, document_id: str) -> AsyncGenerator[Room]:
        """The room, whose state is what is true now or later. It stays while inside, so that nothing is missed."""
        room = self._rooms.setdefault(document_id, Room(document_id))
        room.joining += 1
        try:
            # We listen already: whatever happens from here on is heard, or is in what we read now.
            learn = self.reading()
            learn(await self.documents.state(document_id))
            yield room
        finally:
            room.joining -= 1
            self._drop_if_empty(room)

    def leave(self, socket: Socket, document_id: str) -> None:
        """The socket watches it no longer."""
        room = self._rooms.get(document_id)
        if room is not None:
            room.members.discard(socket)
            self._drop_if_empty(room)

    def hear(self, event: Event) -> None:
        """Somebody says that something has happened. They may say so late, so what is not newer is dropped."""
        room = self._rooms.get(event.state.document_id)
        if room is not None and _is_newer(event.state, room.state):
            self._learn(room, event.state, event)

    def reading(self) -> Callable[[LockState], None]:
        """Ask for this before the store is asked, and call it with each state that is in the store's answer.

        If it is newer than what is known here, everybody who watches is told.
        """
        begun = self._lessons

        def learn(state: LockState) -> None:
            room = self._rooms.get(state.document_id)
            if room is None:
                return
            known = room.state
            # A read that began after the newest was learnt is right in any case. Others may have been overtaken.
            if room.lesson > begun and not _is_newer(state, known):
                return
            self._learn(room, state)
            if known is not None and state.version < known.version:
                _let_rejoin(room)

        return learn

    def _learn(self, room: Room, state: LockState, event: Event | None = None) -> None:
        known, room.state = room.state, state
        self._lessons += 1
        room.lesson = self._lessons
        self._deadlines.set(state)
        if known is None or state.version <= known.version:
            return  # nobody was told anything else before, or would believe it
        event = event or between(known, state)
        if event is not None:
            room.tell(News(event))

    def _drop_if_empty(self, room: Room) -> None:
        if room.is_empty and self._rooms.get(room.document_id) is room:
            del self._rooms[room.document_id]
            self._deadlines.drop(room.document_id)

    def _look_at_all(self) -> None:
        self._deadlines.look(self._rooms)

    async def _sweep(self) -> None:
        self._look_at_all()

    async def _request_heartbeats(self) -> None:
        """A hidden tab's own timers are slow; its socket is not."""
        wanted: dict[Socket, list[str]] = {}
        for room in self._rooms.values():
            if room.state is None or room.state.holder is None:
                continue
            holder = room.state.holder.editor
            for socket in self.attendance.of(holder.user_id):
                if socket in room.members and socket.editor.tab == holder.tab:
                    wanted.setdefault(socket, []).append(room.document_id)
        for socket, document_ids in wanted.items():
            message = HeartbeatRequested(data=Wanted(document_ids=document_ids))
            socket.outbox.tell(_ABOUT_HEARTBEATS, message.model_dump_json())


def _is_newer(state: LockState, known: LockState | None) -> bool:
    return known is None or (state.version, state.read_at) > (known.version, known.read_at)


def _let_rejoin(room: Room) -> None:
    """The store has lost what it had said: a restart from an older snapshot, or a fail-over to a replica that was behind.

    Whoever watches has been told of it and would drop whatever is older. With a new socket they forget that.
    """
    _log.warning("the store has forgotten the newest state of the lock of %r", room.document_id)
    for socket in tuple(room.members):
        socket.close(CloseCode.GOING_AWAY)
