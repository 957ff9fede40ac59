"""Decodes the JSON of the scripts: states, events and history entries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.documents.state import (
    ENDED,
    NO_HOLD,
    Editor,
    Event,
    Hold,
    Holder,
    LockState,
    Person,
    Taking,
    Version,
)
from leasehold.errors import StoreRefused
from leasehold.valkey.keys import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

NAMESPACE = "doc_lock"
"""The prefix of the documents' keys."""

CHANNEL = "doc_lock:events"
"""The channel on which the scripts publish every change."""


def read_state(document_id: str, payload: bytes) -> LockState:
    """The state that a script returned."""
    return _read(payload, lambda state: _state(document_id, state))


def read_event(payload: bytes) -> Event:
    """The event that a script published."""
    return _read(payload, _event)


def read_hold(payload: bytes) -> Hold:
    """One entry of the history."""
    return _read(payload, _past)


def _read(payload: bytes, make: Callable[[Any], T]) -> T:
    try:
        return make(json.loads(payload))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreRefused(
            "the stored lock of this document cannot be read by this version of Leasehold"
        ) from error


def _event(event: dict[str, Any]) -> Event:
    document_id = name_of(NAMESPACE, event["key"].encode())
    if document_id is None:
        raise ValueError(event["key"])
    by = event["by"]
    return Event(
        kind=event["kind"],
        state=_state(document_id, event["state"]),
        triggered_by=None if by is None else Person(by["user"], by["name"]),
        saved=event["saved"],
    )


def _state(document_id: str, state: dict[str, Any]) -> LockState:
    read_at = state["now_us"] / 1e6
    hold = state.get("hold")
    if hold is None:
        last = _past(state["last"]) if "last" in state else None
        if last is not None:
            version = Version(last.fence, ENDED)
        elif "fence" in state:
            version = Version(int(state["fence"]), ENDED)
        else:
            # The clock is ahead of every lost hold: its watchers see that it is over.
            version = Version(state["now_us"], NO_HOLD)
        return LockState(document_id, version, read_at, last=last)
    idle_ms, taking = hold.get("idle_ms"), hold.get("taking")
    return LockState(
        document_id,
        Version(int(hold["fence"]), hold["step"]),
        read_at,
        holder=Holder(_editor(hold), hold["since_ms"] / 1000, None if idle_ms is None else idle_ms / 1000),
        held_until=hold["until_ms"] / 1000,
        taking=None if taking is None else Taking(_editor(taking), taking["until_ms"] / 1000),
    )


def _past(entry: dict[str, Any]) -> Hold:
    ended_ms, by = entry.get("ended_ms"), entry.get("by")
    return Hold(
        fence=int(entry["fence"]),
        person=Person(entry["user"], entry["name"]),
        acquired_at=entry["since_ms"] / 1000,
        ended_at=None if ended_ms is None else ended_ms / 1000,
        reason=entry.get("reason"),
        ended_by=None if by is None else Person(by["user"], by["name"]),
    )


def _editor(person: dict[str, Any]) -> Editor:
    return Editor(person["user"], person["name"], person["tab"])
