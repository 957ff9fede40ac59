"""What is said over the socket: ``{"type": …, "data": {…}}`` in both directions. See docs/protocol.md."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from leasehold.documents.http import dependencies
from leasehold.documents.http.schemas import (
    Asked,
    DocumentId,
    IdleFor,
    Instant,
    Lock,
    LockHolder,
    Person,
    Told,
)
from leasehold.documents.ports import Role  # noqa: TC001 - read by pydantic


class CloseCode(IntEnum):
    """Why the server ended a socket."""

    FAILED = 1011
    GOING_AWAY = 1012
    BROKEN_PROTOCOL = 4400
    NOT_SIGNED_IN = 4401
    ORIGIN_REFUSED = 4403
    NO_AUTHENTICATION = 4408
    TOO_MANY_SOCKETS = 4409
    MESSAGE_TOO_LARGE = 4413
    TOO_MANY_MESSAGES = 4429
    TOO_SLOW = 4508


class Credentials(Asked):
    """A token or a ticket, and which tab it is."""

    token: str | None = Field(default=None, min_length=1, max_length=8192)
    ticket: str | None = Field(default=None, min_length=1, max_length=128)
    tab: str | None = Field(default=None, max_length=dependencies.MAX_LENGTH, pattern=dependencies.PATTERN)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.token is None) == (self.ticket is None):
            raise ValueError("either a token or a ticket")
        return self


class Room(Asked):
    """Which document."""

    document_id: DocumentId


class Beat(Room):
    """``idle_for``: seconds since anything was touched."""

    idle_for: IdleFor | None = None


class Nothing(Asked):
    """No data."""


class Authenticate(Asked):
    """Must be the first message."""

    type: Literal["authenticate"]
    data: Credentials


class Join(Asked):
    """Watch a document's lock."""

    type: Literal["join"]
    data: Room


class Leave(Asked):
    """Watch it no longer."""

    type: Literal["leave"]
    data: Room


class Heartbeat(Asked):
    """The lock is still wanted."""

    type: Literal["heartbeat"]
    data: Beat


class Ping(Asked):
    """Is anybody there?"""

    type: Literal["ping"]
    data: Nothing = Nothing()


ClientMessage = Annotated[Authenticate | Join | Leave | Heartbeat | Ping, Field(discriminator="type")]


class Message(BaseModel):
    """A message to the client."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class Welcome(Told):
    """Who the client is here, and the times that it must keep: seconds, but for ``expires_at``."""

    user_id: str
    user_name: str
    expires_at: Instant | None
    ttl: float
    heartbeat: float
    idle: float


class Authenticated(Message):
    """The socket may be used."""

    type: Literal["authenticated"] = "authenticated"
    data: Welcome


class Watched(Told):
    """A document, what the client may do with it, and its lock."""

    document_id: str
    role: Role
    lock: Lock


class Joined(Message):
    """The lock as it is; changes follow."""

    type: Literal["joined"] = "joined"
    data: Watched


class Left(Told):
    """Which document."""

    document_id: str


class LeftRoom(Message):
    """No more changes follow."""

    type: Literal["left"] = "left"
    data: Left


class Pulse(Told):
    """Whether the lock was extended; if not, who has it."""

    document_id: str
    extended: bool
    lock_holder: LockHolder | None


class HeartbeatHeard(Message):
    """The answer to a heartbeat."""

    type: Literal["heartbeat"] = "heartbeat"
    data: Pulse


class Empty(Told):
    """No data."""


class Pong(Message):
    """Somebody is there."""

    type: Literal["pong"] = "pong"
    data: Empty = Empty()


class Change(Told):
    """What has happened to a lock, through whom, and the state that it led to."""

    document_id: str
    lock_holder: LockHolder | None
    triggered_by: Person | None
    timestamp: Instant
    lock: Lock


class Takeover(Change):
    """``saved``: whether the previous editor answered with a save; null where that is not known."""

    saved: bool | None


class LockChanged(Message):
    """A lock was acquired, given back, has expired, or is about to be taken."""

    type: Literal[
        "document_locked", "document_unlocked", "document_lock_expired", "document_force_save_requested"
    ]
    data: Change


class ForceTaken(Message):
    """A lock was taken by force."""

    type: Literal["document_force_taken"] = "document_force_taken"
    data: Takeover


class Wanted(Told):
    """The documents that this tab holds."""

    document_ids: list[str]


class HeartbeatRequested(Message):
    """Answer with a heartbeat for each."""

    type: Literal["heartbeat_requested"] = "heartbeat_requested"
    data: Wanted


class Closed(Told):
    """Which document, and why: a code as in REST."""

    document_id: str
    code: str


class RoomClosed(Message):
    """The right to watch it has ended."""

    type: Literal["room_closed"] = "room_closed"
    data: Closed


class Fault(Told):
    """A code as in REST, and a sentence."""

    code: str
    message: str
    document_id: str | None


class Error(Message):
    """What was asked could not be done."""

    type: Literal["error"] = "error"
    data: Fault


ServerMessage = Annotated[
    Authenticated
    | Joined
    | LeftRoom
    | HeartbeatHeard
    | Pong
    | LockChanged
    | ForceTaken
    | HeartbeatRequested
    | RoomClosed
    | Error,
    Field(discriminator="type"),
]

FROM_CLIENT: TypeAdapter[ClientMessage] = TypeAdapter(ClientMessage)
FROM_SERVER: TypeAdapter[ServerMessage] = TypeAdapter(ServerMessage)
