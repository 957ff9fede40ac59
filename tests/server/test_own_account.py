"""One's own account: another password, the end of other logins, and deletion."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import delete, select
from tests.server.api import PASSWORD
from tests.server.pages import page
from tests.server.team import Team, acquire, make_team, problem, save
from tests.support.eventually import eventually_async

from leasehold.server.db.engine import reading, writing
from leasehold.server.db.models import MemberRow, UserRow, new_id

if TYPE_CHECKING:
    import httpx
    from fastapi import FastAPI
    from tests.server.api import Api, Person

pytestmark = pytest.mark.both_databases

NEW = "a new password, long enough"


async def change(person: Person, current: str = PASSWORD, new: str = NEW) -> httpx.Response:
    body = {"current_password": current, "new_password": new}
    return await person.http.post("/api/auth/password", json=body)


async def remove(person: Person, password: str = PASSWORD) -> httpx.Response:
    return await person.http.post("/api/auth/me/delete", json={"password": password})


async def log_in(client: httpx.AsyncClient, person: Person, password: str) -> int:
    async with page(client) as browser:
        body = {"email": person.email, "password": password}
        return (await browser.post("/api/auth/login", json=body)).status_code


async def is_signed_in(person: Person) -> bool:
    return (await person.http.get("/api/auth/me")).status_code == 200


class TestPassword:
    async def test_the_new_one_signs_in_and_the_old_one_does_not(
        self, api: Api, client: httpx.AsyncClient
    ) -> None:
        ana = await api.register()
        assert (await change(ana)).status_code == 204
        assert [await log_in(client, ana, password) for password in (NEW, PASSWORD)] == [200, 401]

    async def test_other_logins_end_and_this_one_goes_on(self, api: Api) -> None:
        ana, ben = await api.register("Ana"), await api.register("Ben")
        other = await api.sign_in(ana.email)
        assert (await change(ana)).status_code == 204
        assert [await is_signed_in(each) for each in (ana, other, ben)] == [True, False, True]

    async def test_a_wrong_current_password_changes_nothing(
        self, api: Api, client: httpx.AsyncClient
    ) -> None:
        ana = await api.register()
        other = await api.sign_in(ana.email)
        assert problem(await change(ana, current="incorrect horse")) == (403, "not_allowed")
        assert await is_signed_in(other)
        assert await log_in(client, ana, PASSWORD) == 200

    async def test_of_two_changes_at_once_one_counts(self, api: Api, client: httpx.AsyncClient) -> None:
        ana = await api.register()
        wanted = [f"{NEW} {number}" for number in range(2)]
        answers = await asyncio.gather(*(change(ana, new=new) for new in wanted))
        statuses = [answer.status_code for answer in answers]
        # The other one has found the old password changed, before its own check or after it.
        assert min(statuses) == 204
        assert max(statuses) in {403, 409}
        assert [await log_in(client, ana, each) for each in wanted] == [
            200 if status == 204 else 401 for status in statuses
        ]

    async def test_a_bad_new_password_is_refused(self, api: Api) -> None:
        ana = await api.register()
        assert problem(await change(ana, new="short")) == (422, "invalid_request")


class TestLogins:
    async def test_they_are_listed_to_their_user_newest_first(self, api: Api) -> None:
        ana = await api.register("Ana")
        await api.register("Ben")
        other = await api.sign_in(ana.email)
        listed = (await ana.http.get("/api/auth/logins")).json()["items"]
        assert [each["is_current"] for each in listed] == [False, True]
        assert all(each["created_at"] <= each["last_used_at"] < each["expires_at"] for each in listed)
        seen = (await other.http.get("/api/auth/logins")).json()["items"]
        assert [each["is_current"] for each in seen] == [True, False]

    async def test_one_is_ended_by_its_id(self, api: Api) -> None:
        ana = await api.register()
        other, third = await api.sign_in(ana.email), await api.sign_in(ana.email)
        listed = (await other.http.get("/api/auth/logins")).json()["items"]
        (own,) = (each["id"] for each in listed if each["is_current"])
        assert (await ana.http.delete(f"/api/auth/logins/{own}")).status_code == 204
        assert [await is_signed_in(each) for each in (ana, other, third)] == [True, False, True]
        assert problem(await ana.http.delete(f"/api/auth/logins/{own}")) == (404, "not_found")
        assert len((await ana.http.get("/api/auth/logins")).json()["items"]) == 2

    async def test_those_of_others_are_not_found(self, api: Api) -> None:
        ana, ben = await api.register("Ana"), await api.register("Ben")
        (login,) = (await ben.http.get("/api/auth/logins")).json()["items"]
        assert problem(await ana.http.delete(f"/api/auth/logins/{login['id']}")) == (404, "not_found")
        assert problem(await ana.http.delete(f"/api/auth/logins/{new_id()}")) == (404, "not_found")
        assert await is_signed_in(ben)

    async def test_all_others_are_ended_at_once(self, api: Api) -> None:
        ana, ben = await api.register("Ana"), await api.register("Ben")
        others = [await api.sign_in(ana.email) for _ in range(2)]
        assert (await ana.http.delete("/api/auth/logins")).status_code == 204
        assert [await is_signed_in(each) for each in (ana, *others, ben)] == [True, False, False, True]


class TestDeletion:
    @pytest.fixture
    async def team(self, api: Api) -> Team:
        return await make_team(api)

    async def test_nothing_works_with_it_any_more(self, api: Api, client: httpx.AsyncClient) -> None:
        ana = await api.register()
        other = await api.sign_in(ana.email)
        assert (await remove(ana)).status_code == 204
        assert [await is_signed_in(each) for each in (ana, other)] == [False, False]
        assert await log_in(client, ana, PASSWORD) == 401
        again = {"email": ana.email, "password": PASSWORD, "display_name": "Another"}
        assert (await client.post("/api/auth/register", json=again)).status_code == 201

    async def test_it_needs_the_password(self, api: Api) -> None:
        ana = await api.register()
        assert problem(await remove(ana, "incorrect horse")) == (403, "not_allowed")
        assert await is_signed_in(ana)

    async def test_what_others_work_with_stays_without_the_name(self, team: Team) -> None:
        document_id = await team.ana.create_document("Ana's", application_id=team.application_id)
        fence = (await acquire(team.ana, document_id))["fence"]
        assert (await save(team.ana, document_id, "Ana's text", 0, fence)).status_code == 200
        await team.ana.http.delete(f"/api/documents/{document_id}/lock")
        assert (await remove(team.ana)).status_code == 204
        found = (await team.ben.http.get(f"/api/documents/{document_id}")).json()
        assert (found["content"], found["updated_by_name"]) == ("Ana's text", "Deleted account")
        (version,) = (await team.ben.http.get(f"/api/documents/{document_id}/versions")).json()["items"]
        assert version["author_name"] == "Deleted account"
        fence = (await acquire(team.ben, document_id))["fence"]
        assert (await save(team.ben, document_id, "Ben's text", 1, fence)).status_code == 200
        members = (await team.olga.http.get(f"/api/applications/{team.application_id}/members")).json()
        assert team.ana.id not in {each["user_id"] for each in members["items"]}

    async def test_the_only_owner_of_a_team_is_refused_until_another_is_one(self, team: Team) -> None:
        document_id = await team.document()
        personal = await team.olga.create_document()
        refused = await remove(team.olga)
        assert problem(refused) == (409, "already_exists")
        assert "'Atlas'" in refused.json()["message"]
        assert (await team.olga.http.get(f"/api/documents/{personal}")).status_code == 200
        members = f"/api/applications/{team.application_id}/members"
        promoted = await team.olga.http.patch(f"{members}/{team.ana.id}", json={"role": "owner"})
        assert promoted.status_code == 200
        assert (await remove(team.olga)).status_code == 204
        assert (await team.ana.http.get(f"/api/documents/{document_id}")).status_code == 200

    async def test_of_two_owners_who_leave_at_once_one_stays(self, team: Team) -> None:
        members = f"/api/applications/{team.application_id}/members"
        await team.olga.http.patch(f"{members}/{team.ana.id}", json={"role": "owner"})
        answers = await asyncio.gather(remove(team.olga), remove(team.ana))
        assert sorted(answer.status_code for answer in answers) == [204, 409]
        roles = [each["role"] for each in (await team.ben.http.get(members)).json()["items"]]
        assert roles.count("owner") == 1

    async def test_personal_documents_and_applications_without_others_are_deleted(
        self, api: Api, app: FastAPI
    ) -> None:
        ana = await api.register()
        await ana.create_document(application_id=await ana.create_application())
        await ana.create_document()
        assert (await remove(ana)).status_code == 204
        async with reading(app.state.services.database) as db:
            for table in ("documents", "applications", "members"):
                assert await db.scalar(select(MemberRow.metadata.tables[table].c[0])) is None
            (email, name, password_hash) = (
                await db.execute(select(UserRow.email, UserRow.display_name, UserRow.password_hash))
            ).one()
        assert ana.email not in email
        assert (name, password_hash) == ("Deleted account", "")

    async def test_a_deleted_account_cannot_be_made_a_member(self, team: Team) -> None:
        assert (await remove(team.otto)).status_code == 204
        body = {"email": team.otto.email, "role": "viewer"}
        answer = await team.olga.http.post(f"/api/applications/{team.application_id}/members", json=body)
        assert problem(answer) == (404, "not_found")


async def test_the_token_of_a_user_without_a_row_neither_lists_nor_creates(api: Api, app: FastAPI) -> None:
    ana = await api.register()
    async with writing(app.state.services.database) as db:
        await db.execute(delete(UserRow))
    for path in ("/api/applications", "/api/documents", "/api/locks", "/api/auth/me", "/api/auth/logins"):
        assert problem(await ana.http.get(path)) == (401, "not_signed_in"), path
    for path, body in (("/api/applications", {"name": "Atlas"}), ("/api/documents", {"title": "Plan"})):
        assert problem(await ana.http.post(path, json=body)) == (401, "not_signed_in"), path


async def test_a_login_that_is_ended_elsewhere_loses_its_sockets(api: Api, app: FastAPI) -> None:
    ana = await api.register()
    other = await api.sign_in(ana.email)
    ended: list[str] = []
    app.state.services.auth.revocations.listen(ended.extend)
    assert (await ana.http.delete("/api/auth/logins")).status_code == 204
    await eventually_async(lambda: len(ended) == 1)
    assert not await is_signed_in(other)
