"""Concurrent grants and saves: every interleaving keeps acknowledged saves, and no version from an overtaken grant."""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError
from sqlalchemy.util import await_only
from tests.server.conftest import ON_POSTGRESQL
from tests.server.rows import (
    Database,
    add_document,
    add_user,
    document_of,
    drafts_of,
    opened,
    versions_of,
)
from tests.support.eventually import LIMIT

from leasehold.documents.ports import Grant, Rescued, Save, Saved
from leasehold.errors import StaleFence
from leasehold.server.db.engine import (
    close_engine,
    open_engine,
    reading,
    session_factory,
    writing,
    writing_rows,
)
from leasehold.server.documents import document_store
from leasehold.server.documents import save as saving
from leasehold.server.documents.content import decode_content, encode_content
from leasehold.server.documents.document_store import SqlDocumentStore
from leasehold.server.documents.quota import UNLIMITED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
    from tests.conftest import Count
    from tests.support.processes import Child, Parent

    from leasehold.documents.state import Editor

pytestmark = pytest.mark.both_databases


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Database]:
    async with opened(database_url) as sessions:
        yield sessions


@pytest.fixture
async def second_worker(database_url: str, sessions: Database) -> AsyncIterator[Database]:
    """Another process's connections to the same database."""
    engine = open_engine(database_url)
    yield session_factory(engine)
    await close_engine(engine)


@dataclass
class History:
    """The outcomes that callers received."""

    registered: list[tuple[int, int]] = field(default_factory=list)
    saved: list[tuple[Save, Saved | Rescued]] = field(default_factory=list)

    async def register(self, store: SqlDocumentStore, grant: Grant) -> int:
        version = await store.register(grant)
        self.registered.append((grant.fence, version))
        return version

    async def save(self, store: SqlDocumentStore, save: Save) -> Saved | Rescued:
        outcome = await store.save(save)
        self.saved.append((save, outcome))
        return outcome

    async def violations(self, sessions: Database, document_id: str) -> list[str]:
        """Compares the database with the outcomes that callers received."""
        row = await document_of(sessions, document_id)
        versions = {version.number: version for version in await versions_of(sessions, document_id)}
        drafts = {draft.id: draft for draft in await drafts_of(sessions, document_id)}
        found = []
        if list(versions) != list(range(1, row.version + 1)):
            found.append(f"version {row.version} has the versions {list(versions)}")
        if versions and row.content != versions[max(versions)].content:
            found.append("the document is not its last version")
        fences = [version.fence for version in versions.values()]
        if fences != sorted(fences):
            found.append(f"an older grant saved after a newer one: {fences}")
        for fence, version in self.registered:
            late = [n for n, each in versions.items() if each.fence < fence and n > version]
            if late:
                found.append(
                    f"grant {fence} received version {version}, and older grants created {late} afterwards"
                )
        for save, outcome in self.saved:
            kept = (
                versions.get(outcome.version) if isinstance(outcome, Saved) else drafts.get(outcome.draft_id)
            )
            if kept is None or decode_content(kept.content) != save.content:
                found.append(f"{save.content!r} was acknowledged as {outcome}, and is not there")
            if isinstance(outcome, Saved) and outcome.version != save.base_version + 1:
                found.append(
                    f"{save.content!r} was made from {save.base_version} and became {outcome.version}"
                )
        made = [outcome.version for _, outcome in self.saved if isinstance(outcome, Saved)]
        if len(made) != len(set(made)):
            found.append(f"one version was acknowledged to two: {sorted(made)}")
        return found


class CheckThenAct(SqlDocumentStore):
    """The planted bug: it compares in one transaction and writes in the next."""

    async def save(self, save: Save) -> Saved | Rescued:
        content = encode_content(save.content)
        async with reading(self._database) as session:
            row = (await session.execute(saving._LOCK_ROW, {"document": save.document_id})).one()
        reason = saving.reason_to_rescue(row, save)
        await asyncio.sleep(random.random() / 100)
        async with writing(self._database) as session:
            if reason is None:
                return await saving.add_version(session, row, save, content, max_bytes=UNLIMITED)
            return await saving.add_draft(session, row, save, content, reason, max_bytes=UNLIMITED)


async def work(
    store: SqlDocumentStore,
    editor: Editor,
    document_id: str,
    history: History,
    fences: itertools.count[int],
    times: int,
) -> None:
    """Takes the lock from its holder, saves a few times, and goes on saving after the lock is lost."""
    for turn in range(times):
        fence = next(fences)
        await asyncio.sleep(random.random() / 100)
        try:
            base = await history.register(store, Grant(document_id, editor, fence))
        except StaleFence:
            continue
        for step in range(random.randrange(4)):
            save = Save(document_id, editor, f"{editor.user_name} {turn}.{step}", base, fence)
            try:
                outcome = await history.save(store, save)
            except IntegrityError:
                continue  # of the planted bug: not acknowledged
            base = outcome.version


async def run_workers(kind: type[SqlDocumentStore], workers: list[Database], times: int) -> list[str]:
    sessions = workers[0]
    people = [await add_user(sessions, f"P{number}") for number in range(6)]
    document_id = await add_document(sessions, people[0])
    history, fences = History(), itertools.count(1)
    async with asyncio.TaskGroup() as group:
        for number, person in enumerate(people):
            store = kind(workers[number % len(workers)])
            group.create_task(work(store, person, document_id, history, fences, times))
    assert history.registered
    return await history.violations(sessions, document_id)


async def test_no_acknowledged_save_is_lost_among_many_writers(
    sessions: Database, second_worker: Database, count: Count
) -> None:
    assert await run_workers(SqlDocumentStore, [sessions, second_worker], count(full=60, quick=8)) == []


async def test_the_checker_finds_a_store_that_compares_first_and_writes_later(sessions: Database) -> None:
    # It depends on chance whether two of them overlap where the bug shows.
    for _ in range(30):
        if await run_workers(CheckThenAct, [sessions], 15):
            return
    pytest.fail("the checker found no violation")


async def test_of_twenty_saves_at_once_one_is_a_version_and_nineteen_are_drafts(
    sessions: Database, second_worker: Database
) -> None:
    ana = await add_user(sessions, "Ana")
    document_id = await add_document(sessions, ana)
    stores, history = [SqlDocumentStore(sessions), SqlDocumentStore(second_worker)], History()
    await history.register(stores[0], Grant(document_id, ana, 7))
    async with asyncio.TaskGroup() as group:
        for n in range(20):
            group.create_task(history.save(stores[n % 2], Save(document_id, ana, f"text {n}", 0, 7)))
    outcomes = [outcome for _, outcome in history.saved]
    assert outcomes.count(Saved(1)) == 1
    rescued = {outcome.draft_id for outcome in outcomes if isinstance(outcome, Rescued)}
    assert len(rescued) == 19
    assert await history.violations(sessions, document_id) == []


async def test_one_save_sent_twenty_times_at_once_is_one_version_or_one_draft(
    sessions: Database, second_worker: Database
) -> None:
    ana = await add_user(sessions, "Ana")
    document_id = await add_document(sessions, ana)
    stores = [SqlDocumentStore(sessions), SqlDocumentStore(second_worker)]
    await stores[0].register(Grant(document_id, ana, 7))
    for save in (Save(document_id, ana, "text", 0, 7), Save(document_id, ana, "late", 0, 6)):
        answers = await asyncio.gather(*(stores[n % 2].save(save) for n in range(20)))
        assert len(set(answers)) == 1
    assert len(await versions_of(sessions, document_id)) == 1
    assert len(await drafts_of(sessions, document_id)) == 1


def stop_at(engine: AsyncEngine, beginning: str) -> tuple[asyncio.Event, asyncio.Event]:
    """Stops the next statement with this prefix inside its transaction: (reached, resume)."""
    has_come, go = asyncio.Event(), asyncio.Event()

    def stop(_1: object, _2: object, statement: str, *_: object) -> None:
        if statement.startswith(beginning) and not has_come.is_set():
            has_come.set()
            await_only(go.wait())

    event.listen(engine.sync_engine, "before_cursor_execute", stop)
    return has_come, go


async def overtake_a_save(sessions: Database, second_worker: Database, *, within: float) -> list[str]:
    """Ana's save has compared her fence when Ben's grant comes through another worker."""
    ana, ben = await add_user(sessions, "Ana"), await add_user(sessions, "Ben")
    document_id = await add_document(sessions, ana)
    store, other, history = SqlDocumentStore(sessions), SqlDocumentStore(second_worker), History()
    await history.register(store, Grant(document_id, ana, 1))
    has_come, go = stop_at(sessions.kw["bind"], "INSERT INTO versions")
    async with asyncio.TaskGroup() as group:
        group.create_task(history.save(store, Save(document_id, ana, "hers", 0, 1)))
        await asyncio.wait_for(has_come.wait(), LIMIT)
        registering = group.create_task(history.register(other, Grant(document_id, ben, 2)))
        # A save that does not wait for the grant ends within this time; one that waits is not affected.
        await asyncio.wait({registering}, timeout=within)
        go.set()
    return await history.violations(sessions, document_id)


async def overtake_with_a_grant(sessions: Database, second_worker: Database, *, within: float) -> list[str]:
    """Ben's grant has written its fence, and is not committed yet, when Ana's save comes through another worker."""
    ana, ben = await add_user(sessions, "Ana"), await add_user(sessions, "Ben")
    document_id = await add_document(sessions, ana)
    store, other, history = SqlDocumentStore(sessions), SqlDocumentStore(second_worker), History()
    await history.register(store, Grant(document_id, ana, 1))
    has_come, go = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow(sessions: Database) -> AsyncIterator[AsyncConnection]:
        async with writing_rows(sessions) as connection:
            yield connection
            has_come.set()
            await go.wait()

    async with asyncio.TaskGroup() as group:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(document_store, "writing_rows", slow)
            group.create_task(history.register(store, Grant(document_id, ben, 2)))
            await asyncio.wait_for(has_come.wait(), LIMIT)
        has_compared, go_on = stop_at(second_worker.kw["bind"], "INSERT INTO versions")
        go_on.set()
        comparing = group.create_task(has_compared.wait())
        saving = group.create_task(history.save(other, Save(document_id, ana, "hers", 0, 1)))
        # A save that does not wait for the grant has compared within this time. Its write may still have to wait.
        await asyncio.wait({saving, comparing}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        go.set()
        await saving
        has_compared.set()
    return await history.violations(sessions, document_id)


INTERLEAVINGS = pytest.mark.parametrize(
    "overtake", [overtake_a_save, overtake_with_a_grant], ids=["save first", "grant first"]
)


@INTERLEAVINGS
async def test_a_grant_and_the_save_that_it_overtakes_wait_for_each_other(
    sessions: Database, second_worker: Database, overtake: Callable[..., Awaitable[list[str]]]
) -> None:
    # It waits as it must, so more rounds prove nothing.
    assert await overtake(sessions, second_worker, within=0.5) == []


@INTERLEAVINGS
@ON_POSTGRESQL
async def test_the_checker_fails_without_the_lock_on_the_row(
    sessions: Database,
    second_worker: Database,
    monkeypatch: pytest.MonkeyPatch,
    overtake: Callable[..., Awaitable[list[str]]],
) -> None:
    unlocked = saving._LOCK_ROW._clone()
    unlocked._for_update_arg = None
    monkeypatch.setattr(saving, "_LOCK_ROW", unlocked)
    assert await overtake(sessions, second_worker, within=LIMIT)


async def save_and_die(parent: Parent, url: str, document_id: str, user_id: str, where: str) -> None:
    """Save, and stop for ever: inside the transaction, or after the commit and before the response."""
    from sqlalchemy import event

    from leasehold.documents.ports import Save
    from leasehold.documents.state import Editor
    from leasehold.server.db.engine import open_engine, session_factory
    from leasehold.server.documents.document_store import SqlDocumentStore

    engine = open_engine(url)

    def stop(_1: object, _2: object, statement: str, *_: object) -> None:
        if statement.startswith(where):
            parent.send(reached=where)
            parent.receive()

    event.listen(engine.sync_engine, "before_cursor_execute", stop)
    await SqlDocumentStore(session_factory(engine)).save(
        Save(document_id, Editor(user_id, "Ana"), "text", 0, 7)
    )
    parent.send(reached="end")
    parent.receive()


@pytest.mark.parametrize(
    ("where", "kept"),
    [("INSERT INTO versions", 0), ("UPDATE documents", 0), ("", 1)],
    ids=["before the version", "before the document", "after the commit"],
)
async def test_a_killed_save_left_all_or_nothing_and_can_be_repeated(
    database_url: str, sessions: Database, spawn: Callable[..., Child], where: str, kept: int
) -> None:
    ana = await add_user(sessions, "Ana")
    document_id = await add_document(sessions, ana)
    store = SqlDocumentStore(sessions)
    await store.register(Grant(document_id, ana, 7))
    child = spawn(save_and_die, database_url, document_id, ana.user_id, where or "nothing")
    assert await child.aread(LIMIT) == {"reached": where or "end"}
    child.kill()
    assert len(await versions_of(sessions, document_id)) == kept
    assert (await document_of(sessions, document_id)).version == kept
    assert await store.save(Save(document_id, ana, "text", 0, 7)) == Saved(1)
    assert len(await versions_of(sessions, document_id)) == 1
    assert await drafts_of(sessions, document_id) == []


async def test_a_cancelled_save_left_all_or_nothing(sessions: Database, count: Count) -> None:
    ana = await add_user(sessions, "Ana")
    document_id = await add_document(sessions, ana)
    store = SqlDocumentStore(sessions)
    await store.register(Grant(document_id, ana, 7))
    for _ in range(count(full=300, quick=40)):
        base = (await document_of(sessions, document_id)).version
        save = Save(document_id, ana, f"text {base}", base, 7)
        task = asyncio.ensure_future(store.save(save))
        await asyncio.wait({task}, timeout=random.random() / 100)
        task.cancel()
        await asyncio.wait({task})
        assert (await document_of(sessions, document_id)).version == len(
            await versions_of(sessions, document_id)
        )
        assert await store.save(save) == Saved(base + 1), "whatever the outcome, it can be repeated"
    assert await drafts_of(sessions, document_id) == []
