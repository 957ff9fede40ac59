"""Handles the messages of authenticated sockets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pydantic import ValidationError

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
from leasehold.documents.locks import heartbeat_as
from leasehold.documents.ports import Access
from leasehold.errors import InvalidRequest, LeaseholdError, NotAllowed, NotFound, RateLimited

if TYPE_CHECKING:
    from leasehold.documents.live.hub import Hub
    from leasehold.documents.live.messages import Beat, ClientMessage
    from leasehold.documents.live.socket import Socket

_log = logging.getLogger("leasehold.documents")


class MessageHandlers:
    """Answers messages. Each is checked anew for the role that its type declares as ``needs``."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def answer(self, socket: Socket, text: str) -> None:
        """Answer one message. An error is sent to the client, and only ends what it asked for."""
        try:
            message = FROM_CLIENT.validate_json(text)
        except ValidationError as error:
            socket.reply_mistake(InvalidRequest(_complaint(error)))
            return
        document_id: str | None = getattr(message.data, "document_id", None)
        try:
            await self._answer(socket, message, document_id)
        except (NotAllowed, NotFound) as refusal:
            socket.reply_error(refusal, document_id)
            if document_id in socket.rooms:
                socket.close_room(document_id, refusal.code)
        except LeaseholdError as error:
            socket.reply_error(error, document_id)
        except Exception:  # noqa: BLE001 - the host application's own, perhaps; the socket can go on
            _log.exception("a message could not be answered")
            socket.reply_error(LeaseholdError(), document_id)

    async def _answer(self, socket: Socket, message: ClientMessage, document_id: str | None) -> None:
        is_full = len(socket.rooms) >= self._hub.limits.rooms_per_socket
        if is_full and isinstance(message, Join) and document_id not in socket.rooms:
            raise RateLimited("one socket may not watch more documents", retry_after=1)
        recheck = self._hub.presence.recheck
        while True:
            changes = recheck.changes
            access = await self._access(socket, message, document_id)
            match message:
                case Join(data=room):
                    if not await self._join(socket, room.document_id, access, changes):
                        continue  # permissions may have changed after the check
                case Leave(data=room):
                    socket.leave(room.document_id)
                    socket.reply(LeftRoom(data=Left(document_id=room.document_id)))
                case Heartbeat(data=data):
                    await self._heartbeat(socket, data, access)
                case Ping():
                    await self._check_one_room(socket)
                    socket.reply(Pong())
                case Authenticate():
                    socket.reply_mistake(
                        InvalidRequest("authenticate must be the first message, and is sent once")
                    )
            return

    async def _access(self, socket: Socket, message: ClientMessage, document_id: str | None) -> Access:
        """The user's access to the message's document; raises if it is less than the message type needs."""
        if message.needs is None:
            return Access(None)
        assert document_id is not None
        return await self._hub.permissions.check(socket.editor.user_id, document_id, message.needs)

    async def _join(self, socket: Socket, document_id: str, access: Access, changes: int) -> bool:
        """Join the room; False if permissions have changed since ``changes`` was read."""
        async with self._hub.joining(document_id) as room:
            if self._hub.presence.recheck.changes != changes:
                return False
            if socket.phase != "authenticated":
                return True
            room.members.add(socket)
            socket.rooms[document_id] = None
            assert access.role is not None
            assert room.state is not None
            lock = lock_of(room.state, socket.editor)
            socket.reply(Joined(data=Watched(document_id=document_id, role=access.role, lock=lock)))
            return True

    async def _heartbeat(self, socket: Socket, data: Beat, access: Access) -> None:
        update = self._hub.begin_read()
        is_extended, state = await heartbeat_as(
            access, self._hub.documents, data.document_id, socket.editor, idle_for=data.idle_for
        )
        update(state)
        holder = holder_of(state, socket.editor)
        pulse = Pulse(document_id=data.document_id, extended=is_extended, lock_holder=holder)
        socket.reply(HeartbeatHeard(data=pulse))

    async def _check_one_room(self, socket: Socket) -> None:
        """Check the permission for one document: a ping must not cost more than any other message."""
        document_id = next(iter(socket.rooms), None)
        if document_id is None:
            return
        socket.rooms[document_id] = socket.rooms.pop(document_id)  # the last one from now on
        try:
            await self._hub.permissions.check(socket.editor.user_id, document_id, "viewer")
        except (NotAllowed, NotFound) as refusal:
            if document_id in socket.rooms:
                socket.close_room(document_id, refusal.code)
            # A change that was not announced here may concern other documents too.
            self._hub.presence.recheck.change(socket.editor.user_id)


def _complaint(error: ValidationError) -> str:
    """The first complaint, without the input, which may be a secret."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] in {"union_tag_invalid", "json_invalid"}:
        return "unknown message type, or not JSON"
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
