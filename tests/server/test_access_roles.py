"""Every endpoint with every role: outsider, viewer, editor, owner, and without a login."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.server.conftest import ON_SQLITE
from tests.server.team import Team, acquire, make_team, problem, save

from leasehold.server.db.models import new_id

if TYPE_CHECKING:
    import httpx
    from tests.server.api import Api, Person

ROLES = (None, "viewer", "editor", "owner")


class Endpoint(NamedTuple):
    """`{…}` are ids of objects created for this request alone; others do not exist."""

    method: str
    path: str
    needs: str
    body: dict[str, Any] | None = None
    expected: int = 200


ENDPOINTS = [
    Endpoint("GET", "/api/applications/{application}", "viewer"),
    Endpoint("PATCH", "/api/applications/{application}", "owner", {"name": "New"}),
    Endpoint("DELETE", "/api/applications/{application}", "owner", expected=204),
    Endpoint("GET", "/api/applications/{application}/members", "viewer"),
    Endpoint(
        "POST",
        "/api/applications/{application}/members",
        "owner",
        {"email": "{email}", "role": "viewer"},
        201,
    ),
    Endpoint("PATCH", "/api/applications/{application}/members/{member}", "owner", {"role": "viewer"}),
    Endpoint("DELETE", "/api/applications/{application}/members/{member}", "owner", expected=204),
    Endpoint("POST", "/api/projects", "editor", {"application_id": "{application}", "name": "New"}, 201),
    Endpoint("GET", "/api/projects/{project}", "viewer"),
    Endpoint("DELETE", "/api/projects/{project}", "owner", expected=204),
    Endpoint("POST", "/api/documents", "editor", {"application_id": "{application}", "title": "New"}, 201),
    Endpoint("POST", "/api/documents", "editor", {"project_id": "{project}", "title": "New"}, 201),
    Endpoint("GET", "/api/documents/{document}", "viewer"),
    Endpoint("PATCH", "/api/documents/{document}", "editor", {"title": "New"}),
    Endpoint("DELETE", "/api/documents/{document}", "owner", expected=204),
    Endpoint(
        "PUT",
        "/api/documents/{document}/content",
        "editor",
        {"content": "x", "base_version": 0, "fence": "1"},
        409,
    ),
    Endpoint("GET", "/api/documents/{document}/versions", "viewer"),
    Endpoint("GET", "/api/documents/{document}/versions/1", "viewer"),
    Endpoint("GET", "/api/documents/{document}/drafts", "editor"),
    Endpoint("GET", "/api/documents/{document}/drafts/{draft}", "editor"),
    Endpoint("GET", "/api/documents/{document}/drafts/{draft}/compare", "editor"),
    Endpoint(
        "POST",
        "/api/documents/{document}/drafts/{draft}/restore",
        "editor",
        {"base_version": 1, "fence": "1"},
        409,
    ),
    Endpoint("POST", "/api/documents/{document}/drafts/{draft}/discard", "owner"),
]
FOR_ANY_USER = [
    Endpoint("POST", "/api/applications", "no role", {"name": "New"}, 201),
    Endpoint("GET", "/api/applications", "no role"),
    Endpoint("GET", "/api/projects", "no role"),
    Endpoint("POST", "/api/documents", "no role", {"title": "New"}, 201),
    Endpoint("GET", "/api/documents", "no role"),
    Endpoint("GET", "/api/locks", "no role"),
]


def called(endpoint: Endpoint) -> str:
    scope = next((name for name in endpoint.body or {} if name in {"application_id", "project_id"}), "")
    return f"{endpoint.method} {endpoint.path} {scope}".strip()


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


async def make(api: Api, team: Team) -> dict[str, str]:
    """Creates one object of each kind, by Ben, who is an editor; and a user to be added."""
    project = await team.ben.create_project(team.application_id)
    document = await team.ben.create_document(application_id=team.application_id)
    fence = (await acquire(team.ben, document))["fence"]
    await save(team.ben, document, "one", 0, fence)
    draft = (await save(team.ben, document, "two", 0, fence, release=True)).json()["draft_id"]
    return {
        "application": team.application_id,
        "member": team.ben.id,
        "project": project,
        "document": document,
        "draft": draft,
        "email": (await api.register("Nele")).email,
    }


def fill(value: Any, ids: dict[str, str]) -> Any:
    for name, known in ids.items():
        value = value.replace(f"{{{name}}}", known) if isinstance(value, str) else value
    return value


async def ask(http: httpx.AsyncClient, endpoint: Endpoint, ids: dict[str, str]) -> httpx.Response:
    body = endpoint.body and {name: fill(value, ids) for name, value in endpoint.body.items()}
    return await http.request(endpoint.method, fill(endpoint.path, ids), json=body)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=called)
@ON_SQLITE
async def test_the_role_decides(api: Api, team: Team, endpoint: Endpoint) -> None:
    ids = await make(api, team)
    for role in ROLES:
        person: Person = team.with_role(role)
        answer = await ask(person.http, endpoint, ids)
        if ROLES.index(role) < ROLES.index(endpoint.needs):
            assert problem(answer) == (403, "not_allowed"), role
        else:
            assert answer.status_code == endpoint.expected, (role, answer.text)
            if endpoint.method != "GET" and role != "owner":
                ids["email"] = (await api.register("Nils")).email


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=called)
@ON_SQLITE
async def test_what_does_not_exist_is_not_found(api: Api, team: Team, endpoint: Endpoint) -> None:
    for unknown in (new_id(), "nothing"):
        ids = dict.fromkeys(("application", "member", "project", "document", "draft"), unknown)
        answer = await ask(team.olga.http, endpoint, ids | {"email": team.otto.email})
        assert problem(answer) == (404, "not_found")


@pytest.mark.parametrize("endpoint", ENDPOINTS + FOR_ANY_USER, ids=called)
@ON_SQLITE
async def test_a_request_without_a_login_learns_nothing(
    client: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    ids = dict.fromkeys(("application", "member", "project", "document", "draft"), new_id())
    assert problem(await ask(client, endpoint, ids | {"email": "a@example.com"})) == (401, "not_signed_in")


@pytest.mark.parametrize("endpoint", FOR_ANY_USER, ids=called)
@ON_SQLITE
async def test_some_endpoints_are_open_to_every_user(team: Team, endpoint: Endpoint) -> None:
    assert (await ask(team.otto.http, endpoint, {})).status_code == endpoint.expected


@ON_SQLITE
async def test_a_part_of_one_document_is_not_found_in_another(api: Api, team: Team) -> None:
    ids = await make(api, team)
    other = await team.otto.create_document()
    for verb, path in (("GET", ""), ("GET", "/compare"), ("POST", "/discard")):
        answer = await team.otto.http.request(verb, f"/api/documents/{other}/drafts/{ids['draft']}{path}")
        assert problem(answer) == (404, "not_found")
    answer = await team.otto.http.post(
        f"/api/documents/{other}/drafts/{ids['draft']}/restore", json={"base_version": 0, "fence": "1"}
    )
    assert problem(answer) == (404, "not_found")


@ON_SQLITE
async def test_every_route_is_in_the_table(app: Any) -> None:
    known = {
        (each.method, each.path.replace("/versions/1", "/versions/{version}"))
        for each in ENDPOINTS + FOR_ANY_USER
    }
    known = {(method, _without_names(path)) for method, path in known}
    ours = ("/api/applications", "/api/projects", "/api/documents", "/api/locks")
    there = {
        (method.upper(), _without_names(path))
        for path, verbs in app.openapi()["paths"].items()
        for method in verbs
        if path.startswith(ours) and "/lock" not in path.removeprefix("/api/locks")
    }
    assert there == known


def _without_names(path: str) -> str:
    return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))
