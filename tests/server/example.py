"""What people do with one document: each thing is done by the service and by the model, and both must say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from tests.server.agreement import Agreement
from tests.server.browser import PATIENCE, Browser, Watching
from tests.server.model import TABS, Answer, Model, Tab, Take
from tests.server.workplace import one_more
from tests.support.waiting import eventually_async

if TYPE_CHECKING:
    import httpx
    from tests.server.model_row import Save
    from tests.server.workplace import Looks, Office

P = ParamSpec("P")

Step = Callable[Concatenate["Example", P], Coroutine[Any, Any, None]]


def step(work: Step[P]) -> Step[P]:
    """One that is written down."""

    @wraps(work)
    async def noted(example: Example, *arguments: P.args, **options: P.kwargs) -> None:
        told = [repr(each) for each in arguments] + [f"{name}={value!r}" for name, value in options.items()]
        example.steps.append(f"{work.__name__}({', '.join(told)})")
        await work(example, *arguments, **options)

    return noted


class Example:
    """One fresh document, and everybody in their first role."""

    def __init__(self, office: Office, looks: Looks) -> None:
        self.office = office
        self.looks = looks
        self.model = Model()
        self.saves: dict[Save, dict[str, Any]] = {}
        """What was kept, and what was answered."""
        self.steps: list[str] = []
        self.pending: dict[Take, asyncio.Task[httpx.Response]] = {}
        self._holders: set[Tab] = set()
        self._held_lately: set[Tab] = set()

    async def open(self) -> None:
        self.application_id, self.document_id = await self.office.new_document()
        self.agreement = Agreement(self.model, self.document_id, self.office.ids)
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
        return self.office.browsers[tab]

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
        body = self.agreement.check_answer(tab, expected, answer)
        await self._conclude()
        if expected.code == "ok":
            self.agreement.check_lock(tab, body)

    @step
    async def beat(self, tab: Tab, *, idle_for: float | None) -> None:
        expected = self.model.heartbeat(tab, idle_for=idle_for)
        answer = await self.ask(tab, "POST", "/lock/heartbeat", json={"idle_for": idle_for})
        body = self.agreement.check_answer(tab, expected, answer)
        if expected.is_mine:
            assert body["extended"] is True, body
            self.agreement.check_lock(tab, body)

    @step
    async def beat_by_socket(self, tab: Tab, *, idle_for: float | None) -> None:
        watching = self.browser(tab).watching
        if watching is None:
            return
        expected = self.model.heartbeat(tab, idle_for=idle_for)
        said = await watching.ask("heartbeat", document_id=self.document_id, idle_for=idle_for)
        if expected.code == "not_allowed":
            assert (said["type"], said["code"]) == ("error", expected.code), said
        else:
            assert (said["type"], said["extended"]) == ("heartbeat", expected.is_mine), said
            self.agreement.check_holder(tab, said["lock_holder"])

    @step
    async def run_out(self) -> None:
        """The holder's last heartbeat leaves it a short time, and then it is gone. Nobody asks: sockets are told."""
        assert self.model.hold is not None
        tab = self.model.hold.tab
        expected = self.model.heartbeat(tab, idle_for=None)
        answer = await self.ask(tab, "POST", "/lock/heartbeat", at=self.office.fleeting)
        self.agreement.check_answer(tab, expected, answer)
        if not expected.is_mine:
            return
        # Elsewhere a hold is believed to last longer than there: whoever joins learns how it is.
        for watcher in self.model.watchers:
            await self._watching(watcher).ask("join", document_id=self.document_id)
        self.model.run_out()
        await self._conclude()
        await self._settle()

    @step
    async def save(self, save: Save, *, release: bool, reason: str) -> None:
        """For the first time, or again because the answer was lost: that must be the same then."""
        expected = self.model.save(save)
        is_kept = expected.code in {"ok", "save_rescued"}
        lost = self.model.give_back(save, reason=reason) if is_kept and release else self.model.has_lost(save)
        asked = {"content": save.content, "base_version": save.base, "fence": str(save.fence)}
        answer = await self.ask(
            save.tab, "PUT", "/content", json=asked | {"release": release, "reason": reason}
        )
        body = self.agreement.check_answer(save.tab, expected, answer)
        await self._conclude()
        if expected.code == "ok":
            assert body["version"] == self.model.row.answer.number, body
            assert body["lock_lost"] is lost, (body, lost)
        elif expected.code == "save_rescued":
            outcome = self.model.row.version, self.model.row.answer.reason
            assert (body["version"], body["reason"]) == outcome, body
        if is_kept:
            told = self.model.row.answer._asdict() | {"draft_id": body.get("draft_id")}
            first = self.saves.setdefault(save, told)
            assert told == first or not self.model.row.can_repeat(save), (told, first)

    @step
    async def force_take(self, tab: Tab) -> None:
        """At once if nobody has to be asked; else it waits, and everybody goes on."""
        expected = self.model.force_take(tab)
        if isinstance(expected, Answer):
            self._check_grant(tab, expected, await self.ask(tab, "POST", "/lock/force-take"))
            return
        async with one_more(self.looks.looked[self.document_id], PATIENCE):
            self.pending[expected] = asyncio.create_task(self.ask(tab, "POST", "/lock/force-take"))

    @step
    async def take_from_silent(self, tab: Tab) -> None:
        """The holder has no time to answer."""
        expected = self.model.force_take(tab)
        answer = await self.ask(tab, "POST", "/lock/force-take", at=self.office.hurried)
        if isinstance(expected, Take):
            self.model.stay_silent()
            expected = self.model.outcomes.pop(expected)
        self._check_grant(tab, expected, answer)

    @step
    async def hang_up(self, take: Take) -> None:
        self.model.hang_up(take)
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
        said = await self._watching(tab).ask("join", document_id=self.document_id)
        if refusal is None:
            assert (said["type"], said["role"]) == ("joined", self.model.roles[tab.user]), said
        else:
            told = said["type"], said["code"], said["document_id"]
            assert told == ("error", refusal, self.document_id), said

    @step
    async def leave(self, tab: Tab) -> None:
        self.model.watchers.discard(tab)
        said = await self._watching(tab).ask("leave", document_id=self.document_id)
        assert said == {"type": "left", "document_id": self.document_id}

    @step
    async def disconnect(self, tab: Tab, *, politely: bool) -> None:
        self.model.watchers.discard(tab)
        if not politely:
            self._watching(tab).cut()
        await self.browser(tab).disconnect()

    @step
    async def set_role(self, user: str, role: str | None) -> None:
        await self.office.set_role(self.application_id, user, self.model.roles[user], role)
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
        """Everything that can be seen, by all or by those ``tabs``."""
        # First those who do not ask, so that nobody has asked on their behalf.
        await self.check_sockets()
        await asyncio.gather(*(self.check_view(tab) for tab in tabs), self.check_history())
        self.check_rows()

    async def check_sockets(self) -> None:
        """What every page shows, soon: it is not asked for."""
        # One that was asked for a heartbeat a moment ago may have held it until then.
        holders = {self.model.hold.tab} if self.model.hold is not None else set[Tab]()
        self._held_lately, self._holders = self._holders | holders, holders
        for tab in TABS:
            watching = self.browser(tab).watching
            if watching is None:
                assert tab not in self.model.watchers
                continue
            await eventually_async(lambda tab=tab, it=watching: self._sees(tab, it), PATIENCE, 0.002)
            assert not watching.complaints, (tab, watching.complaints)
            assert not watching.beats_requested or tab in self._held_lately, f"{tab} holds nothing"
            watching.beats_requested = 0

    async def check_view(self, tab: Tab) -> None:
        """What one of them is told who asks."""
        refusal = self.model.refusal(tab, "viewer")
        body = self.agreement.check_answer(tab, Answer(refusal or "ok"), await self.ask(tab, "GET", "/lock"))
        if refusal is None:
            self.agreement.check_lock(tab, body)
            self.agreement.check_idleness(body["lock_holder"])

    async def check_history(self) -> None:
        answer = await self.office.desk.ask("GET", f"{self.path}/lock/history?limit=200")
        self.agreement.check_history(answer.json()["holds"])

    def check_rows(self) -> None:
        document = "SELECT version, content, fence, fence_user_id, fence_tab FROM documents WHERE id = ?"
        versions = (
            "SELECT number, content, author_id, fence FROM versions WHERE document_id = ? ORDER BY number"
        )
        drafts = "SELECT author_id, fence, base_version, content, reason FROM drafts WHERE document_id = ?"
        queries = (document, versions, drafts)
        (row,), *texts = (self.office.fleet.rows(query, self.document_id) for query in queries)
        self.agreement.check_rows(row, *texts)

    def _watching(self, tab: Tab) -> Watching:
        watching = self.browser(tab).watching
        assert watching is not None
        return watching

    def _sees(self, tab: Tab, watching: Watching) -> bool:
        assert watching.is_joined == (tab in self.model.watchers), tab
        if watching.is_joined:
            self.agreement.check_socket(tab, watching)
        return True

    def _check_grant(self, tab: Tab, expected: Answer, answer: httpx.Response) -> None:
        body = self.agreement.check_answer(tab, expected, answer)
        if expected.is_mine:
            self.agreement.check_grant(tab, expected, body)

    async def _give_up(self, take: Take, *, within: float) -> None:
        async with one_more(self.looks.withdrawn[self.document_id], within):
            asking = self.pending.pop(take)
            asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking

    async def _conclude(self) -> None:
        """Those who wait no longer have been answered."""
        outcomes = list(self.model.outcomes.items())
        self.model.outcomes.clear()
        for take, expected in outcomes:
            answer = await asyncio.wait_for(self.pending.pop(take), PATIENCE)
            self._check_grant(take.tab, expected, answer)

    async def _settle(self) -> None:
        """What happens by itself has happened. Nobody asks the service if somebody watches: that must do."""
        if self.model.watchers:
            await self.check_sockets()
        else:
            await eventually_async(self._check_state, PATIENCE)

    async def _check_state(self) -> bool:
        answer = await self.office.desk.ask("GET", f"{self.path}/lock")
        self.agreement.check_lock(self.office.desk.tab, answer.json())
        return True
