"""Members: owners add, change and remove them; one owner always remains."""

from __future__ import annotations

import asyncio

import pytest
from tests.server.api import Api
from tests.server.conftest import ON_SQLITE, MakeApp, MakeSettings, client_of
from tests.server.team import Team, acquire, make_team, problem, save

from leasehold.server.db.models import new_id


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


def members_of(team: Team) -> str:
    return f"/api/applications/{team.application_id}/members"


@pytest.mark.both_databases
async def test_an_owner_adds_a_registered_user(team: Team) -> None:
    body = {"email": team.otto.email.upper(), "role": "viewer"}
    answer = await team.olga.http.post(members_of(team), json=body)
    assert answer.status_code == 201
    added = answer.json()
    assert (added["user_id"], added["user_name"], added["role"]) == (team.otto.id, "Otto", "viewer")
    assert added["email"] == team.otto.email
    assert (await team.otto.http.get(f"/api/applications/{team.application_id}")).json()["role"] == "viewer"
    assert problem(await team.olga.http.post(members_of(team), json=body)) == (409, "already_exists")


@ON_SQLITE
async def test_asking_who_has_an_account_is_limited(make_app: MakeApp, make_settings: MakeSettings) -> None:
    app = await make_app(make_settings(rate_add_member="6/hour"))
    async with client_of(app) as client, Api(client) as api:
        team = await make_team(api)  # three of Olga's attempts
        bodies = [{"email": f"nobody-{number}@example.com", "role": "viewer"} for number in range(4)]
        answers = [await team.olga.http.post(members_of(team), json=body) for body in bodies]
        assert [problem(answer)[0] for answer in answers] == [404, 404, 404, 429]
        known = {"email": team.otto.email, "role": "viewer"}
        assert problem(await team.olga.http.post(members_of(team), json=known)) == (429, "rate_limited")
        # Removing a member does not count.
        assert (await team.olga.http.delete(f"{members_of(team)}/{team.vera.id}")).status_code == 204


async def test_an_unregistered_address_is_not_added(team: Team) -> None:
    body = {"email": "nobody@example.com", "role": "viewer"}
    assert problem(await team.olga.http.post(members_of(team), json=body)) == (404, "not_found")


@ON_SQLITE
async def test_a_member_needs_an_address_and_a_role(team: Team) -> None:
    email = team.otto.email
    for body in (
        {"email": email},
        {"role": "viewer"},
        {"email": email, "role": "admin"},
        {"email": email, "role": None},
        {"email": "not an address", "role": "viewer"},
        {"email": f"{'x' * 300}@example.com", "role": "viewer"},
        {"email": "a\0@example.com", "role": "viewer"},
        {"email": email, "role": "viewer", "user_id": team.ana.id},
        [],
    ):
        assert problem(await team.olga.http.post(members_of(team), json=body)) == (422, "invalid_request")
    assert (
        problem(await team.olga.http.patch(f"{members_of(team)}/{team.ana.id}", json={"role": "king"}))[0]
        == 422
    )


@pytest.mark.both_databases
async def test_members_see_each_other_and_owners_see_addresses(team: Team) -> None:
    seen = (await team.olga.http.get(members_of(team))).json()["items"]
    assert [(member["user_name"], member["role"]) for member in seen] == [
        ("Ana", "editor"),
        ("Ben", "editor"),
        ("Olga", "owner"),
        ("Vera", "viewer"),
    ]
    assert [member["email"] for member in seen] == [
        person.email for person in (team.ana, team.ben, team.olga, team.vera)
    ]
    seen = (await team.vera.http.get(members_of(team))).json()["items"]
    assert [member["email"] for member in seen] == [None, None, None, team.vera.email]


async def test_an_owner_changes_a_role_at_once(team: Team) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    path = f"{members_of(team)}/{team.ana.id}"
    changed = (await team.olga.http.patch(path, json={"role": "viewer"})).json()
    assert (changed["user_id"], changed["role"]) == (team.ana.id, "viewer")
    assert problem(await save(team.ana, document_id, "text", 0, fence)) == (403, "not_allowed")
    assert (await team.olga.http.patch(path, json={"role": "owner"})).json()["role"] == "owner"
    assert (
        await team.ana.http.patch(f"/api/applications/{team.application_id}", json={"name": "Mine"})
    ).status_code == 200


async def test_an_owner_removes_members_and_any_member_may_leave(team: Team) -> None:
    assert (await team.olga.http.delete(f"{members_of(team)}/{team.ana.id}")).status_code == 204
    assert problem(await team.ana.http.get(f"/api/applications/{team.application_id}")) == (
        403,
        "not_allowed",
    )
    assert problem(await team.olga.http.delete(f"{members_of(team)}/{team.ana.id}")) == (404, "not_found")
    assert problem(await team.vera.http.delete(f"{members_of(team)}/{team.ben.id}")) == (403, "not_allowed")
    assert (await team.vera.http.delete(f"{members_of(team)}/{team.vera.id}")).status_code == 204
    assert problem(await team.vera.http.delete(f"{members_of(team)}/{team.vera.id}")) == (403, "not_allowed")


@pytest.mark.parametrize("which", [new_id(), "nothing"], ids=["another", "a word"])
async def test_a_user_who_is_no_member_is_not_found(team: Team, which: str) -> None:
    path = f"{members_of(team)}/{which}"
    assert problem(await team.olga.http.patch(path, json={"role": "viewer"})) == (404, "not_found")
    assert problem(await team.olga.http.delete(path)) == (404, "not_found")
    elsewhere = f"/api/applications/{which}/members"
    assert problem(await team.olga.http.get(elsewhere)) == (404, "not_found")
    body = {"email": team.otto.email, "role": "viewer"}
    assert problem(await team.olga.http.post(elsewhere, json=body)) == (404, "not_found")


async def test_the_last_owner_stays_the_owner(team: Team) -> None:
    path = f"{members_of(team)}/{team.olga.id}"
    assert problem(await team.olga.http.delete(path)) == (409, "already_exists")
    assert problem(await team.olga.http.patch(path, json={"role": "editor"})) == (409, "already_exists")
    assert (await team.olga.http.patch(path, json={"role": "owner"})).status_code == 200
    await team.olga.http.patch(f"{members_of(team)}/{team.ana.id}", json={"role": "owner"})
    assert (await team.olga.http.delete(path)).status_code == 204
    assert problem(await team.ana.http.delete(f"{members_of(team)}/{team.ana.id}")) == (409, "already_exists")


@pytest.mark.both_databases
async def test_owners_who_leave_at_once_leave_one_of_them(team: Team) -> None:
    owners = [team.olga, team.ana, team.ben, team.vera]
    for person in owners[1:]:
        await team.olga.http.patch(f"{members_of(team)}/{person.id}", json={"role": "owner"})
    answers = await asyncio.gather(
        *(person.http.delete(f"{members_of(team)}/{person.id}") for person in owners)
    )
    assert sorted(answer.status_code for answer in answers) == [204, 204, 204, 409]
    (last,) = [person for person, answer in zip(owners, answers, strict=True) if answer.status_code == 409]
    members = (await last.http.get(members_of(team))).json()["items"]
    assert [(member["user_id"], member["role"]) for member in members] == [(last.id, "owner")]


@pytest.mark.both_databases
async def test_owners_who_demote_each_other_at_once_leave_one_of_them(team: Team) -> None:
    await team.olga.http.patch(f"{members_of(team)}/{team.ana.id}", json={"role": "owner"})
    await asyncio.gather(
        team.olga.http.patch(f"{members_of(team)}/{team.ana.id}", json={"role": "editor"}),
        team.ana.http.patch(f"{members_of(team)}/{team.olga.id}", json={"role": "editor"}),
    )
    members = (await team.vera.http.get(members_of(team))).json()["items"]
    assert [member["role"] for member in members].count("owner") == 1


@pytest.mark.both_databases
async def test_a_user_added_many_times_at_once_is_one_member(team: Team) -> None:
    body = {"email": team.otto.email, "role": "viewer"}
    answers = await asyncio.gather(*(team.olga.http.post(members_of(team), json=body) for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409]
