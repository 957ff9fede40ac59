"""The space of an owner: documents, and the bytes of versions and drafts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from alembic import command
from sqlalchemy import select, text
from tests.server.api import Api
from tests.server.conftest import client_of
from tests.server.team import acquire, make_team, problem, save

from leasehold.server.db.engine import close_engine, open_engine, reading
from leasehold.server.db.migrate import alembic_config, migrate
from leasehold.server.db.models import DocumentRow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import FastAPI
    from sqlalchemy import Connection
    from tests.server.conftest import MakeApp, MakeSettings
    from tests.server.team import Team

pytestmark = pytest.mark.both_databases

SPACE = 10_000
TEXT = "x" * 2000


@pytest.fixture
async def app(make_app: MakeApp, make_settings: MakeSettings) -> FastAPI:
    return await make_app(make_settings(max_documents_per_owner=3, max_bytes_per_owner=SPACE))


@pytest.fixture
async def team(app: FastAPI) -> AsyncIterator[Team]:
    async with client_of(app) as client, Api(client) as api:
        yield await make_team(api)


async def test_an_owner_has_so_many_documents(team: Team) -> None:
    kept = [await team.document() for _ in range(3)]
    asked = {"title": "one more", "application_id": team.application_id}
    refused = await team.olga.http.post("/api/documents", json=asked)
    assert problem(refused) == (403, "quota_exceeded")
    assert (await team.ana.http.post("/api/documents", json=asked)).status_code == 201
    assert (await team.olga.http.delete(f"/api/documents/{kept[0]}")).status_code == 204
    assert (await team.olga.http.post("/api/documents", json=asked)).status_code == 201


async def test_versions_in_all_documents_of_an_owner_share_the_space(team: Team) -> None:
    documents = [await team.document() for _ in range(2)]
    statuses: list[int] = []
    for document_id in documents:
        fence = (await acquire(team.ana, document_id))["fence"]
        for base in range(3):
            answer = await save(team.ana, document_id, f"{base}{TEXT}", base, fence)
            statuses.append(answer.status_code)
    assert statuses == [200, 200, 200, 200, 403, 403]  # the last one would be a draft


async def test_what_was_refused_left_nothing_and_space_is_freed_by_a_deletion(team: Team) -> None:
    first, second = [await team.document() for _ in range(2)]
    fence = (await acquire(team.ana, first))["fence"]
    assert (await save(team.ana, first, "x" * 9000, 0, fence)).status_code == 200
    other = (await acquire(team.ana, second))["fence"]
    assert problem(await save(team.ana, second, TEXT, 0, other)) == (403, "quota_exceeded")
    # Neither a version nor a draft.
    assert problem(await save(team.ana, second, TEXT, 7, other)) == (403, "quota_exceeded")
    found = (await team.ana.http.get(f"/api/documents/{second}")).json()
    assert (found["version"], found["content"]) == (0, "")
    assert (await team.ana.http.get(f"/api/documents/{second}/drafts")).json()["items"] == []
    await team.ana.http.delete(f"/api/documents/{first}/lock")
    assert (await team.olga.http.delete(f"/api/documents/{first}")).status_code == 204
    assert (await save(team.ana, second, TEXT, 0, other)).status_code == 200


async def test_drafts_count_and_the_same_save_counts_once(team: Team, app: FastAPI) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    for _ in range(2):
        assert (await save(team.ana, document_id, TEXT, 0, fence)).status_code == 200
        assert (await save(team.ana, document_id, "late", 7, fence)).status_code == 409
    async with reading(app.state.services.database) as db:
        stored = await db.scalar(select(DocumentRow.stored_bytes))
    assert stored == len(TEXT) + 2 + 256 + len("late") + 2 + 256


async def test_the_space_of_others_is_their_own(team: Team) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    assert (await save(team.ana, document_id, "x" * 9500, 0, fence)).status_code == 200
    assert problem(await save(team.ana, document_id, TEXT, 1, fence)) == (403, "quota_exceeded")
    own = await team.ana.create_document(application_id=team.application_id)
    fence = (await acquire(team.ana, own))["fence"]
    assert (await save(team.ana, own, TEXT, 0, fence)).status_code == 200


async def test_what_is_there_before_the_migration_is_counted(empty_database_url: str) -> None:
    engine = open_engine(empty_database_url)

    def to_the_first(connection: Connection) -> None:
        command.upgrade(alembic_config(connection), "0001")
        for statement in (
            "INSERT INTO users VALUES ('ana', 'ana@example.com', 'Ana', 'none', 1.0)",
            "INSERT INTO documents VALUES ('full', 'Full', 'ana', NULL, NULL, 2, '\"ü\"', 1, NULL, NULL, NULL, 1.0, 1.0, 'ana')",
            "INSERT INTO documents VALUES ('none', 'None', 'ana', NULL, NULL, 0, '\"\"', 1, NULL, NULL, NULL, 1.0, 1.0, 'ana')",
            "INSERT INTO versions VALUES ('full', 1, '\"u\"', 'ana', 1, 1.0), ('full', 2, '\"ü\"', 'ana', 1, 1.0)",
            "INSERT INTO drafts VALUES ('draft', 'full', 'ana', '\"late\"', 'hash', 1, 1, 'stale_base', 1.0, 'open', NULL, NULL)",
        ):
            connection.execute(text(statement))

    try:
        async with engine.begin() as connection:
            await connection.run_sync(to_the_first)
        await migrate(engine)
        async with engine.connect() as connection:
            rows = await connection.execute(text("SELECT id, stored_bytes FROM documents ORDER BY id"))
            assert dict(tuple(row) for row in rows) == {"full": 3 + 4 + 6 + 3 * 256, "none": 0}
    finally:
        await close_engine(engine)
