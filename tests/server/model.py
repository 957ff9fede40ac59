"""A model of the document service for one document, small enough to be read: the holder, the messages, and
the reason for the end of each hold. It has no clock: holds expire only by an explicit step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tests.server.model_row import Row

if TYPE_CHECKING:
    from tests.server.model_row import Save

ENDED = 2**31 - 1
"""The step of a hold that is over."""

NO_HOLD = -1
"""The step before the first hold; the fence is the store's clock."""


class Tab(NamedTuple):
    """One tab of a user."""

    user: str
    number: int = 1

    @property
    def name(self) -> str:
        """The tab's own name, which other users never receive."""
        return f"tab-{self.number}-of-{self.user}-kept-to-itself"

    def __repr__(self) -> str:
        return f"{self.user}-{self.number}"


TABS = tuple(
    Tab(*who) for who in (("ana", 1), ("ana", 2), ("bob", 1), ("bob", 2), ("olga",), ("vera",), ("otto",))
)
ROLES: dict[str, str | None] = {
    "ana": "editor",
    "bob": "editor",
    "olga": "owner",
    "vera": "viewer",
    "otto": None,
}
RANKS = (None, "viewer", "editor", "owner")


@dataclass(eq=False)
class Take:
    """A waiting force-take. Two of the same tab are different."""

    tab: Tab


@dataclass
class Hold:
    """A hold. The service chooses ``fence``, so it is unknown until a response contains it."""

    tab: Tab
    fence: int | None = None
    step: int = 0
    idle_for: float | None = None


@dataclass
class Past:
    """A line of the history; its ``reason`` is None while the hold lasts."""

    user: str
    fence: int | None = None
    reason: str | None = None
    ended_by: str | None = None


@dataclass(frozen=True)
class Event:
    """The message that every watcher gets."""

    kind: str
    by: str | None
    saved: bool | None = None


@dataclass(frozen=True)
class Answer:
    """``code`` is that of a problem, or ok. ``is_mine``: the caller holds the lock afterwards.

    ``saved`` is for the taker.
    """

    code: str = "ok"
    is_mine: bool = False
    saved: bool | None = None


@dataclass
class Model:
    """Every verb returns what the service must answer. A grant's fence is given to `set_fence` afterwards."""

    roles: dict[str, str | None] = field(default_factory=ROLES.copy)
    signed_in: set[Tab] = field(default_factory=lambda: set(TABS))
    watchers: set[Tab] = field(default_factory=set)
    """Tabs whose sockets have joined."""
    hold: Hold | None = None
    takes: list[Take] = field(default_factory=list)
    """Waiting force-takes; the first has put its mark on the hold."""
    outcomes: dict[Take, Answer] = field(default_factory=dict)
    """Outcomes of takes that wait no longer."""
    history: list[Past] = field(default_factory=list)
    """The newest first."""
    event: Event | None = None
    row: Row = field(default_factory=Row)

    @property
    def version(self) -> tuple[int | None, int] | None:
        """Fence and step, by which states are ordered; None before the first hold."""
        if self.hold is not None:
            return self.hold.fence, self.hold.step
        return (self.history[0].fence, ENDED) if self.history else None

    def refusal(self, tab: Tab, needs: str) -> str | None:
        """The code of the problem if the tab lacks the role."""
        if tab not in self.signed_in:
            return "not_signed_in"
        return None if RANKS.index(self.roles[tab.user]) >= RANKS.index(needs) else "not_allowed"

    def is_held_by(self, tab: Tab) -> bool:
        return self.hold is not None and self.hold.tab == tab

    def set_fence(self, fence: int) -> None:
        """Sets the fence of the current hold."""
        assert self.hold is not None
        if self.hold.fence is not None:
            assert fence == self.hold.fence, f"the same hold has fence {self.hold.fence}, and now {fence}"
            return
        newest = max((past.fence for past in self.history if past.fence is not None), default=0)
        assert fence > newest, f"fence {fence} comes after {newest}"
        self.hold.fence = self.history[0].fence = fence
        self.row.register(fence, self.hold.tab)

    def acquire(self, tab: Tab, *, move: bool) -> Answer:
        if refusal := self.refusal(tab, "editor"):
            return Answer(refusal)
        if self.hold is not None and self.hold.tab == tab:
            self.hold.idle_for = None
            return Answer(is_mine=True)
        if self.hold is not None and (self.hold.tab.user != tab.user or not move or self.takes):
            return Answer("lock_busy")
        self._move_to(tab)
        return Answer(is_mine=True)

    def release(self, tab: Tab, *, reason: str) -> Answer:
        if refusal := self.refusal(tab, "viewer"):
            return Answer(refusal)
        if self.is_held_by(tab):
            self._give_back(reason, saved=False)
        return Answer()

    def heartbeat(self, tab: Tab, *, idle_for: float | None) -> Answer:
        if refusal := self.refusal(tab, "viewer"):
            return Answer(refusal)
        if self.hold is None or self.hold.tab != tab or self.refusal(tab, "editor"):
            return Answer("lease_lost")
        self.hold.idle_for = idle_for
        return Answer(is_mine=True)

    def force_take(self, tab: Tab) -> Answer | Take:
        """A `Take` if the holder is asked to save first, or if another take waits."""
        if refusal := self.refusal(tab, "owner"):
            return Answer(refusal)
        if self.hold is not None and self.hold.tab == tab:
            self.hold.idle_for = None
            return Answer(is_mine=True)
        if self.hold is None or (self.hold.tab.user == tab.user and not self.takes):
            self._move_to(tab)
            return Answer(is_mine=True)
        self.takes.append(take := Take(tab))
        if len(self.takes) == 1:
            self._mark(take)
        return take

    def cancel_take(self, take: Take) -> None:
        """Cancels a take. If it had the mark, the next take gets it."""
        had_mark = self.takes[0] is take
        self.takes.remove(take)
        if not had_mark:
            return
        assert self.hold is not None
        self.hold.step += 1
        self.event = Event("document_locked", take.tab.user)
        if not self.takes:
            return
        following = self.takes[0]
        if following.tab.user == self.hold.tab.user:
            self._move_to(following.tab)
            self._conclude(None)
        else:
            self._mark(following)

    def pass_save_deadline(self) -> None:
        """The holder's time to save ends without a save."""
        self._give_back("taken", saved=False)

    def run_out(self) -> None:
        """The hold expires."""
        if self.takes:
            self._hand_over("expired", None, saved=False)
        else:
            self._end("expired", None)
            self.event = Event("document_lock_expired", None)

    def save(self, save: Save) -> Answer:
        """Saves; ``row.answer`` is the outcome."""
        if refusal := self.refusal(save.tab, "editor"):
            return Answer(refusal)
        self.row.save(save)
        return Answer("save_rescued" if self.row.answer.number is None else "ok")

    def has_lost(self, save: Save) -> bool:
        """Whether the save's tab no longer holds the lock."""
        return self.hold is None or (self.hold.tab, self.hold.fence) != (save.tab, save.fence)

    def give_back(self, save: Save, *, reason: str) -> bool:
        """Releases with a save; returns whether the lock was lost rather than released by the caller before."""
        if not self.has_lost(save):
            self._give_back(reason, saved=self.row.answer.number is not None)
            return False
        return save.fence not in {past.fence for past in self.history if past.reason in {"released", "idle"}}

    def join(self, tab: Tab) -> str | None:
        """The code of the refusal, if it is one."""
        refusal = self.refusal(tab, "viewer")
        if refusal is None:
            self.watchers.add(tab)
        return refusal

    def set_role(self, user: str, role: str | None) -> None:
        self.roles[user] = role
        if role is None:
            self.watchers = {tab for tab in self.watchers if tab.user != user}

    def sign_out(self, tab: Tab) -> None:
        self.signed_in.discard(tab)
        self.watchers.discard(tab)

    def _mark(self, take: Take) -> None:
        assert self.hold is not None
        self.hold.step += 1
        self.event = Event("document_force_save_requested", take.tab.user)

    def _move_to(self, tab: Tab) -> None:
        if self.hold is not None:
            self._end("moved", tab.user)
        self._begin(tab)
        self.event = Event("document_locked", tab.user)

    def _give_back(self, reason: str, *, saved: bool) -> None:
        assert self.hold is not None
        if self.takes:
            self._hand_over("taken", self.takes[0].tab.user, saved=saved)
        else:
            holder = self.hold.tab.user
            self._end(reason, holder)
            self.event = Event("document_unlocked", holder)

    def _hand_over(self, reason: str, by: str | None, *, saved: bool) -> None:
        winner = self.takes[0].tab
        self._end(reason, by)
        self._begin(winner)
        self._conclude(saved)
        self.event = Event("document_force_taken", winner.user, saved)

    def _conclude(self, saved: bool | None) -> None:
        """Ends the waiting takes: every call of the first tab succeeds."""
        winner = self.takes[0].tab
        won = Answer(is_mine=True, saved=saved)
        for take in self.takes:
            self.outcomes[take] = won if take.tab == winner else Answer("lock_busy")
        self.takes.clear()

    def _begin(self, tab: Tab) -> None:
        self.hold = Hold(tab)
        self.history.insert(0, Past(tab.user))

    def _end(self, reason: str, by: str | None) -> None:
        self.hold = None
        self.history[0].reason, self.history[0].ended_by = reason, by
