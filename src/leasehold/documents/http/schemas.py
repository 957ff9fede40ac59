"""Locks as JSON, for REST and sockets. Some members depend on the viewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leasehold.documents.state import EndReason  # noqa: TC001 - read by pydantic

if TYPE_CHECKING:
    from leasehold.documents.outcomes import Granted
    from leasehold.documents.state import Editor, Hold, LockState

MAX_ID = 128
# Anything printable: ids are the host application's. Control characters would break keys and logs.
ID_PATTERN = r"^[^\x00-\x1f\x7f-\x9f]+$"
DocumentId = Annotated[str, Field(min_length=1, max_length=MAX_ID, pattern=ID_PATTERN)]
# More than a day of inactivity means nothing more.
IdleFor = Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False, description="seconds")]
Fence = Annotated[str, Field(pattern=r"^[0-9]+$", description="a decimal number; it grows with every grant")]
Instant = Annotated[float, Field(description="Unix seconds")]


class Asked(BaseModel):
    """A request body or message from a client: no unknown members, and no type coercion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _keep_one_unknown_member(cls, given: Any) -> Any:
        # Each unknown member becomes an error object of its own: for a large request that takes seconds.
        known = cls.model_fields
        if not isinstance(given, dict):
            return given
        members = cast("dict[Any, Any]", given)
        if len(members) <= len(known):
            return members
        unknown = next(name for name in members if name not in known)
        return {name: members[name] for name in (*known, unknown) if name in members}


class Told(BaseModel):
    """A response body or message data. Members may be added, so clients must ignore unknown ones."""

    model_config = ConfigDict(frozen=True, json_schema_serialization_defaults_required=True)


class Person(Told):
    """A user, as shown to others."""

    user_id: str
    user_name: str


class LockHolder(Person):
    """The holder; ``same_user`` and ``tab_is_mine`` are relative to the client that receives it."""

    acquired_at: Instant
    same_user: bool
    tab_is_mine: bool
    idle_since: Instant | None


class LockVersion(Told):
    """Orders the states of one lock: by ``fence`` as a number, then by ``step``."""

    fence: Fence
    step: int


class Taking(Person):
    """A force-take in progress: its user, and how long the holder may still save."""

    seconds_left: float


class Lock(Told):
    """The state of a document's lock."""

    document_id: str
    locked: bool
    lock_holder: LockHolder | None
    version: LockVersion
    expires_in: float | None
    taking: Taking | None


class GrantedLock(Lock):
    """The caller holds the lock: ``fence`` goes with every save. Load the document if ``content_version`` is newer."""

    fence: Fence
    content_version: int


class TakenLock(GrantedLock):
    """``saved``: whether the previous editor answered with a save; null if there was none to ask."""

    saved: bool | None


class ExtendedLock(Lock):
    """The answer to a heartbeat of the holder."""

    extended: bool = True


class PastHold(Person):
    """One hold, and why it ended. The last three members are null while it lasts."""

    fence: Fence
    acquired_at: Instant
    ended_at: Instant | None
    reason: EndReason | None
    ended_by: Person | None


class LockHistory(Told):
    """The holds of a document, newest first."""

    holds: list[PastHold]


class Ticket(Told):
    """Opens one socket, once, within ``expires_in`` seconds."""

    ticket: str
    expires_in: float


class AcquireRequest(Asked):
    """``move``: also from another tab of the same user."""

    move: bool = False


class HeartbeatRequest(Asked):
    """``idle_for``: seconds since the last activity."""

    idle_for: IdleFor | None = None


def holder_of(state: LockState, viewer: Editor) -> LockHolder | None:
    """The holder, as ``viewer`` sees it."""
    if state.holder is None:
        return None
    editor = state.holder.editor
    return LockHolder(
        user_id=editor.user_id,
        user_name=editor.user_name,
        acquired_at=state.holder.acquired_at,
        same_user=editor.user_id == viewer.user_id,
        tab_is_mine=state.is_held_by(viewer),
        idle_since=state.holder.idle_since,
    )


def lock_of(state: LockState, viewer: Editor) -> Lock:
    """The state, as ``viewer`` sees it."""
    return Lock(**_members(state, viewer))


def granted_lock(granted: Granted, viewer: Editor) -> GrantedLock:
    """A grant, as its holder sees it."""
    return GrantedLock(
        **_members(granted.state, viewer), fence=str(granted.fence), content_version=granted.content_version
    )


def taken_lock(granted: Granted, viewer: Editor) -> TakenLock:
    """A grant after a force-take, as its holder sees it."""
    return TakenLock(**dict(granted_lock(granted, viewer)), saved=granted.saved)


def extended_lock(state: LockState, viewer: Editor) -> ExtendedLock:
    """The state after a heartbeat, as its holder sees it."""
    return ExtendedLock(**_members(state, viewer))


def past_hold(hold: Hold) -> PastHold:
    """An entry of the history. It is the same for all viewers."""
    by = hold.ended_by
    return PastHold(
        fence=str(hold.fence),
        user_id=hold.person.user_id,
        user_name=hold.person.user_name,
        acquired_at=hold.acquired_at,
        ended_at=hold.ended_at,
        reason=hold.reason,
        ended_by=by and Person(user_id=by.user_id, user_name=by.user_name),
    )


def _members(state: LockState, viewer: Editor) -> dict[str, Any]:
    taking = state.taking
    return {
        "document_id": state.document_id,
        "locked": state.is_locked,
        "lock_holder": holder_of(state, viewer),
        "version": LockVersion(fence=str(state.version.fence), step=state.version.step),
        "expires_in": None if state.held_until is None else max(0.0, state.held_until - state.read_at),
        "taking": taking
        and Taking(
            user_id=taking.by.user_id,
            user_name=taking.by.user_name,
            seconds_left=max(0.0, taking.save_until - state.read_at),
        ),
    }
