"""Whatever people do with one document, over REST and sockets and through several workers, the service does what the
model does: Hypothesis looks for a sequence in which it does not."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.server import browser, example
from tests.server.conftest import ON_SQLITE
from tests.server.example import Example
from tests.server.fleet import Fleet
from tests.server.model import TABS, Tab
from tests.server.model_row import Save
from tests.server.planted_bugs import PLANTED, SILENT
from tests.server.workplace import FLEETING, HURRIED, LASTING, Looks, Office

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tests.conftest import Count
    from tests.server.conftest import MakeSettings

pytestmark = ON_SQLITE

EDITORS = TABS[:4]
OWNER = TABS[4]
HOLDER, ELSEWHERE, TAKER = "the holder", "the holder elsewhere", "a taker"
"""Whoever holds it, their other tab, and an owner who could take it: else nearly all would be asked by others."""
AT_ONCE = 2
"""Force-takes that wait."""

somebody = st.sampled_from(TABS)
mostly_editors = st.sampled_from([*[ELSEWHERE] * 4, *EDITORS, *EDITORS, *TABS])
mostly_taker = st.sampled_from([*[TAKER] * 10, *TABS])
mostly_holder = st.sampled_from([*[HOLDER] * 10, *TABS])
reasons = st.sampled_from(["released", "idle"])


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*[usual] * (2 * len(others)), *others])


def is_held(machine: OneDocument) -> bool:
    return machine.model.hold is not None


class OneDocument(RuleBasedStateMachine):
    """Two editors with two tabs each, an owner, a viewer and an outsider, and what they do, in any order."""

    def __init__(self, office: Office, looks: Looks) -> None:
        super().__init__()
        self.office = office
        self.example = Example(office, looks)
        self.model = self.example.model
        self.do(self.example.open())
        self.seen = ""
        self.turn = 0

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self.office.fleet.run(work)
        except Exception as error:
            # Hypothesis tells the steps only of what fails every time.
            error.add_note("\n".join(["steps:", *self.example.steps]))
            raise

    def who(self, drawn: Tab | str) -> Tab:
        """The tab that was drawn, or whoever is meant now."""
        if isinstance(drawn, Tab):
            return drawn
        holder = self.model.hold.tab if self.model.hold is not None else self.model.row.tab or TABS[0]
        if drawn == HOLDER:
            return holder
        if drawn == ELSEWHERE:
            return next((tab for tab in TABS if tab.user == holder.user and tab != holder), TABS[1])
        busy = {holder.user, *(take.tab.user for take in self.model.takes)}
        can_take = (tab for tab in TABS if tab.user not in busy and not self.model.refusal(tab, "owner"))
        return next(can_take, OWNER)

    @initialize(
        holder=mostly(EDITORS[0], *EDITORS[1:], None),
        watchers=st.sets(somebody, min_size=1),
        owners=mostly(2, 1),
        is_taken=st.booleans(),
    )
    def begin(self, holder: Tab | None, watchers: set[Tab], owners: int, is_taken: bool) -> None:
        """Most of what can happen needs a holder, watchers, and more than one owner."""
        if owners == 2:
            self.do(self.example.set_role("bob", "owner"))
        for tab in sorted(watchers):
            self.do(self.example.connect(tab, by_ticket=False))
        if holder is not None:
            self.do(self.example.acquire(holder, move=False))
        if is_taken:
            self.do(self.example.force_take(self.who(TAKER)))

    @rule(drawn=mostly_editors, move=st.booleans())
    def acquire(self, drawn: Tab | str, move: bool) -> None:
        self.do(self.example.acquire(self.who(drawn), move=move))

    @precondition(is_held)
    @rule(drawn=mostly_holder, reason=reasons)
    def release(self, drawn: Tab | str, reason: str) -> None:
        self.do(self.example.release(self.who(drawn), reason=reason))

    @precondition(is_held)
    @rule(
        drawn=mostly_holder,
        how=st.sampled_from(["rest", "socket", "last"]),
        idle_for=st.sampled_from([None, 0, 7.5]),
    )
    def beat(self, drawn: Tab | str, how: str, idle_for: float | None) -> None:
        if how == "last":
            self.do(
                self.example.run_out() if self.model.hold.tab in self.model.signed_in else asyncio.sleep(0)
            )
        elif how == "socket":
            self.do(self.example.beat_by_socket(self.who(drawn), idle_for=idle_for))
        else:
            self.do(self.example.beat(self.who(drawn), idle_for=idle_for))

    @precondition(lambda self: self.model.history)
    @rule(
        drawn=mostly_holder,
        grants_ago=mostly(0, 1, 2),
        versions_ago=mostly(0, 1, 2),
        is_new=mostly(True, False),
        release=st.booleans(),
        reason=reasons,
    )
    def save(
        self, drawn: Tab | str, grants_ago: int, versions_ago: int, is_new: bool, release: bool, reason: str
    ) -> None:
        """By whomever, under the newest grant or an older one, whosever that was, from the newest version or not."""
        fences = [past.fence or 0 for past in self.model.history]
        row = self.model.row
        save = Save(
            self.who(drawn),
            fence=fences[min(grants_ago, len(fences) - 1)],
            base=max(0, row.version - versions_ago),
            content=f"text {len(self.example.saves)}" if is_new else row.content,
        )
        self.do(self.example.save(save, release=release, reason=reason))

    @precondition(lambda self: self.example.saves)
    @rule(which=st.integers(1, 9), release=st.booleans())
    def save_again(self, which: int, release: bool) -> None:
        """As a page does whose answer was lost."""
        saves = list(self.example.saves)
        save = saves[-min(which, len(saves))]
        if self.model.row.can_repeat(save):
            self.do(self.example.save(save, release=release, reason="released"))

    @precondition(lambda self: len(self.model.takes) < AT_ONCE)
    @rule(drawn=mostly_taker, is_patient=mostly(True, False))
    def force_take(self, drawn: Tab | str, is_patient: bool) -> None:
        if is_patient or self.model.takes:
            self.do(self.example.force_take(self.who(drawn)))
        else:
            self.do(self.example.take_from_silent(self.who(drawn)))

    @precondition(lambda self: self.model.takes)
    @rule(first=st.booleans())
    def hang_up(self, first: bool) -> None:
        self.do(self.example.hang_up(self.model.takes[0 if first else -1]))

    @rule(tab=somebody, how=st.sampled_from(["join", "leave", "close", "cut"]), by_ticket=st.booleans())
    def attend(self, tab: Tab, how: str, by_ticket: bool) -> None:
        """Watch, or watch no more."""
        if self.example.browser(tab).watching is None:
            self.do(self.example.connect(tab, by_ticket=by_ticket))
        elif how == "join":
            self.do(self.example.join(tab))
        elif how == "leave":
            self.do(self.example.leave(tab))
        else:
            self.do(self.example.disconnect(tab, politely=how == "close"))

    @rule(
        tab=somebody,
        role=st.sampled_from(["editor", "owner", "viewer", None, "signed out"]),
        comes_back=st.booleans(),
    )
    def change_standing(self, tab: Tab, role: str | None, comes_back: bool) -> None:
        """Somebody who had signed out comes back; or somebody signs out, gets another role, or loses it."""
        gone = [each for each in TABS if each not in self.model.signed_in]
        if gone and (comes_back or tab in gone):
            self.do(self.example.sign_in(gone[0]))
        # Of somebody who waits for a lock: whether they still get it is up to whoever is faster.
        elif any(take.tab.user == tab.user for take in self.model.takes):
            return
        elif role == "signed out":
            self.do(self.example.sign_out(tab))
        elif tab.user in {"ana", "bob", "vera"}:
            self.do(self.example.set_role(tab.user, role))

    @invariant()
    def everybody_agrees(self) -> None:
        self.do(self.example.check(self.observers()))

    def observers(self) -> tuple[Tab, ...]:
        """Everybody after something has changed; else one is enough, each in turn."""
        before, self.seen = self.seen, repr(self.model)
        self.turn += 1
        return TABS if self.seen != before else (TABS[self.turn % len(TABS)],)

    def teardown(self) -> None:
        self.do(self.example.close())


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


@pytest.fixture
def office(tmp_path: Path, make_settings: MakeSettings, looks: Looks) -> Iterator[Office]:
    """Two workers where nothing runs out, and two that are asked when something shall."""
    usual = {"access_token_seconds": 86_400, "max_messages_per_second": 10_000}
    lasting = make_settings(**usual, document_ttl=3600, document_heartbeat=0.5, document_save_within=3600)
    workers = {
        LASTING: lasting,
        f"{LASTING}_too": lasting,
        HURRIED: make_settings(**usual, document_ttl=3600, document_save_within=0.1),
        FLEETING: make_settings(**usual, document_ttl=0.3, document_save_within=3600),
    }
    with Fleet(tmp_path, **workers) as fleet:
        office = Office(fleet)
        fleet.run(office.open())
        try:
            yield office
        finally:
            fleet.run(office.close())


@pytest.mark.timeout(3600)
def test_the_service_is_the_model(office: Office, looks: Looks, count: Count) -> None:
    run_state_machine_as_test(
        lambda: OneDocument(office, looks),
        settings=settings(
            max_examples=count(full=200, quick=8),
            stateful_step_count=count(full=50, quick=25),
            deadline=None,
            print_blob=True,
            database=None,
            phases=(Phase.generate, Phase.shrink),
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_planted_bugs_are_noticed(office: Office, looks: Looks) -> None:
    """What shows them is harmless where there are none."""

    async def play(
        provoke: Callable[[Example], Coroutine[Any, Any, None]], plant: Callable[..., None]
    ) -> None:
        shown = Example(office, looks)
        await shown.open()
        try:
            with pytest.MonkeyPatch.context() as patch:
                plant(patch)
                await provoke(shown)
                await shown.check()
        finally:
            await shown.close()

    def plant_impatiently(patch: pytest.MonkeyPatch, plant: Callable[..., None]) -> None:
        for module in (example, browser):
            patch.setattr(module, "PATIENCE", 1.0)
        plant(patch)

    for bug, (plant, provoke) in PLANTED.items():
        office.fleet.run(play(provoke, lambda _: None))
        # Impatience notices everything on a machine that is slow, so it is for what nothing else can show.
        signs = (AssertionError, TimeoutError) if bug in SILENT else AssertionError
        planting = partial(plant_impatiently, plant=plant) if bug in SILENT else plant
        with pytest.raises(signs):  # noqa: PT012 - the message is for what is not raised
            office.fleet.run(play(provoke, planting))
            pytest.fail(f"nobody noticed that {bug}")
