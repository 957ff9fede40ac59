"""Renders changes of locks as messages, for each kind of viewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leasehold.documents.http.schemas import Person, holder_of, lock_of
from leasehold.documents.live.messages import Change, ForceTaken, LockChanged, Takeover
from leasehold.documents.state import Editor, Event

if TYPE_CHECKING:
    from leasehold.documents.state import LockState

_OTHER_VIEWER = Editor("", "")


def infer_event(known: LockState, now: LockState) -> Event | None:
    """The event that must have led from one state to the other, when it was lost; None if nothing changed.

    Only the last of several changes can be inferred, and not whether a force-take saved anything.
    """
    last = now.last
    if now.holder is None:
        if last is None:
            # The store has lost the lock. If it was free before, nothing has changed.
            return None if known.holder is None else Event("document_unlocked", now, None)
        if last.reason == "expired":
            return Event("document_lock_expired", now, None)
        return Event("document_unlocked", now, last.ended_by or last.person)
    holder = now.holder.editor
    if now.taking is not None:
        return Event("document_force_save_requested", now, now.taking.by.person)
    if known.taking is not None and now.version.fence > known.version.fence:
        taker = known.taking.by
        if (taker.user_id, taker.tab) == (holder.user_id, holder.tab):
            return Event("document_force_taken", now, holder.person)
    return Event("document_locked", now, holder.person)


class EventRenderer:
    """A change as text. It is the same for all viewers but the holder, so it is rendered once for them."""

    __slots__ = ("_event", "_mine", "_others", "_same_user", "tab", "user_id")

    def __init__(self, event: Event) -> None:
        self._event = event
        holder = event.state.holder
        self.user_id = None if holder is None else holder.editor.user_id
        self.tab = None if holder is None else holder.editor.tab
        self._others: str | None = None
        self._same_user: str | None = None
        self._mine: str | None = None

    def for_others(self) -> str:
        """For all users but the holder."""
        if self._others is None:
            self._others = _text(self._event, _OTHER_VIEWER)
        return self._others

    def for_holder(self, editor: Editor) -> str:
        """For the user who holds the lock, at this tab or another."""
        if editor.tab == self.tab:
            if self._mine is None:
                self._mine = _text(self._event, editor)
            return self._mine
        if self._same_user is None:
            self._same_user = _text(self._event, editor)
        return self._same_user


def _text(event: Event, viewer: Editor) -> str:
    state = event.state
    by = event.triggered_by
    change: dict[str, Any] = {
        "document_id": state.document_id,
        "lock_holder": holder_of(state, viewer),
        "triggered_by": by and Person(user_id=by.user_id, user_name=by.user_name),
        "timestamp": state.read_at,
        "lock": lock_of(state, viewer),
    }
    if event.kind == "document_force_taken":
        return ForceTaken(data=Takeover(**change, saved=event.saved)).model_dump_json()
    return LockChanged(type=event.kind, data=Change(**change)).model_dump_json()
