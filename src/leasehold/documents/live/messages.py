"""The messages of the socket: ``{"type": …, "data": {…}}`` in both directions. See docs/protocol.md."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, ClassVar, Literal, Self

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
    """A token or a ticket, and the name of the tab."""

    token: str | None = Field(default=None, min_length=1, max_length=8192)
    ticket: str | None = Field(default=None, min_length=1, max_length=128)
    tab: str | None = Field(default=None, max_length=dependencies.MAX_LENGTH, pattern=dependencies.PATTERN)

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.token is None) == (self.ticket is None):
            raise ValueError("either a token or a ticket")
        return self


class Room(Asked):
    """A document."""

    document_id: DocumentId


class Beat(Room):
    """``idle_for``: seconds since the last activity."""

    idle_for: IdleFor | None = None


class Nothing(Asked):
    """No data."""


class Authenticate(Asked):
    """Must be the first message."""

    needs: ClassVar[Role | None] = None
    type: Literal["authenticate"]
    data: Credentials


class Join(Asked):
    """Watch a document's lock."""

    needs: ClassVar[Role | None] = "viewer"
    type: Literal["join"]
    data: Room


class Leave(Asked):
    """Stop watching a document's lock."""

    needs: ClassVar[Role | None] = None  # so that a client can leave what it may no longer watch
    type: Literal["leave"]
    data: Room


class Heartbeat(Asked):
    """Extend the hold."""

    needs: ClassVar[Role | None] = "viewer"  # what only editors get is decided by `heartbeat_as`
    type: Literal["heartbeat"]
    data: Beat


class Ping(Asked):
    """Ask for a pong."""

    needs: ClassVar[Role | None] = None  # about no document; one watched document is checked again, in turn
    type: Literal["ping"]
    data: Nothing = Nothing()


# Each declares ``needs``: the role for its document that the sender must have, None if there is nothing to protect.
ClientMessage = Annotated[Authenticate | Join | Leave | Heartbeat | Ping, Field(discriminator="type")]


class Message(BaseModel):
    """A message to the client."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class Welcome(Told):
    """The client's user, and the times that it must keep: seconds, except ``expires_at``."""

    user_id: str
    user_name: str
    expires_at: Instant | None
    ttl: float
    heartbeat: float
    idle: float


class Authenticated(Message):
    """The socket is ready."""

    type: Literal["authenticated"] = "authenticated"
    data: Welcome


class Watched(Told):
    """A document, the client's role for it, and its lock."""

    document_id: str
    role: Role
    lock: Lock


class Joined(Message):
    """The lock's current state; changes follow."""

    type: Literal["joined"] = "joined"
    data: Watched


class Left(Told):
    """A document."""

    document_id: str


class LeftRoom(Message):
    """No more changes follow."""

    type: Literal["left"] = "left"
    data: Left


class Pulse(Told):
    """Whether the lock was extended, and its holder."""

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
    """The answer to a ping."""

    type: Literal["pong"] = "pong"
    data: Empty = Empty()


class Change(Told):
    """A change of a lock, its user, and the state that it led to."""

    document_id: str
    lock_holder: LockHolder | None
    triggered_by: Person | None
    timestamp: Instant
    lock: Lock


class Takeover(Change):
    """``saved``: whether the previous editor answered with a save; null where that is not known."""

    saved: bool | None


class LockChanged(Message):
    """A lock was acquired or released, has expired, or is about to be taken."""

    type: Literal[
        "document_locked", "document_unlocked", "document_lock_expired", "document_force_save_requested"
    ]
    data: Change


class ForceTaken(Message):
    """A lock was taken by force."""

    type: Literal["document_force_taken"] = "document_force_taken"
    data: Takeover


class Wanted(Told):
    """The documents whose locks this tab holds."""

    document_ids: list[str]


class HeartbeatRequested(Message):
    """Answer with a heartbeat for each."""

    type: Literal["heartbeat_requested"] = "heartbeat_requested"
    data: Wanted


class Closed(Told):
    """A document, and the reason: a code as in REST."""

    document_id: str
    code: str


class RoomClosed(Message):
    """The client may no longer watch the document."""

    type: Literal["room_closed"] = "room_closed"
    data: Closed


class Fault(Told):
    """A code as in REST, and a message."""

    code: str
    message: str
    document_id: str | None


class Error(Message):
    """A message could not be handled."""

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
