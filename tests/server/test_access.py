"""Permissions on a document: one query, decided only by membership and ownership."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, update
from tests.server.rows import Database, add_application, add_document, add_project, add_user, opened

from leasehold.documents.ports import Access
from leasehold.server.db.engine import writing
from leasehold.server.db.models import MemberRow, new_id
from leasehold.server.teams.access import SqlAccessPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from leasehold.documents.state import Editor

pytestmark = pytest.mark.both_databases


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Database]:
    async with opened(database_url) as sessions:
        yield sessions


class World:
    """Two applications: one with every user but Otto, who owns the other."""

    def __init__(self, sessions: Database) -> None:
        self.sessions = sessions
        self.policy = SqlAccessPolicy(sessions)
        self.people: dict[str, Editor] = {}
        self.documents: dict[str, str] = {}

    async def make(self) -> World:
        names = ("olga", "ana", "vera", "otto")
        self.people = {name: await add_user(self.sessions, name.title()) for name in names}
        olga, ana, vera, otto = self.people.values()
        application = await add_application(self.sessions, owner=[olga], editor=[ana], viewer=[vera])
        other = await add_application(self.sessions, owner=[otto])
        project = await add_project(self.sessions, application)
        self.documents = {
            "application": await add_document(self.sessions, ana, application_id=application),
            "project": await add_document(self.sessions, ana, project_id=project),
            "personal": await add_document(self.sessions, ana),
            "elsewhere": await add_document(self.sessions, otto, application_id=other),
        }
        return self

    async def access(self, name: str, document: str) -> Access | None:
        return await self.policy.access(self.people[name].user_id, self.documents[document])


@pytest.fixture
async def world(sessions: Database) -> World:
    return await World(sessions).make()


async def test_roles_come_from_the_application(world: World) -> None:
    for document in ("application", "project"):
        assert await world.access("olga", document) == Access("owner")
        assert await world.access("ana", document) == Access("editor"), "also for documents that she created"
        assert await world.access("vera", document) == Access("viewer")
        assert await world.access("otto", document) == Access(None)
    for name in ("olga", "ana", "vera"):
        assert await world.access(name, "elsewhere") == Access(None)


async def test_a_personal_document_has_one_owner_and_no_other_role(world: World) -> None:
    assert await world.access("ana", "personal") == Access("owner", is_personal=True)
    for name in ("olga", "vera", "otto"):
        assert await world.access(name, "personal") == Access(None, is_personal=True)


@pytest.mark.parametrize(
    "document_id",
    [new_id(), "", "\0", "x" * 10_000, "half \ud800"],
    ids=["none", "empty", "nul", "long", "half"],
)
async def test_a_missing_document_is_not_found(world: World, document_id: str) -> None:
    assert await world.policy.access(world.people["ana"].user_id, document_id) is None


async def test_other_spellings_of_an_id_are_other_ids(world: World) -> None:
    document_id = world.documents["application"]
    ana = world.people["ana"].user_id
    spellings = (document_id.upper(), f" {document_id}", document_id.replace("-", ""), f"{{{document_id}}}")
    for other in (*spellings, f"{document_id}\n", f"{document_id}\0"):
        assert await world.policy.access(ana, other) is None


async def test_an_unknown_user_has_no_role(world: World) -> None:
    for user_id in (new_id(), "", "somebody"):
        assert await world.policy.access(user_id, world.documents["application"]) == Access(None)


async def test_a_changed_role_applies_at_once(world: World) -> None:
    for role in ("viewer", "owner"):
        async with writing(world.sessions) as session:
            mine = MemberRow.user_id == world.people["ana"].user_id
            await session.execute(update(MemberRow).where(mine).values(role=role))
        assert await world.access("ana", "project") == Access(role)


async def test_each_check_is_one_query(world: World) -> None:
    asked: list[Any] = []
    engine = world.sessions.kw["bind"].sync_engine
    event.listen(engine, "before_cursor_execute", lambda *args: asked.append(args[2]))
    for document in world.documents:
        asked.clear()
        await world.access("ana", document)
        assert len(asked) == 1
