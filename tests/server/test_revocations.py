"""A logout applies at every worker, at once or soon, and for good."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.eventually import eventually_async

import leasehold
from leasehold.server.auth.revocations import Revocations
from leasehold.server.db.engine import close_engine, open_engine, session_factory, writing
from leasehold.server.db.models import LoginRow, UserRow, new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.server.rows import Database
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

    from leasehold import Client

NEVER = 3600.0

pytestmark = pytest.mark.both_databases


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    engine = open_engine(database_url)
    yield session_factory(engine)
    await close_engine(engine)


@pytest.fixture
async def client(valkey: Server) -> AsyncIterator[Client]:
    async with leasehold.connect(valkey.url) as made:
        yield made


async def end_a_session(database: Database, *, ended_at: float | None = None) -> str:
    """Ends a login in the database only, as another worker would."""
    user = UserRow(
        id=new_id(), email=f"{new_id()}@x", display_name="Ana", password_hash="none", created_at=0.0
    )
    now = time.time()
    ended = LoginRow(
        id=new_id(), user_id=user.id, created_at=now, expires_at=now + 1000, ended_at=ended_at or now
    )
    async with writing(database) as session:
        session.add(user)
        await session.flush()
        session.add(ended)
    return ended.id


async def test_logins_that_ended_before_the_start_are_known(database: Database, client: Client) -> None:
    ended = await end_a_session(database)
    async with Revocations(database, client.store_access.transport, seconds=900) as revocations:
        assert revocations.is_ended(ended)
        assert not revocations.is_ended("another session")


async def test_only_ended_logins_with_a_valid_token_are_remembered(
    database: Database, client: Client
) -> None:
    long_ago = await end_a_session(database, ended_at=time.time() - 1000)
    lately = await end_a_session(database, ended_at=time.time() - 800)
    now = time.time()
    clock = [now]
    revocations = Revocations(
        database, client.store_access.transport, seconds=900, every=0.05, clock=lambda: clock[0]
    )
    async with revocations:
        assert not revocations.is_ended(long_ago)
        assert revocations.is_ended(lately)
        clock[0] = now + 500
        await eventually_async(lambda: not revocations.is_ended(lately))


async def test_a_logout_at_this_worker_applies_at_once(database: Database, client: Client) -> None:
    async with Revocations(database, client.store_access.transport, seconds=900, every=NEVER) as revocations:
        ended = await end_a_session(database)
        await revocations.add(ended)
        assert revocations.is_ended(ended)


async def test_another_worker_is_notified(database: Database, valkey: Server) -> None:
    async with (
        leasehold.connect(valkey.url) as here,
        leasehold.connect(valkey.url) as there,
        Revocations(database, here.store_access.transport, seconds=900, every=NEVER) as ours,
        Revocations(database, there.store_access.transport, seconds=900, every=NEVER) as theirs,
    ):
        # It receives only after it has subscribed, and its start does not wait for that.
        await eventually_async(lambda: valkey.call("PUBSUB", "NUMSUB", "doc_lock:sessions")[1] == 2)
        ended = await end_a_session(database)
        await ours.add(ended)
        await eventually_async(lambda: theirs.is_ended(ended))


async def test_a_lost_notification_is_made_up_by_reading_the_database(
    database: Database, client: Client
) -> None:
    async with Revocations(database, client.store_access.transport, seconds=900, every=0.1) as revocations:
        for _ in range(3):  # it reads twice while it subscribes
            ended = await end_a_session(database)
            await eventually_async(lambda ended=ended: revocations.is_ended(ended))


async def test_it_works_without_the_store(
    database: Database, valkey: Server, proxy: Callable[[Server], FaultProxy]
) -> None:
    between = proxy(valkey)
    between.refuse()
    client = leasehold.connect(between.url, timeout=1)
    async with Revocations(database, client.store_access.transport, seconds=900, every=0.1) as revocations:
        for _ in range(2):
            ended = await end_a_session(database)
            await eventually_async(lambda ended=ended: revocations.is_ended(ended))
        await revocations.add("ended here")
        assert revocations.is_ended("ended here")
        between.refuse(False)
        await eventually_async(lambda: valkey.call("PUBSUB", "NUMSUB", "doc_lock:sessions")[1] == 1)
    await client.close()


async def test_logouts_during_an_outage_of_the_store_are_read_afterwards(
    database: Database, valkey: Server, proxy: Callable[[Server], FaultProxy]
) -> None:
    between = proxy(valkey)
    async with (
        leasehold.connect(between.url, timeout=2) as client,
        Revocations(database, client.store_access.transport, seconds=900, every=NEVER) as revocations,
    ):
        await eventually_async(lambda: valkey.call("PUBSUB", "NUMSUB", "doc_lock:sessions")[1] == 1)
        between.refuse()
        between.cut()
        ended = await end_a_session(database)
        between.refuse(False)
        await eventually_async(lambda: revocations.is_ended(ended))


async def test_listeners_are_called_once_for_each_logout(database: Database, client: Client) -> None:
    told: list[str] = []
    async with Revocations(database, client.store_access.transport, seconds=900, every=0.05) as revocations:
        forget = revocations.listen(told.extend)
        elsewhere = await end_a_session(database)
        await eventually_async(lambda: elsewhere in told)
        here = await end_a_session(database)
        await revocations.add(here)
        last = await end_a_session(database)
        await eventually_async(lambda: last in told)
        forget()
        unheard = await end_a_session(database)
        await eventually_async(lambda: revocations.is_ended(unheard))
    assert sorted(told) == sorted([elsewhere, here, last])


async def test_many_logouts_at_once_are_heard_together(database: Database, client: Client) -> None:
    """One user may have thousands of logins, and each time a listener asks the database."""
    told: list[list[str]] = []
    async with Revocations(database, client.store_access.transport, seconds=900, every=NEVER) as revocations:
        revocations.listen(told.append)
        await revocations.add("one", "two", "three")
    assert told == [["one", "two", "three"]]


async def test_a_clock_set_back_loses_no_logout(database: Database, client: Client) -> None:
    clock = [time.time() + 7200]
    revocations = Revocations(
        database, client.store_access.transport, seconds=900, every=0.05, clock=lambda: clock[0]
    )
    async with revocations:
        clock[0] = time.time()
        ended = await end_a_session(database)
        await eventually_async(lambda: revocations.is_ended(ended))


async def test_an_error_without_a_text_is_logged_by_its_name(
    database: Database, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    calls = 0

    def failing() -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise TimeoutError
        return database()

    failing_database = cast("Database", failing)
    async with Revocations(failing_database, client.store_access.transport, seconds=60, every=0.01):
        await eventually_async(lambda: "not known at once" in caplog.text)
    assert "logouts at other workers are not known at once: TimeoutError" in caplog.messages
