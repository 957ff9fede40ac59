"""Every worker is notified of changed permissions, so that no user keeps watching a document without permission."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import redis.asyncio
from tests.server.conftest import ON_SQLITE, client_of
from tests.server.team import Team, make_team

from leasehold import StoreUnavailable
from leasehold.documents.live.worker_notices import CHANNEL
from leasehold.server.teams.members import announce_permission_change

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from fastapi import FastAPI
    from tests.server.api import Api
    from tests.server.conftest import MakeApp, MakeSettings
    from tests.support.servers import Server

pytestmark = ON_SQLITE


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


class Notices:
    """The notifications since the last read."""

    def __init__(self, subscription: redis.asyncio.client.PubSub, connection: redis.asyncio.Redis) -> None:
        self._subscription = subscription
        self._connection = connection

    async def users(self) -> set[str]:
        """The users named in notifications. A marker is published last, so all earlier ones have arrived."""
        await self._connection.publish(CHANNEL, "end")
        people = set()
        async for message in self._subscription.listen():
            if message["data"] == b"end":
                return people
            if message["type"] == "message":
                people.add(json.loads(message["data"])["user_id"])
        raise AssertionError


@pytest.fixture
async def notices(valkey: Server, team: Team, app: FastAPI) -> AsyncIterator[Notices]:
    async with redis.asyncio.from_url(valkey.url) as connection, connection.pubsub() as subscription:
        await subscription.subscribe(CHANNEL)
        yield Notices(subscription, connection)


async def test_members_come_and_go(team: Team, notices: Notices) -> None:
    path = f"/api/applications/{team.application_id}/members"
    await team.olga.add_member(team.application_id, team.otto, "viewer")
    assert await notices.users() == {team.otto.id}
    await team.olga.http.patch(f"{path}/{team.otto.id}", json={"role": "editor"})
    assert await notices.users() == {team.otto.id}
    await team.olga.http.delete(f"{path}/{team.otto.id}")
    assert await notices.users() == {team.otto.id}
    await team.ana.http.delete(f"{path}/{team.ana.id}")
    assert await notices.users() == {team.ana.id}


async def test_documents_go(team: Team, notices: Notices) -> None:
    everybody = {person.id for person in (team.olga, team.ana, team.ben, team.vera)}
    project_id = await team.ana.create_project(team.application_id)
    diary = await team.ana.create_document()
    for person, path, who in (
        (team.ana, f"/api/documents/{diary}", {team.ana.id}),
        (team.olga, f"/api/documents/{await team.document()}", everybody),
        (team.olga, f"/api/projects/{project_id}", everybody),
        (team.olga, f"/api/applications/{team.application_id}", everybody),
    ):
        assert (await person.http.delete(path)).status_code == 204
        assert await notices.users() == who


async def test_a_refused_change_is_not_published(team: Team, notices: Notices) -> None:
    path = f"/api/applications/{team.application_id}/members"
    await team.ana.http.delete(f"{path}/{team.ben.id}")
    await team.olga.http.delete(f"{path}/{team.olga.id}")
    await team.olga.http.post(path, json={"email": team.ana.email, "role": "viewer"})
    assert await notices.users() == set()


async def test_a_change_is_made_although_it_cannot_be_published(
    make_app: MakeApp, make_settings: MakeSettings, own_server: Callable[..., Server]
) -> None:
    from tests.server.api import Api

    server = own_server("valkey9")
    app = await make_app(make_settings(store_url=server.url, store_timeout=1))
    async with client_of(app) as client, Api(client) as api:
        team = await make_team(api)
        server.kill()
        path = f"/api/applications/{team.application_id}/members/{team.ana.id}"
        assert (await team.olga.http.delete(path)).status_code == 204
        assert (await team.ana.http.get("/api/applications")).json()["items"] == []


async def test_all_users_are_notified_although_one_notification_fails(
    team: Team, notices: Notices, app: FastAPI
) -> None:
    services = app.state.services
    people = [team.olga.id, team.ana.id, team.ben.id]
    tell = services.live._notices.announce_rights_changed

    async def publish_unless(user_id: str) -> None:
        if user_id == team.olga.id:
            raise StoreUnavailable("away")
        await tell(user_id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services.live._notices, "announce_rights_changed", publish_unless)
        await announce_permission_change(services, people)
    assert await notices.users() == {team.ana.id, team.ben.id}
