"""The state of a document's lock, and the order of its states."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal, NamedTuple

EndReason = Literal["released", "idle", "taken", "expired", "moved"]
"""Why a hold ended."""

EventKind = Literal[
    "document_locked",
    "document_unlocked",
    "document_force_taken",
    "document_lock_expired",
    "document_force_save_requested",
]
"""The kinds of events. A force-take that is given up is a ``document_locked`` with a newer version."""

ENDED = 2**31 - 1
"""The step of a hold that is over: after every other step."""

NO_HOLD = -1
"""The step of a lock of which no hold is known. Its fence is the store's clock: newer at every reading."""


class Version(NamedTuple):
    """Orders the states of one document's lock: the later one compares greater.

    A hold begins with step 0. A force-take that is requested, withdrawn, or times out adds 1 each.
    """

    fence: int
    step: int


@dataclass(frozen=True, slots=True)
class Person:
    """A user, as shown to others."""

    user_id: str
    user_name: str


@dataclass(frozen=True, slots=True)
class Editor(Person):
    """A person at one tab. Two tabs of one person are two editors.

    ``tab`` is a digest of the tab's name, never the name itself; empty for a tab without a name.
    It is shown to no user, not even to its owner.
    """

    tab: str = ""

    @classmethod
    def at_tab(cls, user_id: str, user_name: str, tab_name: str | None) -> Editor:
        """Return the person at the tab that calls itself ``tab_name``: in HTTP, the header ``Leasehold-Tab``."""
        tab = hashlib.sha256(tab_name.encode()).hexdigest()[:32] if tab_name else ""
        return cls(user_id, user_name, tab)

    @property
    def person(self) -> Person:
        """Without the tab, for showing to others."""
        return Person(self.user_id, self.user_name)


@dataclass(frozen=True, slots=True)
class Holder:
    """The current holder. ``idle_since`` is the last activity, where that is known. Unix seconds."""

    editor: Editor
    acquired_at: float
    idle_since: float | None = None


@dataclass(frozen=True, slots=True)
class Taking:
    """A force-take in progress: the holder may save until ``save_until`` (Unix seconds on the store's clock)."""

    by: Editor
    save_until: float


@dataclass(frozen=True, slots=True)
class Hold:
    """One past or present hold. ``ended_at`` and ``reason`` are None while it lasts."""

    fence: int
    person: Person
    acquired_at: float
    ended_at: float | None
    reason: EndReason | None
    ended_by: Person | None


@dataclass(frozen=True, slots=True)
class LockState:
    """The state of a document's lock at ``read_at`` on the store's clock.

    ``holder`` is None if it is free; then ``last`` is the last hold and how it ended, if that is known.
    The hold ends at ``held_until`` unless it is extended.
    """

    document_id: str
    version: Version
    read_at: float
    holder: Holder | None = None
    held_until: float | None = None
    taking: Taking | None = None
    last: Hold | None = None

    @property
    def is_locked(self) -> bool:
        """The lock has a holder."""
        return self.holder is not None

    def is_held_by(self, editor: Editor) -> bool:
        """This person holds the lock, at this tab."""
        return self.holder is not None and (self.holder.editor.user_id, self.holder.editor.tab) == (
            editor.user_id,
            editor.tab,
        )


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a lock, and the state that it led to.

    ``saved`` is only set for a force-take: whether the previous editor answered with a save.
    """

    kind: EventKind
    state: LockState
    triggered_by: Person | None
    saved: bool | None = None
