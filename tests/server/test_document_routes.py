"""Documents: in three scopes, listed for users who may see them, deleted unless another user edits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, update
from tests.server.conftest import ON_SQLITE
from tests.server.team import Team, acquire, make_team, problem, save
from tests.support.eventually import LIMIT

from leasehold.documents.state import Editor
from leasehold.server.db.models import DocumentRow, new_id

if TYPE_CHECKING:
    from fastapi import FastAPI
    from tests.server.api import Api


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


async def test_a_new_document_is_empty(team: Team) -> None:
    made = await team.ana.create("/api/documents", title=" Plan ", application_id=team.application_id)
    assert made == {
        "id": made["id"],
        "title": "Plan",
        "owner_id": team.ana.id,
        "application_id": team.application_id,
        "project_id": None,
        "role": "editor",
        "is_personal": False,
        "version": 0,
        "content": "",
        "created_at": made["created_at"],
        "updated_at": made["created_at"],
        "updated_by": team.ana.id,
        "updated_by_name": "Ana",
    }
    path = f"/api/documents/{made['id']}"
    assert (await team.ana.http.get(path)).json() == made
    assert (await team.olga.http.get(path)).json() == made | {"role": "owner"}
    assert (await team.vera.http.get(path)).json() == made | {"role": "viewer"}
    assert problem(await team.otto.http.get(path)) == (403, "not_allowed")


async def test_a_personal_document_is_its_owners_alone(team: Team) -> None:
    made = await team.ana.create("/api/documents", title="Diary")
    assert (made["role"], made["is_personal"]) == ("owner", True)
    path = f"/api/documents/{made['id']}"
    for person in (team.olga, team.ben, team.vera, team.otto):
        assert problem(await person.http.get(path)) == (403, "not_allowed")
        assert problem(await person.http.patch(path, json={"title": "Mine"})) == (403, "not_allowed")
        assert problem(await person.http.delete(path)) == (403, "not_allowed")
        assert (await person.http.get("/api/documents")).json()["items"] == []
    assert (await team.ana.http.delete(path)).status_code == 204


async def test_a_project_document_counts_as_its_applications(team: Team) -> None:
    project_id = await team.ana.create_project(team.application_id)
    made = await team.ana.create("/api/documents", title="Coast", project_id=project_id)
    assert (made["application_id"], made["project_id"], made["is_personal"]) == (None, project_id, False)
    assert (await team.vera.http.get(f"/api/documents/{made['id']}")).json()["role"] == "viewer"
    assert problem(await team.otto.http.get(f"/api/documents/{made['id']}")) == (403, "not_allowed")


async def test_a_document_is_created_where_the_user_may_edit(team: Team) -> None:
    project_id = await team.ana.create_project(team.application_id)
    for scope in ({"application_id": team.application_id}, {"project_id": project_id}):
        body = {"title": "Plan", **scope}
        assert problem(await team.vera.http.post("/api/documents", json=body)) == (403, "not_allowed")
        assert problem(await team.otto.http.post("/api/documents", json=body)) == (403, "not_allowed")
    for unknown in (new_id(), "nothing", "\0"):
        for scope in ("application_id", "project_id"):
            body = {"title": "Plan", scope: unknown}
            assert problem(await team.ana.http.post("/api/documents", json=body)) == (404, "not_found")


@ON_SQLITE
async def test_unknown_fields_of_a_document_are_refused(team: Team) -> None:
    project_id = await team.ana.create_project(team.application_id)
    both = {"application_id": team.application_id, "project_id": project_id}
    for extra in (
        both,
        {"content": "x"},
        {"owner_id": team.ben.id},
        {"version": 1},
        {"fence": "1"},
        {"id": new_id()},
    ):
        answer = await team.ana.http.post("/api/documents", json={"title": "Plan", **extra})
        assert problem(answer) == (422, "invalid_request")
    document_id = await team.document()
    for body in ({}, {"title": "New", "owner_id": team.ana.id}, {"title": "New", "application_id": None}, []):
        assert problem(await team.ana.http.patch(f"/api/documents/{document_id}", json=body))[0] == 422


async def test_renaming_takes_an_editor_and_no_lock(team: Team) -> None:
    document_id = await team.document()
    await acquire(team.ana, document_id)
    path = f"/api/documents/{document_id}"
    assert problem(await team.vera.http.patch(path, json={"title": "No"})) == (403, "not_allowed")
    renamed = (await team.ben.http.patch(path, json={"title": "Yes"})).json()
    assert (renamed["title"], renamed["updated_by"], renamed["version"]) == ("Yes", team.ben.id, 0)
    assert renamed["updated_at"] > renamed["created_at"]
    assert (await team.vera.http.get(path)).json()["title"] == "Yes"


@pytest.mark.both_databases
class TestListing:
    async def test_it_has_visible_documents_newest_change_first(self, team: Team) -> None:
        project_id = await team.ana.create_project(team.application_id)
        old = await team.document("Old")
        inside = await team.ana.create_document("Inside", project_id=project_id)
        diary = await team.ana.create_document("Diary")
        await team.otto.create_document("Otto's")
        grant = await acquire(team.ana, old)
        await save(team.ana, old, "text", 0, grant["fence"])
        listed = (await team.ana.http.get("/api/documents")).json()["items"]
        assert [each["id"] for each in listed] == [old, diary, inside]
        assert [each["role"] for each in listed] == ["editor", "owner", "editor"]
        assert "content" not in listed[0]
        seen_by_vera = (await team.vera.http.get("/api/documents")).json()["items"]
        assert [each["id"] for each in seen_by_vera] == [old, inside]

    async def test_it_can_be_narrowed(self, team: Team) -> None:
        project_id = await team.ana.create_project(team.application_id)
        plan = await team.ana.create_document("Plan", application_id=team.application_id)
        inside = await team.ana.create_document("Inside", project_id=project_id)
        diary = await team.ana.create_document("Diary")
        other = await team.ana.create_document("Other", application_id=await team.ana.create_application())

        async def titles(**asked: Any) -> set[str]:
            page = (await team.ana.http.get("/api/documents", params=asked)).json()
            return {each["id"] for each in page["items"]}

        assert await titles(application_id=team.application_id) == {plan, inside}
        assert await titles(project_id=project_id) == {inside}
        assert await titles(personal=True) == {diary}
        assert await titles(personal=False) == {plan, inside, other}
        assert await titles(application_id=team.application_id, personal=True) == set()
        assert await titles(application_id=new_id()) == set()
        for bad in ("application_id=%00", "project_id=%0a", "personal=perhaps"):
            assert problem(await team.ana.http.get(f"/api/documents?{bad}")) == (422, "invalid_request")

    async def test_it_comes_in_pages(self, team: Team) -> None:
        made = [await team.ana.create_document(f"D{number}") for number in range(5)]
        seen, offset = [], 0
        while offset is not None:
            page = (await team.ana.http.get("/api/documents", params={"limit": 2, "offset": offset})).json()
            seen += [each["id"] for each in page["items"]]
            offset = page["next_offset"]
        assert seen == made[::-1]


class TestDeleting:
    @pytest.mark.both_databases
    async def test_it_takes_an_owner(self, team: Team) -> None:
        document_id = await team.document()
        path = f"/api/documents/{document_id}"
        for person in (team.ana, team.vera, team.otto):
            assert problem(await person.http.delete(path)) == (403, "not_allowed")
        assert (await team.olga.http.delete(path)).status_code == 204
        assert problem(await team.olga.http.get(path)) == (404, "not_found")
        assert problem(await team.olga.http.delete(path)) == (404, "not_found")
        assert problem(await team.ana.http.post(f"{path}/lock")) == (404, "not_found")

    async def test_not_while_another_user_edits(self, team: Team) -> None:
        document_id = await team.document()
        grant = await acquire(team.ana, document_id)
        answer = await team.olga.http.delete(f"/api/documents/{document_id}")
        assert problem(answer) == (409, "lock_busy")
        holder = answer.json()["lock_holder"]
        assert (holder["user_id"], holder["user_name"], holder["same_user"]) == (team.ana.id, "Ana", False)
        assert (await save(team.ana, document_id, "text", 0, grant["fence"], release=True)).status_code == 200
        assert (await team.olga.http.delete(f"/api/documents/{document_id}")).status_code == 204

    async def test_a_document_that_its_owner_edits_can_be_deleted_and_is_not_locked_then(
        self, team: Team, app: FastAPI
    ) -> None:
        document_id = await team.document()
        grant = await acquire(team.olga, document_id)
        await save(team.olga, document_id, "text", 0, grant["fence"])
        assert (await team.olga.http.delete(f"/api/documents/{document_id}")).status_code == 204
        assert not (await app.state.services.locks.state(document_id)).is_locked

    @pytest.mark.both_databases
    async def test_a_grant_in_between_keeps_it(self, team: Team, app: FastAPI) -> None:
        document_id = await team.document()
        locks, editor = app.state.services.locks, Editor.at_tab(team.ana.id, "Ana", "tab of Ana")
        is_free, go = asyncio.Event(), asyncio.Event()
        look = locks.states

        async def check_and_wait(document_ids: list[str]) -> Any:
            states = await look(document_ids)
            if not is_free.is_set():
                is_free.set()
                await go.wait()
            return states

        locks.states = check_and_wait
        deleting = asyncio.ensure_future(team.olga.http.delete(f"/api/documents/{document_id}"))
        await asyncio.wait_for(is_free.wait(), LIMIT)
        granted = await locks.acquire(document_id, editor)
        go.set()
        assert problem(await deleting) == (409, "lock_busy")
        assert (await save(team.ana, document_id, "text", 0, str(granted.fence))).json()["version"] == 1


@pytest.mark.both_databases
async def test_reading_a_document_takes_one_query(team: Team, app: FastAPI) -> None:
    document_id = await team.document()
    asked: list[str] = []
    engine = app.state.services.engine.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    assert (await team.ana.http.get(f"/api/documents/{document_id}")).status_code == 200
    assert len([each for each in asked if each.startswith("SELECT")]) == 1


async def test_content_is_sent_as_it_is_stored(team: Team, app: FastAPI) -> None:
    """Not decoded and encoded again: for a megabyte of small objects that stopped the event loop for a second."""
    document_id, stored = await team.document(), '{ "a" : [ 1.0e1 ] }'
    async with app.state.services.engine.begin() as connection:
        wanted = update(DocumentRow).where(DocumentRow.id == document_id)
        await connection.execute(wanted.values(content=stored))
    response = await team.ana.http.get(f"/api/documents/{document_id}")
    assert response.text.endswith(f',"content":{stored}}}')
    assert response.json()["content"] == {"a": [10]}
