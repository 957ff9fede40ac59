"""Applications: any user creates them, members see them, owners change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.server.conftest import ON_SQLITE
from tests.server.team import Team, acquire, make_team, problem, save

from leasehold.server.db.models import new_id

if TYPE_CHECKING:
    from tests.server.api import Api


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


async def test_the_creator_of_an_application_owns_it(api: Api) -> None:
    ana = await api.register("Ana")
    made = await ana.create("/api/applications", name="  Atlas ")
    assert made["name"] == "Atlas"
    assert made["role"] == "owner"
    assert (await ana.http.get(f"/api/applications/{made['id']}")).json() == made
    members = (await ana.http.get(f"/api/applications/{made['id']}/members")).json()["items"]
    assert [(member["user_id"], member["role"]) for member in members] == [(ana.id, "owner")]


@pytest.mark.both_databases
async def test_a_user_sees_their_applications_by_name_with_their_role(team: Team) -> None:
    second = await team.ana.create_application("Zebra")
    first = await team.ana.create_application("Aachen")
    listed = (await team.ana.http.get("/api/applications")).json()
    assert [(each["id"], each["role"]) for each in listed["items"]] == [
        (first, "owner"),
        (team.application_id, "editor"),
        (second, "owner"),
    ]
    assert listed["next_offset"] is None
    assert (await team.otto.http.get("/api/applications")).json()["items"] == []


@pytest.mark.both_databases
async def test_lists_come_in_pages(api: Api) -> None:
    ana = await api.register("Ana")
    made = [await ana.create_application(f"A{number}") for number in range(5)]
    seen, offset = [], 0
    while offset is not None:
        page = (await ana.http.get("/api/applications", params={"limit": 2, "offset": offset})).json()
        assert len(page["items"]) <= 2
        seen += [each["id"] for each in page["items"]]
        offset = page["next_offset"]
    assert seen == made


@pytest.mark.parametrize(
    "asked",
    [{"limit": 0}, {"limit": 201}, {"limit": "x"}, {"offset": -1}, {"offset": 10**12}, {"limit": "nan"}],
    ids=["none", "too many", "a word", "before the first", "too far", "not a number"],
)
@ON_SQLITE
async def test_pages_have_bounds(api: Api, asked: dict[str, object]) -> None:
    ana = await api.register("Ana")
    for path in ("/api/applications", "/api/projects", "/api/documents", "/api/locks"):
        assert problem(await ana.http.get(path, params=asked)) == (422, "invalid_request")


async def test_owners_rename(team: Team) -> None:
    path = f"/api/applications/{team.application_id}"
    renamed = (await team.olga.http.patch(path, json={"name": "Globe"})).json()
    assert (renamed["name"], renamed["role"]) == ("Globe", "owner")
    assert (await team.vera.http.get(path)).json() == renamed | {"role": "viewer"}


@pytest.mark.both_databases
async def test_owners_delete_with_everything_inside(team: Team) -> None:
    project_id = await team.ana.create_project(team.application_id)
    document_id = await team.document()
    inside = await team.ana.create_document(project_id=project_id)
    path = f"/api/applications/{team.application_id}"
    assert (await team.olga.http.delete(path)).status_code == 204
    for gone in (
        path,
        f"/api/projects/{project_id}",
        f"/api/documents/{document_id}",
        f"/api/documents/{inside}",
    ):
        assert problem(await team.olga.http.get(gone)) == (404, "not_found")
    assert problem(await team.olga.http.delete(path)) == (404, "not_found")
    assert (await team.ana.http.get("/api/documents")).json()["items"] == []


async def test_an_application_is_not_deleted_while_another_user_edits_inside(team: Team) -> None:
    project_id = await team.ana.create_project(team.application_id)
    document_id = await team.ana.create_document(project_id=project_id)
    fence = (await acquire(team.ana, document_id))["fence"]
    for path in (f"/api/applications/{team.application_id}", f"/api/projects/{project_id}"):
        answer = await team.olga.http.delete(path)
        assert problem(answer) == (409, "lock_busy")
        assert answer.json()["lock_holder"]["user_id"] == team.ana.id
    assert (await save(team.ana, document_id, "text", 0, fence, release=True)).status_code == 200
    await acquire(team.olga, document_id)
    assert (await team.olga.http.delete(f"/api/applications/{team.application_id}")).status_code == 204


@pytest.mark.parametrize(
    "name",
    ["", " ", "\u00a0 ", "a\0b", "a\nb", "\u202ename", "x" * 201, None, 1, ["name"]],
    ids=[
        "empty",
        "blank",
        "blank too",
        "nul",
        "two lines",
        "turned around",
        "too long",
        "null",
        "number",
        "list",
    ],
)
@ON_SQLITE
async def test_a_name_is_one_readable_line(api: Api, name: object) -> None:
    ana = await api.register("Ana")
    application_id = await ana.create_application()
    document_id = await ana.create_document()
    for path, body in (
        ("/api/applications", {"name": name}),
        ("/api/projects", {"name": name, "application_id": application_id}),
        ("/api/documents", {"title": name}),
    ):
        assert problem(await ana.http.post(path, json=body)) == (422, "invalid_request")
    assert problem(await ana.http.patch(f"/api/applications/{application_id}", json={"name": name}))[0] == 422
    assert problem(await ana.http.patch(f"/api/documents/{document_id}", json={"title": name}))[0] == 422


@ON_SQLITE
async def test_a_lone_surrogate_is_no_name(api: Api) -> None:
    ana = await api.register("Ana")
    sent = {"content": rb'{"name": "half \ud800"}', "headers": {"Content-Type": "application/json"}}
    assert problem(await ana.http.post("/api/applications", **sent)) == (422, "invalid_request")


@pytest.mark.both_databases
async def test_names_in_any_language(api: Api) -> None:
    ana = await api.register("Ana")
    for name in ("Übersicht", "計画", "план 🗺", "x" * 200, "DROP TABLE users; --", "%s {0} <b>"):
        assert (await ana.create("/api/applications", name=name))["name"] == name


@ON_SQLITE
async def test_fields_that_clients_may_not_set_are_refused(api: Api) -> None:
    ana = await api.register("Ana")
    for extra in ({"id": new_id()}, {"role": "owner"}, {"created_at": 0}, {"owner_id": ana.id}):
        answer = await ana.http.post("/api/applications", json={"name": "Atlas", **extra})
        assert problem(answer) == (422, "invalid_request")


@pytest.mark.both_databases
async def test_impossible_ids_are_not_found(api: Api) -> None:
    ana = await api.register("Ana")
    for which in ("nothing", "null", "0", "%7B%7D", "' OR 1=1 --", new_id().upper()):
        for path in ("applications", "projects", "documents"):
            assert problem(await ana.http.get(f"/api/{path}/{which}")) == (404, "not_found")
        body = {"application_id": which, "name": "Coast"}
        assert problem(await ana.http.post("/api/projects", json=body)) == (404, "not_found")


@ON_SQLITE
async def test_ids_have_bounds(api: Api) -> None:
    ana = await api.register("Ana")
    for which in ("%00", "%0a", "A" * 129, "A" * 5000):
        for path in ("applications", "projects", "documents"):
            assert problem(await ana.http.get(f"/api/{path}/{which}")) == (422, "invalid_request")
