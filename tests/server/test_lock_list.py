"""The list of current locks, for the owners of the documents."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.team import Team, acquire, give_time_to_save, make_team, save
from tests.support.eventually import eventually_async

from leasehold.server.documents import locked_documents

if TYPE_CHECKING:
    from tests.server.api import Api, Person


@pytest.fixture
def _time_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    give_time_to_save(monkeypatch)


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


async def locked(person: Person, **asked: Any) -> list[dict[str, Any]]:
    answer = await person.http.get("/api/locks", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


@pytest.mark.both_databases
async def test_owners_see_the_locks_in_their_applications(team: Team) -> None:
    project_id = await team.ana.create_project(team.application_id)
    plan = await team.document("Plan")
    coast = await team.ana.create_document("Coast", project_id=project_id)
    await team.document("Nobody's")
    assert await locked(team.olga) == []
    grant = await acquire(team.ana, plan)
    await acquire(team.ben, coast)
    found = await locked(team.olga)
    assert [(each["document_id"], each["title"], each["project_id"]) for each in found] == [
        (coast, "Coast", project_id),
        (plan, "Plan", None),
    ]
    assert {(each["application_id"], each["application_name"]) for each in found} == {
        (team.application_id, "Atlas")
    }
    lock = found[1]["lock"]
    assert lock["locked"] is True
    assert lock["version"]["fence"] == grant["fence"]
    assert (lock["lock_holder"]["user_id"], lock["lock_holder"]["same_user"]) == (team.ana.id, False)
    await save(team.ana, plan, "text", 0, grant["fence"], release=True)
    assert [each["document_id"] for each in await locked(team.olga)] == [coast]


async def test_other_users_do_not_see_the_locks(team: Team) -> None:
    await acquire(team.ana, await team.document())
    await acquire(team.ana, await team.ana.create_document("Diary"))
    for person in (team.ana, team.ben, team.vera, team.otto):
        assert await locked(person) == []
    assert len(await locked(team.olga)) == 1
    await acquire(team.olga, await team.olga.create_document("Olga's diary"))
    assert len(await locked(team.olga)) == 1, "personal documents are in no owner's list"


@pytest.mark.both_databases
async def test_it_comes_in_pages_and_in_batches(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locked_documents, "_BATCH", 3)
    monkeypatch.setattr(locked_documents, "_MAX_ROWS", 6)
    documents = [await team.document(f"D{number}") for number in range(10)]
    for document_id in documents:
        await acquire(team.ana, document_id)
    for document_id in documents[2:9]:
        await team.ana.http.delete(f"/api/documents/{document_id}/lock")
    expected = [documents[9], documents[1], documents[0]]
    seen, offset, pages = [], 0, 0
    while offset is not None:
        page = (await team.olga.http.get("/api/locks", params={"limit": 2, "offset": offset})).json()
        assert len(page["items"]) <= 2
        seen += [each["document_id"] for each in page["items"]]
        offset, pages = page["next_offset"], pages + 1
    assert seen == expected
    assert pages > 2


@pytest.mark.usefixtures("_time_to_save", "app")
async def test_a_force_take_under_way_is_shown(team: Team) -> None:
    document_id = await team.document()
    grant = await acquire(team.ana, document_id)
    taking = asyncio.ensure_future(team.olga.http.post(f"/api/documents/{document_id}/lock/force-take"))

    async def is_shown() -> Any:
        return (await locked(team.olga))[0]["lock"]["taking"]

    assert (await eventually_async(is_shown))["user_id"] == team.olga.id
    await save(team.ana, document_id, "text", 0, grant["fence"], release=True)
    assert (await taking).status_code == 200
    assert (await locked(team.olga))[0]["lock"]["lock_holder"]["same_user"] is True
