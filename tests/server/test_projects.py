"""Projects: editors create them, members see them, owners delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.server.conftest import ON_SQLITE
from tests.server.team import Team, make_team, problem

from leasehold.server.db.models import new_id

if TYPE_CHECKING:
    from tests.server.api import Api


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


async def test_an_editor_creates_a_project_that_members_see(team: Team) -> None:
    made = await team.ana.create("/api/projects", application_id=team.application_id, name="Coast")
    assert (made["name"], made["application_id"]) == ("Coast", team.application_id)
    for person in (team.olga, team.ben, team.vera):
        assert (await person.http.get(f"/api/projects/{made['id']}")).json() == made
        assert (await person.http.get("/api/projects")).json()["items"] == [made]
    assert problem(await team.otto.http.get(f"/api/projects/{made['id']}")) == (403, "not_allowed")
    assert (await team.otto.http.get("/api/projects")).json()["items"] == []


@pytest.mark.both_databases
async def test_projects_of_one_application(team: Team) -> None:
    other = await team.ana.create_application("Other")
    inside = [await team.ana.create_project(team.application_id, name) for name in ("B", "C", "A")]
    await team.ana.create_project(other, "Elsewhere")
    asked = {"application_id": team.application_id, "limit": 2}
    page = (await team.ana.http.get("/api/projects", params=asked)).json()
    assert [each["id"] for each in page["items"]] == [inside[2], inside[0]]
    page = (await team.ana.http.get("/api/projects", params=asked | {"offset": page["next_offset"]})).json()
    assert [each["id"] for each in page["items"]] == [inside[1]]
    assert page["next_offset"] is None
    assert (await team.ben.http.get("/api/projects", params={"application_id": other})).json()["items"] == []
    assert problem(await team.ana.http.get("/api/projects?application_id=%00"))[0] == 422


async def test_a_project_needs_its_application(team: Team) -> None:
    body = {"application_id": new_id(), "name": "Coast"}
    assert problem(await team.ana.http.post("/api/projects", json=body)) == (404, "not_found")
    body["application_id"] = team.application_id
    assert problem(await team.vera.http.post("/api/projects", json=body)) == (403, "not_allowed")
    assert problem(await team.otto.http.post("/api/projects", json=body)) == (403, "not_allowed")


@ON_SQLITE
async def test_unknown_fields_of_a_project_are_refused(team: Team) -> None:
    good = {"application_id": team.application_id, "name": "Coast"}
    for body in (
        {"name": "x"},
        {"application_id": team.application_id},
        good | {"id": new_id()},
        good | {"a": 1},
    ):
        assert problem(await team.ana.http.post("/api/projects", json=body)) == (422, "invalid_request")


@pytest.mark.both_databases
async def test_an_owner_deletes_it_with_its_documents(team: Team) -> None:
    project_id = await team.ana.create_project(team.application_id)
    inside = await team.ana.create_document(project_id=project_id)
    outside = await team.document()
    path = f"/api/projects/{project_id}"
    for person in (team.ana, team.vera, team.otto):
        assert problem(await person.http.delete(path)) == (403, "not_allowed")
    assert (await team.olga.http.delete(path)).status_code == 204
    assert problem(await team.olga.http.get(path)) == (404, "not_found")
    assert problem(await team.olga.http.delete(path)) == (404, "not_found")
    assert problem(await team.olga.http.get(f"/api/documents/{inside}")) == (404, "not_found")
    assert (await team.olga.http.get(f"/api/documents/{outside}")).status_code == 200
