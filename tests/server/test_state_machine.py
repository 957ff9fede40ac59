"""Users act on one document in any order, over REST and sockets and through several workers: the service must do what
the model does. Hypothesis searches for a sequence in which it does not."""

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
from tests.server.model import TABS, Tab
from tests.server.model_row import Save
from tests.server.planted_bugs import PLANTED, SILENT
from tests.server.shared_browsers import EXPIRING, HURRIED, LASTING, SharedBrowsers, TakeAttempts
from tests.server.worker_group import WorkerGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tests.conftest import Count
    from tests.server.conftest import MakeSettings

pytestmark = ON_SQLITE

EDITORS = TABS[:4]
OWNER = TABS[4]
HOLDER, ELSEWHERE, TAKER = "the holder", "the holder elsewhere", "a taker"
"""The holder, the holder's other tab, and an owner who could take: a random tab would nearly always be another one."""
AT_ONCE = 2
"""Force-takes that wait."""

any_tab = st.sampled_from(TABS)
mostly_editors = st.sampled_from([*[ELSEWHERE] * 4, *EDITORS, *EDITORS, *TABS])
mostly_taker = st.sampled_from([*[TAKER] * 10, *TABS])
mostly_holder = st.sampled_from([*[HOLDER] * 10, *TABS])
reasons = st.sampled_from(["released", "idle"])


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*[usual] * (2 * len(others)), *others])


def is_held(machine: OneDocument) -> bool:
    return machine.model.hold is not None


class OneDocument(RuleBasedStateMachine):
    """Two editors with two tabs each, an owner, a viewer and an outsider act in any order."""

    def __init__(self, browsers: SharedBrowsers, take_attempts: TakeAttempts) -> None:
        super().__init__()
        self.browsers = browsers
        self.example = Example(browsers, take_attempts)
        self.model = self.example.model
        self.do(self.example.open())
        self.seen = ""
        self.turn = 0

    def do(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            self.browsers.worker_group.run(work)
        except Exception as error:
            # Hypothesis prints the steps only of failures that it can reproduce.
            error.add_note("\n".join(["steps:", *self.example.steps]))
            raise

    def resolve(self, drawn: Tab | str) -> Tab:
        """The drawn tab, or the tab that currently has the drawn part."""
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
        watchers=st.sets(any_tab, min_size=1),
        owners=mostly(2, 1),
        is_taken=st.booleans(),
    )
    def begin(self, holder: Tab | None, watchers: set[Tab], owners: int, is_taken: bool) -> None:
        """Most steps need a holder, watchers, and more than one owner."""
        if owners == 2:
            self.do(self.example.set_role("bob", "owner"))
        for tab in sorted(watchers):
            self.do(self.example.connect(tab, by_ticket=False))
        if holder is not None:
            self.do(self.example.acquire(holder, move=False))
        if is_taken:
            self.do(self.example.force_take(self.resolve(TAKER)))

    @rule(drawn=mostly_editors, move=st.booleans())
    def acquire(self, drawn: Tab | str, move: bool) -> None:
        self.do(self.example.acquire(self.resolve(drawn), move=move))

    @precondition(is_held)
    @rule(drawn=mostly_holder, reason=reasons)
    def release(self, drawn: Tab | str, reason: str) -> None:
        self.do(self.example.release(self.resolve(drawn), reason=reason))

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
            self.do(self.example.beat_by_socket(self.resolve(drawn), idle_for=idle_for))
        else:
            self.do(self.example.beat(self.resolve(drawn), idle_for=idle_for))

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
        """Saves from any tab, under the newest grant or an older one of any user, from any version."""
        fences = [past.fence or 0 for past in self.model.history]
        row = self.model.row
        save = Save(
            self.resolve(drawn),
            fence=fences[min(grants_ago, len(fences) - 1)],
            base=max(0, row.version - versions_ago),
            content=f"text {len(self.example.saves)}" if is_new else row.content,
        )
        self.do(self.example.save(save, release=release, reason=reason))

    @precondition(lambda self: self.example.saves)
    @rule(which=st.integers(1, 9), release=st.booleans())
    def save_again(self, which: int, release: bool) -> None:
        """Repeats a save, as a page does after a lost response."""
        saves = list(self.example.saves)
        save = saves[-min(which, len(saves))]
        if self.model.row.can_repeat(save):
            self.do(self.example.save(save, release=release, reason="released"))

    @precondition(lambda self: len(self.model.takes) < AT_ONCE)
    @rule(drawn=mostly_taker, is_patient=mostly(True, False))
    def force_take(self, drawn: Tab | str, is_patient: bool) -> None:
        if is_patient or self.model.takes:
            self.do(self.example.force_take(self.resolve(drawn)))
        else:
            self.do(self.example.take_without_save(self.resolve(drawn)))

    @precondition(lambda self: self.model.takes)
    @rule(first=st.booleans())
    def cancel_take(self, first: bool) -> None:
        self.do(self.example.cancel_take(self.model.takes[0 if first else -1]))

    @rule(tab=any_tab, how=st.sampled_from(["join", "leave", "close", "cut"]), by_ticket=st.booleans())
    def change_watching(self, tab: Tab, how: str, by_ticket: bool) -> None:
        """Begins or ends watching."""
        if self.example.browser(tab).watching is None:
            self.do(self.example.connect(tab, by_ticket=by_ticket))
        elif how == "join":
            self.do(self.example.join(tab))
        elif how == "leave":
            self.do(self.example.leave(tab))
        else:
            self.do(self.example.disconnect(tab, politely=how == "close"))

    @rule(
        tab=any_tab,
        role=st.sampled_from(["editor", "owner", "viewer", None, "signed out"]),
        comes_back=st.booleans(),
    )
    def change_login_or_role(self, tab: Tab, role: str | None, comes_back: bool) -> None:
        """A signed-out user signs in again; or a user signs out, gets another role, or loses it."""
        gone = [each for each in TABS if each not in self.model.signed_in]
        if gone and (comes_back or tab in gone):
            self.do(self.example.sign_in(gone[0]))
        # Not for a user who waits for a lock: whether they still get it would be a race.
        elif any(take.tab.user == tab.user for take in self.model.takes):
            return
        elif role == "signed out":
            self.do(self.example.sign_out(tab))
        elif tab.user in {"ana", "bob", "vera"}:
            self.do(self.example.set_role(tab.user, role))

    @invariant()
    def matches_the_model(self) -> None:
        self.do(self.example.check(self.observers()))

    def observers(self) -> tuple[Tab, ...]:
        """All tabs after a change; otherwise one tab, in turn."""
        before, self.seen = self.seen, repr(self.model)
        self.turn += 1
        return TABS if self.seen != before else (TABS[self.turn % len(TABS)],)

    def teardown(self) -> None:
        self.do(self.example.close())


@pytest.fixture
def take_attempts(monkeypatch: pytest.MonkeyPatch) -> TakeAttempts:
    return TakeAttempts(monkeypatch)


@pytest.fixture
def browsers(
    tmp_path: Path, make_settings: MakeSettings, take_attempts: TakeAttempts
) -> Iterator[SharedBrowsers]:
    """Two workers with long times, and two for steps that let a time expire."""
    usual = {"access_token_seconds": 86_400, "max_messages_per_second": 10_000}
    lasting = make_settings(**usual, document_ttl=3600, document_heartbeat=0.5, document_save_within=3600)
    workers = {
        LASTING: lasting,
        f"{LASTING}_too": lasting,
        HURRIED: make_settings(**usual, document_ttl=3600, document_save_within=0.1),
        EXPIRING: make_settings(**usual, document_ttl=0.3, document_save_within=3600),
    }
    with WorkerGroup(tmp_path, **workers) as worker_group:
        browsers = SharedBrowsers(worker_group)
        worker_group.run(browsers.open())
        try:
            yield browsers
        finally:
            worker_group.run(browsers.close())


@pytest.mark.timeout(3600)
def test_the_service_is_the_model(
    browsers: SharedBrowsers, take_attempts: TakeAttempts, count: Count
) -> None:
    run_state_machine_as_test(
        lambda: OneDocument(browsers, take_attempts),
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


def test_planted_bugs_are_found(browsers: SharedBrowsers, take_attempts: TakeAttempts) -> None:
    """The steps that show each bug pass without the bug."""

    async def play(
        provoke: Callable[[Example], Coroutine[Any, Any, None]], plant: Callable[..., None]
    ) -> None:
        shown = Example(browsers, take_attempts)
        await shown.open()
        try:
            with pytest.MonkeyPatch.context() as patch:
                plant(patch)
                await provoke(shown)
                await shown.check()
        finally:
            await shown.close()

    def plant_with_short_wait(patch: pytest.MonkeyPatch, plant: Callable[..., None]) -> None:
        for module in (example, browser):
            patch.setattr(module, "PATIENCE", 1.0)
        plant(patch)

    for bug, (plant, provoke) in PLANTED.items():
        browsers.worker_group.run(play(provoke, lambda _: None))
        # On a slow machine a short wait also fails without a bug, so it is only for bugs that nothing else can show.
        signs = (AssertionError, TimeoutError) if bug in SILENT else AssertionError
        planting = partial(plant_with_short_wait, plant=plant) if bug in SILENT else plant
        with pytest.raises(signs):  # noqa: PT012 - the message is for what is not raised
            browsers.worker_group.run(play(provoke, planting))
            pytest.fail(f"no check failed although {bug}")
