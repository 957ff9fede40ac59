"""Steps of users on one document: each runs in the service and in the model, and both must give the same outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from tests.server.browser import PATIENCE, Browser, WatchingSocket
from tests.server.model import TABS, Answer, Model, Tab, Take
from tests.server.model_comparison import ModelComparison
from tests.server.shared_browsers import one_more
from tests.support.eventually import eventually_async

if TYPE_CHECKING:
    import httpx
    from tests.server.model_row import Save
    from tests.server.shared_browsers import SharedBrowsers, TakeAttempts

P = ParamSpec("P")

Step = Callable[Concatenate["Example", P], Coroutine[Any, Any, None]]


def step(work: Step[P]) -> Step[P]:
    """Records each call of a step, for the report of a failure."""

    @wraps(work)
    async def noted(example: Example, *arguments: P.args, **options: P.kwargs) -> None:
        actual = [repr(each) for each in arguments] + [f"{name}={value!r}" for name, value in options.items()]
        example.steps.append(f"{work.__name__}({', '.join(actual)})")
        await work(example, *arguments, **options)

    return noted


class Example:
    """One new document, with every user in the initial role."""

    def __init__(self, browsers: SharedBrowsers, take_attempts: TakeAttempts) -> None:
        self.browsers = browsers
        self.take_attempts = take_attempts
        self.model = Model()
        self.saves: dict[Save, dict[str, Any]] = {}
        """Each stored save, and the outcome that its response named."""
        self.steps: list[str] = []
        self.pending: dict[Take, asyncio.Task[httpx.Response]] = {}
        self._holders: set[Tab] = set()
        self._recent_holders: set[Tab] = set()

    async def open(self) -> None:
        self.application_id, self.document_id = await self.browsers.new_document()
        self.comparison = ModelComparison(self.model, self.document_id, self.browsers.ids)
        self.path = f"/api/documents/{self.document_id}"

    async def close(self) -> None:
        for take in list(self.pending):
            with suppress(TimeoutError):
                await self._give_up(take, within=1)
        for tab in TABS:
            await self.browser(tab).disconnect()
            if tab not in self.model.signed_in:
                await self.browser(tab).sign_in()

    def browser(self, tab: Tab) -> Browser:
        return self.browsers.by_tab[tab]

    async def ask(self, tab: Tab, method: str, path: str, **options: Any) -> httpx.Response:
        return await self.browser(tab).ask(method, self.path + path, **options)

    @step
    async def acquire(self, tab: Tab, *, move: bool) -> None:
        expected = self.model.acquire(tab, move=move)
        self._check_grant(tab, expected, await self.ask(tab, "POST", "/lock", json={"move": move}))

    @step
    async def release(self, tab: Tab, *, reason: str) -> None:
        expected = self.model.release(tab, reason=reason)
        answer = await self.ask(tab, "DELETE", "/lock", params={"reason": reason})
        body = self.comparison.check_answer(tab, expected, answer)
        await self._conclude()
        if expected.code == "ok":
            self.comparison.check_lock(tab, body)

    @step
    async def beat(self, tab: Tab, *, idle_for: float | None) -> None:
        expected = self.model.heartbeat(tab, idle_for=idle_for)
        answer = await self.ask(tab, "POST", "/lock/heartbeat", json={"idle_for": idle_for})
        body = self.comparison.check_answer(tab, expected, answer)
        if expected.is_mine:
            assert body["extended"] is True, body
            self.comparison.check_lock(tab, body)

    @step
    async def beat_by_socket(self, tab: Tab, *, idle_for: float | None) -> None:
        watching = self.browser(tab).watching
        if watching is None:
            return
        expected = self.model.heartbeat(tab, idle_for=idle_for)
        reply = await watching.ask("heartbeat", document_id=self.document_id, idle_for=idle_for)
        if expected.code == "not_allowed":
            assert (reply["type"], reply["code"]) == ("error", expected.code), reply
        else:
            assert (reply["type"], reply["extended"]) == ("heartbeat", expected.is_mine), reply
            self.comparison.check_holder(tab, reply["lock_holder"])

    @step
    async def run_out(self) -> None:
        """The holder's last heartbeat sets a short ttl, and the hold expires. No request notices it: sockets get a message."""
        assert self.model.hold is not None
        tab = self.model.hold.tab
        expected = self.model.heartbeat(tab, idle_for=None)
        answer = await self.ask(tab, "POST", "/lock/heartbeat", at=self.browsers.expiring)
        self.comparison.check_answer(tab, expected, answer)
        if not expected.is_mine:
            return
        # The other workers still expect the longer ttl; a join reads the current state.
        for watcher in self.model.watchers:
            await self._watching(watcher).ask("join", document_id=self.document_id)
        self.model.run_out()
        await self._conclude()
        await self._settle()

    @step
    async def save(self, save: Save, *, release: bool, reason: str) -> None:
        """Saves for the first time, or again as after a lost response: then the outcome must be the same."""
        expected = self.model.save(save)
        is_kept = expected.code in {"ok", "save_rescued"}
        lost = self.model.give_back(save, reason=reason) if is_kept and release else self.model.has_lost(save)
        fields = {"content": save.content, "base_version": save.base, "fence": str(save.fence)}
        answer = await self.ask(
            save.tab, "PUT", "/content", json=fields | {"release": release, "reason": reason}
        )
        body = self.comparison.check_answer(save.tab, expected, answer)
        await self._conclude()
        if expected.code == "ok":
            assert body["version"] == self.model.row.answer.number, body
            assert body["lock_lost"] is lost, (body, lost)
        elif expected.code == "save_rescued":
            outcome = self.model.row.version, self.model.row.answer.reason
            assert (body["version"], body["reason"]) == outcome, body
        if is_kept:
            actual = self.model.row.answer._asdict() | {"draft_id": body.get("draft_id")}
            first = self.saves.setdefault(save, actual)
            assert actual == first or not self.model.row.can_repeat(save), (actual, first)

    @step
    async def force_take(self, tab: Tab) -> None:
        """Takes at once if no holder has to be fields to save; otherwise it waits while other steps run."""
        expected = self.model.force_take(tab)
        if isinstance(expected, Answer):
            self._check_grant(tab, expected, await self.ask(tab, "POST", "/lock/force-take"))
            return
        async with one_more(self.take_attempts.attempted[self.document_id], PATIENCE):
            self.pending[expected] = asyncio.create_task(self.ask(tab, "POST", "/lock/force-take"))

    @step
    async def take_without_save(self, tab: Tab) -> None:
        """Takes by force through a worker that gives the holder no time to save."""
        expected = self.model.force_take(tab)
        answer = await self.ask(tab, "POST", "/lock/force-take", at=self.browsers.hurried)
        if isinstance(expected, Take):
            self.model.pass_save_deadline()
            expected = self.model.outcomes.pop(expected)
        self._check_grant(tab, expected, answer)

    @step
    async def cancel_take(self, take: Take) -> None:
        self.model.cancel_take(take)
        await self._give_up(take, within=PATIENCE)
        await self._conclude()
        await self._settle()

    @step
    async def connect(self, tab: Tab, *, by_ticket: bool) -> None:
        if tab in self.model.signed_in:
            await self.browser(tab).connect(self.document_id, by_ticket=by_ticket)
            await self.join(tab)

    @step
    async def join(self, tab: Tab) -> None:
        refusal = self.model.join(tab)
        reply = await self._watching(tab).ask("join", document_id=self.document_id)
        if refusal is None:
            assert (reply["type"], reply["role"]) == ("joined", self.model.roles[tab.user]), reply
        else:
            actual = reply["type"], reply["code"], reply["document_id"]
            assert actual == ("error", refusal, self.document_id), reply

    @step
    async def leave(self, tab: Tab) -> None:
        self.model.watchers.discard(tab)
        reply = await self._watching(tab).ask("leave", document_id=self.document_id)
        assert reply == {"type": "left", "document_id": self.document_id}

    @step
    async def disconnect(self, tab: Tab, *, politely: bool) -> None:
        self.model.watchers.discard(tab)
        if not politely:
            self._watching(tab).cut()
        await self.browser(tab).disconnect()

    @step
    async def set_role(self, user: str, role: str | None) -> None:
        await self.browsers.set_role(self.application_id, user, self.model.roles[user], role)
        self.model.set_role(user, role)

    @step
    async def sign_out(self, tab: Tab) -> None:
        await self.browser(tab).sign_out()
        self.model.sign_out(tab)
        if (watching := self.browser(tab).watching) is not None:
            assert await watching.ended() == 4401
            await self.browser(tab).disconnect()

    @step
    async def sign_in(self, tab: Tab) -> None:
        await self.browser(tab).sign_in()
        self.model.signed_in.add(tab)

    async def check(self, tabs: Iterable[Tab] = TABS) -> None:
        """Compares everything that ``tabs`` can see, in the service and in the model."""
        # Sockets first: a request could cause the messages that they must get without one.
        await self.check_sockets()
        await asyncio.gather(*(self.check_view(tab) for tab in tabs), self.check_history())
        self.check_rows()

    async def check_sockets(self) -> None:
        """Compares the state that each page shows; it arrives without a request, so this waits for it."""
        # A heartbeat may have been requested from a tab just before its hold ended.
        holders = {self.model.hold.tab} if self.model.hold is not None else set[Tab]()
        self._recent_holders, self._holders = self._holders | holders, holders
        for tab in TABS:
            watching = self.browser(tab).watching
            if watching is None:
                assert tab not in self.model.watchers
                continue
            await eventually_async(lambda tab=tab, it=watching: self._matches(tab, it), PATIENCE, 0.002)
            assert not watching.violations, (tab, watching.violations)
            assert not watching.beats_requested or tab in self._recent_holders, (
                f"a heartbeat was requested from {tab}, which holds no lock"
            )
            watching.beats_requested = 0

    async def check_view(self, tab: Tab) -> None:
        """Compares the responses that this tab gets."""
        refusal = self.model.refusal(tab, "viewer")
        body = self.comparison.check_answer(tab, Answer(refusal or "ok"), await self.ask(tab, "GET", "/lock"))
        if refusal is None:
            self.comparison.check_lock(tab, body)
            self.comparison.check_idleness(body["lock_holder"])

    async def check_history(self) -> None:
        answer = await self.browsers.admin.ask("GET", f"{self.path}/lock/history?limit=200")
        self.comparison.check_history(answer.json()["holds"])

    def check_rows(self) -> None:
        document = "SELECT version, content, fence, fence_user_id, fence_tab FROM documents WHERE id = ?"
        versions = (
            "SELECT number, content, author_id, fence FROM versions WHERE document_id = ? ORDER BY number"
        )
        drafts = "SELECT author_id, fence, base_version, content, reason FROM drafts WHERE document_id = ?"
        queries = (document, versions, drafts)
        (row,), *texts = (self.browsers.worker_group.rows(query, self.document_id) for query in queries)
        self.comparison.check_rows(row, *texts)

    def _watching(self, tab: Tab) -> WatchingSocket:
        watching = self.browser(tab).watching
        assert watching is not None
        return watching

    def _matches(self, tab: Tab, watching: WatchingSocket) -> bool:
        assert watching.is_joined == (tab in self.model.watchers), tab
        if watching.is_joined:
            self.comparison.check_socket(tab, watching)
        return True

    def _check_grant(self, tab: Tab, expected: Answer, answer: httpx.Response) -> None:
        body = self.comparison.check_answer(tab, expected, answer)
        if expected.is_mine:
            self.comparison.check_grant(tab, expected, body)

    async def _give_up(self, take: Take, *, within: float) -> None:
        async with one_more(self.take_attempts.withdrawn[self.document_id], within):
            request = self.pending.pop(take)
            request.cancel()
            with suppress(asyncio.CancelledError):
                await request

    async def _conclude(self) -> None:
        """Checks the responses of the takes that have ended."""
        outcomes = list(self.model.outcomes.items())
        self.model.outcomes.clear()
        for take, expected in outcomes:
            answer = await asyncio.wait_for(self.pending.pop(take), PATIENCE)
            self._check_grant(take.tab, expected, answer)

    async def _settle(self) -> None:
        """Waits for a change that no request causes. Without a request if there is a watcher: its messages must be enough."""
        if self.model.watchers:
            await self.check_sockets()
        else:
            await eventually_async(self._check_state, PATIENCE)

    async def _check_state(self) -> bool:
        answer = await self.browsers.admin.ask("GET", f"{self.path}/lock")
        self.comparison.check_lock(self.browsers.admin.tab, answer.json())
        return True
