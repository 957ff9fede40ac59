"""Drafts: editors see and compare them, restore them under the lock; the author or an owner discards them."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.server.conftest import ON_SQLITE
from tests.server.rows import drafts_of, versions_of
from tests.server.team import Team, acquire, make_team, problem, save
from tests.support.eventually import LIMIT, eventually_async

from leasehold.server.db.models import new_id
from leasehold.server.documents import draft_routes, drafts
from leasehold.server.documents.diff import unified_diff
from leasehold.server.http.large_bodies import AT_ONCE

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI
    from tests.server.api import Api, Person

    from leasehold.documents.ports import Content


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


class Case:
    """A document at version 1 that Ana holds, and a draft of Ben's that was made from version 0."""

    def __init__(self, team: Team, document_id: str, fence: str, draft_id: str) -> None:
        self.team, self.document_id, self.fence, self.draft_id = team, document_id, fence, draft_id
        self.path = f"/api/documents/{document_id}/drafts"

    async def restore(self, person: Person, *, base: int = 1, fence: str | None = None) -> httpx.Response:
        body = {"base_version": base, "fence": fence or self.fence}
        return await person.http.post(f"{self.path}/{self.draft_id}/restore", json=body)

    async def discard(self, person: Person) -> httpx.Response:
        return await person.http.post(f"{self.path}/{self.draft_id}/discard")

    async def draft(self) -> dict[str, Any]:
        return (await self.team.olga.http.get(f"{self.path}/{self.draft_id}")).json()

    async def document(self) -> dict[str, Any]:
        return (await self.team.vera.http.get(f"/api/documents/{self.document_id}")).json()


@pytest.fixture
async def case(team: Team) -> Case:
    document_id = await team.document()
    old = (await acquire(team.ben, document_id))["fence"]
    await team.ben.http.delete(f"/api/documents/{document_id}/lock")
    fence = (await acquire(team.ana, document_id))["fence"]
    await save(team.ana, document_id, "one\ntwo\nthree", 0, fence)
    rescued = await save(team.ben, document_id, "one\n2\nthree", 0, old)
    return Case(team, document_id, fence, rescued.json()["draft_id"])


class CountedTurns(asyncio.Semaphore):
    """Turns that count how often one was asked for."""

    asked_for = 0

    async def acquire(self) -> Literal[True]:
        self.asked_for += 1
        return await super().acquire()


@pytest.mark.both_databases
async def test_editors_see_all_drafts_open_ones_first(case: Case) -> None:
    team = case.team
    later = (await save(team.ben, case.document_id, "later", 0, "1")).json()["draft_id"]
    await case.discard(team.ben)
    last = (await save(team.ana, case.document_id, "last", 0, "1")).json()["draft_id"]
    for person in (team.ana, team.ben, team.olga):
        listed = (await person.http.get(case.path)).json()["items"]
        assert [draft["id"] for draft in listed] == [last, later, case.draft_id]
        assert [draft["status"] for draft in listed] == ["open", "open", "discarded"]
        assert "content" not in listed[0]
    page = (await team.ana.http.get(case.path, params={"limit": 1, "offset": 1})).json()
    assert [draft["id"] for draft in page["items"]] == [later]
    assert page["next_offset"] == 2


async def test_a_draft_has_author_base_and_reason(case: Case) -> None:
    draft = await case.draft()
    assert draft["content"] == "one\n2\nthree"
    assert (draft["document_id"], draft["base_version"]) == (case.document_id, 0)
    assert (draft["author_id"], draft["author_name"]) == (case.team.ben.id, "Ben")
    assert (draft["reason"], draft["status"]) == ("stale_fence", "open")
    assert (draft["settled_at"], draft["settled_by"]) == (None, None)
    assert draft["fence"].isdigit()


class TestComparing:
    async def test_the_draft_beside_its_base_and_the_document(self, case: Case) -> None:
        found = (await case.team.ana.http.get(f"{case.path}/{case.draft_id}/compare")).json()
        assert found["draft"] == await case.draft()
        assert found["base"] == {"version": 0, "content": ""}
        assert found["current"] == {"version": 1, "content": "one\ntwo\nthree"}
        assert found["diff"] == ["@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"]

    async def test_a_later_base(self, case: Case) -> None:
        team = case.team
        await save(team.ana, case.document_id, "four", 1, case.fence)
        late = (await save(team.ana, case.document_id, "five", 1, case.fence)).json()["draft_id"]
        found = (await team.ana.http.get(f"{case.path}/{late}/compare")).json()
        assert found["base"] == {"version": 1, "content": "one\ntwo\nthree"}
        assert found["current"] == {"version": 2, "content": "four"}

    async def test_an_unknown_base(self, case: Case) -> None:
        strange = (await save(case.team.ben, case.document_id, "x", 77, "1")).json()["draft_id"]
        found = (await case.team.ana.http.get(f"{case.path}/{strange}/compare")).json()
        assert found["base"] is None

    async def test_only_a_few_at_a_time_take_memory(
        self, case: Case, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        running, most = 0, 0

        def counted(old: Content, new: Content) -> list[str] | None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            time.sleep(0.02)  # others would begin by now
            running -= 1
            return unified_diff(old, new)

        monkeypatch.setattr(draft_routes, "unified_diff", counted)
        path = f"{case.path}/{case.draft_id}/compare"
        people = (case.team.ana, case.team.ben, case.team.olga)
        answers = await asyncio.gather(*(each.http.get(path) for each in people for _ in range(2)))
        assert [answer.status_code for answer in answers] == [200] * 6
        assert most <= AT_ONCE

    async def test_one_user_does_not_keep_others_waiting(
        self, case: Case, app: FastAPI, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        turns = CountedTurns(1)
        app.state.services = replace(app.state.services, decoding=turns)
        go_on = threading.Event()
        compared: list[Content] = []

        def noted(old: Content, new: Content) -> list[str] | None:
            compared.append(new)
            go_on.wait(LIMIT)
            return unified_diff(old, new)

        monkeypatch.setattr(draft_routes, "unified_diff", noted)
        other = (await save(case.team.ben, case.document_id, "other", 0, "1")).json()["draft_id"]
        of_ana, of_ben = (f"{case.path}/{draft}/compare" for draft in (case.draft_id, other))
        requests = [asyncio.create_task(case.team.ana.http.get(of_ana)) for _ in range(3)]
        await eventually_async(lambda: compared)
        requests.append(asyncio.create_task(case.team.ben.http.get(of_ben)))
        # Ana's first and Ben's: her others wait apart, so that his is the next.
        await eventually_async(lambda: turns.asked_for == 2)
        go_on.set()
        assert [answer.status_code for answer in await asyncio.gather(*requests)] == [200] * 4
        assert compared == ["one\n2\nthree", "other", "one\n2\nthree", "one\n2\nthree"]

    async def test_json_as_people_write_it(self, case: Case) -> None:
        team = case.team
        content = {"type": "doc", "content": [{"type": "text", "text": "two"}]}
        await save(team.ana, case.document_id, content, 1, case.fence)
        content["content"][0]["text"] = "2"
        late = (await save(team.ana, case.document_id, content, 1, case.fence)).json()["draft_id"]
        diff = (await team.ana.http.get(f"{case.path}/{late}/compare")).json()["diff"]
        assert [line for line in diff if line[0] in "+-"] == ['-      "text": "two",', '+      "text": "2",']


class TestRestoring:
    @pytest.mark.both_databases
    async def test_under_the_lock_it_is_the_next_version(self, case: Case) -> None:
        answer = await case.restore(case.team.ana)
        assert (answer.status_code, answer.json()) == (200, {"version": 2, "lock_lost": False})
        document = await case.document()
        assert (document["version"], document["content"]) == (2, "one\n2\nthree")
        assert document["updated_by"] == case.team.ana.id
        draft = await case.draft()
        assert (draft["status"], draft["settled_by"]) == ("restored", case.team.ana.id)
        assert draft["settled_at"] >= draft["created_at"]

    async def test_repeated_it_is_the_same_version(self, case: Case) -> None:
        first = (await case.restore(case.team.ana)).json()
        assert (await case.restore(case.team.ana)).json() == first
        await save(case.team.ana, case.document_id, "more", 2, case.fence, release=True)
        await acquire(case.team.ben, case.document_id)
        assert (await case.restore(case.team.ana)).json() == first | {"lock_lost": True}
        assert (await case.document())["version"] == 3

    async def test_a_settled_draft_is_not_restored_again(self, case: Case) -> None:
        await case.restore(case.team.ana)
        assert problem(await case.restore(case.team.ana, base=2)) == (409, "already_exists")
        assert (await case.document())["version"] == 2

    async def test_without_the_lock_it_stays_a_draft(self, case: Case, api: Api) -> None:
        team = case.team
        other_tab = await api.at_tab(team.ana, "another tab")
        for person, base, fence, reason in (
            (team.ben, 1, None, "not_holder"),
            (other_tab, 1, None, "not_holder"),
            (team.ana, 1, "1", "stale_fence"),
            (team.ana, 0, None, "stale_base"),
        ):
            answer = await case.restore(person, base=base, fence=fence)
            assert problem(answer) == (409, "save_rescued")
            told = answer.json()
            assert (told["draft_id"], told["reason"], told["version"]) == (case.draft_id, reason, 1)
        assert (await case.draft())["status"] == "open"
        assert len((await team.ana.http.get(case.path)).json()["items"]) == 1, "and it is not a second one"
        assert (await case.document())["version"] == 1

    async def test_a_draft_equal_to_the_document_creates_no_version_and_is_settled(self, case: Case) -> None:
        await save(case.team.ana, case.document_id, "one\n2\nthree", 1, case.fence)
        for _ in range(2):
            assert (await case.restore(case.team.ana, base=2)).json()["version"] == 2
        assert (await case.draft())["status"] == "restored"

    @pytest.mark.both_databases
    async def test_many_at_once_make_one_version(self, case: Case) -> None:
        answers = await asyncio.gather(*(case.restore(case.team.ana) for _ in range(5)))
        assert {(answer.status_code, answer.json()["version"]) for answer in answers} == {(200, 2)}
        assert (await case.document())["version"] == 2

    @pytest.mark.both_databases
    async def test_it_is_settled_and_made_a_version_together_or_not_at_all(
        self, case: Case, app: FastAPI, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def fail(*_: Any) -> None:
            raise RuntimeError("between draft and version")

        monkeypatch.setattr(drafts, "add_version", fail)
        assert problem(await case.restore(case.team.ana))[0] == 500
        sessions = app.state.services.database
        assert [draft.status for draft in await drafts_of(sessions, case.document_id)] == ["open"]
        assert len(await versions_of(sessions, case.document_id)) == 1


class TestDiscarding:
    async def test_by_its_author_or_an_owner(self, case: Case) -> None:
        team = case.team
        for person in (team.ana, team.vera, team.otto):
            assert problem(await case.discard(person)) == (403, "not_allowed")
        discarded = (await case.discard(team.ben)).json()
        assert (discarded["status"], discarded["settled_by"]) == ("discarded", team.ben.id)
        assert (await case.discard(team.olga)).json() == discarded, (
            "twice is harmless, and the first one counts"
        )
        assert (await case.draft())["content"] == "one\n2\nthree", "it is kept all the same"

    async def test_it_is_not_restored_afterwards(self, case: Case) -> None:
        await case.discard(case.team.olga)
        assert problem(await case.restore(case.team.ana)) == (409, "already_exists")
        assert (await case.document())["version"] == 1

    async def test_a_restored_draft_is_not_discarded(self, case: Case) -> None:
        await case.restore(case.team.ana)
        assert problem(await case.discard(case.team.ben)) == (409, "already_exists")

    async def test_an_author_who_is_now_a_viewer(self, case: Case) -> None:
        team = case.team
        member = f"/api/applications/{team.application_id}/members/{team.ben.id}"
        await team.olga.http.patch(member, json={"role": "viewer"})
        assert (await case.discard(team.ben)).status_code == 200
        await team.olga.http.delete(member)
        assert problem(await case.discard(team.ben)) == (403, "not_allowed")


@pytest.mark.parametrize("which", [new_id(), "nothing"], ids=["none", "a word"])
async def test_missing_drafts(case: Case, which: str) -> None:
    case.draft_id = which
    team = case.team
    for answer in (
        await team.ana.http.get(f"{case.path}/{which}"),
        await team.ana.http.get(f"{case.path}/{which}/compare"),
        await case.restore(team.ana),
        await case.discard(team.olga),
    ):
        assert problem(answer) == (404, "not_found")


@ON_SQLITE
async def test_restoring_takes_a_fence_and_a_base_and_nothing_else(case: Case) -> None:
    good = {"base_version": 1, "fence": case.fence}
    for body in (
        {"base_version": 1},
        {"fence": case.fence},
        good | {"content": "other"},
        good | {"fence": int(case.fence)},
        good | {"base_version": -1},
    ):
        answer = await case.team.ana.http.post(f"{case.path}/{case.draft_id}/restore", json=body)
        assert problem(answer) == (422, "invalid_request")
    assert (await case.draft())["status"] == "open"
