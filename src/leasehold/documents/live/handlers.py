"""What a socket may ask once it has said who it is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import ValidationError

from leasehold.documents.heartbeats import beat
from leasehold.documents.http.schemas import holder_of, lock_of
from leasehold.documents.live.messages import (
    FROM_CLIENT,
    Authenticate,
    Heartbeat,
    HeartbeatHeard,
    Join,
    Joined,
    Leave,
    Left,
    LeftRoom,
    Ping,
    Pong,
    Pulse,
    Watched,
)
from leasehold.errors import InvalidRequest, LeaseholdError, NotAllowed, NotFound, RateLimited

if TYPE_CHECKING:
    from leasehold.documents.live.hub import Hub
    from leasehold.documents.live.messages import Beat, ClientMessage
    from leasehold.documents.live.socket import Socket

_log = logging.getLogger("leasehold")


class Talking:
    """Answers messages. Who may do it is asked anew for each."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def answer(self, socket: Socket, text: str) -> None:
        """Answer one message. Whatever goes wrong is told to the client, and only ends what it asked for."""
        try:
            message = FROM_CLIENT.validate_json(text)
        except ValidationError as error:
            socket.blame(InvalidRequest(_complaint(error)))
            return
        document_id: str | None = getattr(message.data, "document_id", None)
        try:
            await self._answer(socket, message)
        except (NotAllowed, NotFound) as refusal:
            socket.say_error(refusal, document_id)
            if document_id in socket.rooms:
                socket.shut_out(document_id, refusal.code)
        except LeaseholdError as error:
            socket.say_error(error, document_id)
        except Exception:  # noqa: BLE001 - the host application's own, perhaps; the socket can go on
            _log.exception("a message could not be answered")
            socket.say_error(LeaseholdError(), document_id)

    async def _answer(self, socket: Socket, message: ClientMessage) -> None:
        match message:
            case Join(data=room):
                await self._join(socket, room.document_id)
            case Leave(data=room):
                socket.leave(room.document_id)
                socket.say(LeftRoom(data=Left(document_id=room.document_id)))
            case Heartbeat(data=data):
                await self._beat(socket, data)
            case Ping():
                await self._check_rooms(socket)
                socket.say(Pong())
            case Authenticate():
                socket.blame(InvalidRequest("authenticate must be the first message, and comes only once"))

    async def _join(self, socket: Socket, document_id: str) -> None:
        if document_id not in socket.rooms and len(socket.rooms) >= self._hub.limits.rooms_per_socket:
            raise RateLimited("one socket may not watch more documents", retry_after=1)
        rights = self._hub.attendance.rights
        while True:
            changes = rights.changes
            access = await self._hub.gate.check(socket.editor.user_id, document_id, "viewer")
            async with self._hub.joining(document_id) as room:
                if rights.changes != changes:
                    continue  # we may have asked before they did
                if socket.phase != "authenticated":
                    return
                room.members.add(socket)
                socket.rooms.add(document_id)
                assert access.role is not None
                assert room.state is not None
                lock = lock_of(room.state, socket.editor)
                socket.say(Joined(data=Watched(document_id=document_id, role=access.role, lock=lock)))
                return

    async def _beat(self, socket: Socket, data: Beat) -> None:
        learn = self._hub.reading()
        is_extended, state = await beat(
            self._hub.documents, self._hub.gate, data.document_id, socket.editor, idle_for=data.idle_for
        )
        learn(state)
        holder = holder_of(state, socket.editor)
        socket.say(
            HeartbeatHeard(data=Pulse(document_id=data.document_id, extended=is_extended, lock_holder=holder))
        )

    async def _check_rooms(self, socket: Socket) -> None:
        for document_id in tuple(socket.rooms):
            try:
                await self._hub.gate.check(socket.editor.user_id, document_id, "viewer")
            except (NotAllowed, NotFound) as refusal:
                socket.shut_out(document_id, refusal.code)


def _complaint(error: ValidationError) -> str:
    """The first complaint. What was said is not repeated: it may be a secret."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] in {"union_tag_invalid", "json_invalid"}:
        return "not a message that is known here"
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
