"""What the document service promises of one document, small enough to be read: who holds it, who is told what, and
why each hold ended. It knows no time: nothing runs out here unless it is told so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tests.server.model_row import Row

if TYPE_CHECKING:
    from tests.server.model_row import Save

ENDED = 2**31 - 1
"""The step of a hold that is over."""


class Tab(NamedTuple):
    """One page of somebody's."""

    user: str
    number: int = 1

    @property
    def name(self) -> str:
        """What it calls itself, and nobody else hears."""
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
    """A force-take that waits. Two of the same tab are two."""

    tab: Tab


@dataclass
class Hold:
    """``fence`` is the service's to choose, so it is unknown until it was told."""

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
class News:
    """What everybody who watches is told."""

    kind: str
    by: str | None
    saved: bool | None = None


@dataclass(frozen=True)
class Answer:
    """``code`` is that of a problem, or ok. ``is_mine``: whoever asked holds the lock afterwards.

    ``saved`` is told to whoever took it.
    """

    code: str = "ok"
    is_mine: bool = False
    saved: bool | None = None


@dataclass
class Model:
    """Every verb answers what the service must answer. A grant's fence is given to `learn` afterwards."""

    roles: dict[str, str | None] = field(default_factory=ROLES.copy)
    signed_in: set[Tab] = field(default_factory=lambda: set(TABS))
    watchers: set[Tab] = field(default_factory=set)
    """Whose sockets have joined."""
    hold: Hold | None = None
    takes: list[Take] = field(default_factory=list)
    """Those who wait; the first has put its mark on the hold."""
    outcomes: dict[Take, Answer] = field(default_factory=dict)
    """Of those who wait no longer."""
    history: list[Past] = field(default_factory=list)
    """The newest first."""
    news: News | None = None
    row: Row = field(default_factory=Row)

    @property
    def version(self) -> tuple[int | None, int] | None:
        """What orders states; None before the first hold."""
        if self.hold is not None:
            return self.hold.fence, self.hold.step
        return (self.history[0].fence, ENDED) if self.history else None

    def refusal(self, tab: Tab, needs: str) -> str | None:
        """The code of the problem if they may not do what takes that role."""
        if tab not in self.signed_in:
            return "not_signed_in"
        return None if RANKS.index(self.roles[tab.user]) >= RANKS.index(needs) else "not_allowed"

    def is_held_by(self, tab: Tab) -> bool:
        return self.hold is not None and self.hold.tab == tab

    def learn(self, fence: int) -> None:
        """The fence of the hold in force."""
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
        """A `Take` if the holder is asked first, or somebody else is before them."""
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

    def hang_up(self, take: Take) -> None:
        """The taker goes away. Whoever waits behind them goes on, if they had the mark."""
        had_mark = self.takes[0] is take
        self.takes.remove(take)
        if not had_mark:
            return
        assert self.hold is not None
        self.hold.step += 1
        self.news = News("document_locked", take.tab.user)
        if not self.takes:
            return
        following = self.takes[0]
        if following.tab.user == self.hold.tab.user:
            self._move_to(following.tab)
            self._conclude(None)
        else:
            self._mark(following)

    def stay_silent(self) -> None:
        """The holder does not answer to the mark, and its time is over."""
        self._give_back("taken", saved=False)

    def run_out(self) -> None:
        """The hold ends because nobody has extended it."""
        if self.takes:
            self._hand_over("expired", None, saved=False)
        else:
            self._end("expired", None)
            self.news = News("document_lock_expired", None)

    def save(self, save: Save) -> Answer:
        """What becomes of the text is in ``row.answer``."""
        if refusal := self.refusal(save.tab, "editor"):
            return Answer(refusal)
        self.row.save(save)
        return Answer("save_rescued" if self.row.answer.number is None else "ok")

    def has_lost(self, save: Save) -> bool:
        """Whether the lock is not theirs any more."""
        return self.hold is None or (self.hold.tab, self.hold.fence) != (save.tab, save.fence)

    def give_back(self, save: Save, *, reason: str) -> bool:
        """What a save does that releases; whether the lock had been lost, and not given back by the caller before."""
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
        self.news = News("document_force_save_requested", take.tab.user)

    def _move_to(self, tab: Tab) -> None:
        if self.hold is not None:
            self._end("moved", tab.user)
        self._begin(tab)
        self.news = News("document_locked", tab.user)

    def _give_back(self, reason: str, *, saved: bool) -> None:
        assert self.hold is not None
        if self.takes:
            self._hand_over("taken", self.takes[0].tab.user, saved=saved)
        else:
            holder = self.hold.tab.user
            self._end(reason, holder)
            self.news = News("document_unlocked", holder)

    def _hand_over(self, reason: str, by: str | None, *, saved: bool) -> None:
        winner = self.takes[0].tab
        self._end(reason, by)
        self._begin(winner)
        self._conclude(saved)
        self.news = News("document_force_taken", winner.user, saved)

    def _conclude(self, saved: bool | None) -> None:
        """The tab that has waited longest has got it, and every call of it is told so."""
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
