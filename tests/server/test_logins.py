"""Logins and their refresh tokens: each is valid once, a stolen one ends the login, a lost response does not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import func, select, update
from tests.support.eventually import LIMIT

from leasehold import NotSignedIn
from leasehold.errors import InProgress
from leasehold.server.auth.logins import GRACE, ActiveLogin, Logins
from leasehold.server.db.engine import close_engine, open_engine, reading, session_factory, writing
from leasehold.server.db.models import LoginRow, RefreshTokenRow, Row, UserRow, new_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.server.rows import Database
    from tests.support.processes import Child

KEY = b"k" * 32
DAY = 86_400

pytestmark = pytest.mark.both_databases


class Clock:
    def __init__(self) -> None:
        self.now = 1_790_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    engine = open_engine(database_url)
    yield session_factory(engine)
    await close_engine(engine)


@pytest.fixture
async def ana(database: Database) -> UserRow:
    user = UserRow(
        id=new_id(), email="ana@example.com", display_name="Ana", password_hash="none", created_at=0.0
    )
    async with writing(database) as session:
        session.add(user)
    return user


@pytest.fixture
def sessions(database: Database, clock: Clock) -> Logins:
    return Logins(database, KEY, days=14, clock=clock)


async def refreshed(sessions: Logins, token: str) -> ActiveLogin:
    answer = await sessions.refresh(token)
    assert isinstance(answer, ActiveLogin)
    return answer


async def count(database: Database, table: type[Row]) -> int:
    async with reading(database) as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


async def test_a_refresh_returns_the_next_token_of_the_same_login(
    sessions: Logins, ana: UserRow, clock: Clock
) -> None:
    first = await sessions.start(ana)
    tokens = {first.refresh_token}
    for _ in range(5):
        clock.now += 900
        last = await refreshed(sessions, first.refresh_token)
        assert (last.login_id, last.user.email, last.seen_at) == (first.login_id, ana.email, clock.now)
        assert last.expires_at == clock.now + 14 * DAY
        assert last.refresh_token not in tokens
        tokens.add(last.refresh_token)
        first = last


async def test_a_token_used_twice_ends_the_login(sessions: Logins, ana: UserRow, clock: Clock) -> None:
    stolen = (await sessions.start(ana)).refresh_token
    mine = await refreshed(sessions, stolen)
    clock.now += GRACE
    assert await sessions.refresh(stolen) == mine.login_id
    for token in (mine.refresh_token, stolen):
        with pytest.raises(NotSignedIn):
            await sessions.refresh(token)


async def test_an_old_token_ends_the_login_however_many_followed(
    sessions: Logins, ana: UserRow, clock: Clock
) -> None:
    stolen = token = (await sessions.start(ana)).refresh_token
    for _ in range(4):
        clock.now += 900
        token = (await refreshed(sessions, token)).refresh_token
    assert isinstance(await sessions.refresh(stolen), str)
    with pytest.raises(NotSignedIn):
        await sessions.refresh(token)


async def test_a_stolen_token_used_within_the_grace_is_detected_by_the_next_refresh(
    sessions: Logins, ana: UserRow, clock: Clock
) -> None:
    """Within the grace the thief gets the same token as the owner: tokens form a single chain."""
    stolen = (await sessions.start(ana)).refresh_token
    mine = (await refreshed(sessions, stolen)).refresh_token
    clock.now += 1
    theirs = (await refreshed(sessions, stolen)).refresh_token
    assert theirs == mine
    clock.now += 900
    await refreshed(sessions, theirs)
    clock.now += 900
    assert isinstance(await sessions.refresh(mine), str)


async def test_a_refresh_repeated_after_a_lost_response_returns_the_same_token(
    sessions: Logins, ana: UserRow, clock: Clock
) -> None:
    token = (await sessions.start(ana)).refresh_token
    lost = await refreshed(sessions, token)
    clock.now += GRACE - 1
    again = await refreshed(sessions, token)
    assert (again.refresh_token, again.expires_at) == (lost.refresh_token, lost.expires_at)
    await refreshed(sessions, again.refresh_token)


async def test_two_tabs_that_refresh_at_once_both_stay_signed_in(
    sessions: Logins, ana: UserRow, database: Database
) -> None:
    token = (await sessions.start(ana)).refresh_token
    tabs = await asyncio.gather(*(refreshed(sessions, token) for _ in range(8)))
    assert len({tab.refresh_token for tab in tabs}) == 1
    assert await count(database, RefreshTokenRow) == 2
    await refreshed(sessions, tabs[0].refresh_token)


async def test_a_tab_with_an_older_token_must_retry(sessions: Logins, ana: UserRow, clock: Clock) -> None:
    """Its browser has a newer cookie, which an old one must not replace."""
    first = (await sessions.start(ana)).refresh_token
    second = (await refreshed(sessions, first)).refresh_token
    third = (await refreshed(sessions, second)).refresh_token
    clock.now += GRACE - 1
    with pytest.raises(InProgress) as told:
        await sessions.refresh(first)
    assert told.value.retry_after == 1
    await refreshed(sessions, third)


async def test_an_ended_login_stays_ended(sessions: Logins, ana: UserRow) -> None:
    signed_in, other = await sessions.start(ana), await sessions.start(ana)
    await sessions.end(signed_in.login_id)
    await sessions.end(signed_in.login_id)
    await sessions.end("no such login")
    with pytest.raises(NotSignedIn):
        await sessions.refresh(signed_in.refresh_token)
    await refreshed(sessions, other.refresh_token)


async def test_ending_twice_keeps_the_first_instant(
    sessions: Logins, ana: UserRow, clock: Clock, database: Database
) -> None:
    signed_in, began = await sessions.start(ana), clock.now
    await sessions.end(signed_in.login_id)
    clock.now += 100
    await sessions.end(signed_in.login_id)
    async with reading(database) as session:
        assert await session.scalar(select(LoginRow.ended_at)) == began


async def test_a_login_without_refresh_expires(sessions: Logins, ana: UserRow, clock: Clock) -> None:
    token = (await sessions.start(ana)).refresh_token
    clock.now += 14 * DAY - 1
    token = (await refreshed(sessions, token)).refresh_token
    clock.now += 14 * DAY
    with pytest.raises(NotSignedIn):
        await sessions.refresh(token)


async def test_a_login_ends_however_often_it_is_refreshed(
    database: Database, ana: UserRow, clock: Clock
) -> None:
    logins = Logins(database, KEY, days=14, at_most_days=30, clock=clock)
    login = await logins.start(ana)
    began = clock.now
    for _ in range(3):
        clock.now += 9 * DAY
        login = await refreshed(logins, login.refresh_token)
        assert login.expires_at <= began + 30 * DAY
    clock.now = began + 30 * DAY
    with pytest.raises(NotSignedIn):
        await logins.refresh(login.refresh_token)
    # Also if the setting was shorter than the login is old.
    login = await logins.start(ana)
    clock.now += 9 * DAY
    with pytest.raises(NotSignedIn):
        await Logins(database, KEY, days=14, at_most_days=8, clock=clock).refresh(login.refresh_token)


async def test_no_login_starts_with_a_password_that_was_changed_or_an_account_that_was_deleted(
    database: Database, sessions: Logins, ana: UserRow
) -> None:
    for change in ({"password_hash": "another"}, {"password_hash": "none", "deleted_at": 1.0}):
        async with writing(database) as session:
            await session.execute(update(UserRow).values(change))
        with pytest.raises(NotSignedIn):
            await sessions.start(ana)


@pytest.mark.parametrize("token", ["", "x", "a.b", "🔑", "\udc80", "x" * 10_000])
async def test_an_unknown_token_is_refused(sessions: Logins, ana: UserRow, token: str) -> None:
    await sessions.start(ana)
    with pytest.raises(NotSignedIn):
        await sessions.refresh(token)
    assert await sessions.login_of(token) is None


async def test_the_login_of_a_token_is_found_whether_or_not_it_was_used(
    sessions: Logins, ana: UserRow
) -> None:
    first = await sessions.start(ana)
    second = await refreshed(sessions, first.refresh_token)
    for token in (first.refresh_token, second.refresh_token):
        assert await sessions.login_of(token) == first.login_id


async def test_another_key_gives_another_chain_of_tokens(
    sessions: Logins, ana: UserRow, database: Database, clock: Clock
) -> None:
    """The database and an old token, without the key, do not reveal the next token."""
    token = (await sessions.start(ana)).refresh_token
    real = await refreshed(sessions, token)
    other = Logins(database, b"x" * 32, clock=clock)
    assert other._successor(token, real.login_id) != real.refresh_token


async def test_tokens_are_stored_only_as_hashes(sessions: Logins, ana: UserRow, database: Database) -> None:
    first = await sessions.start(ana)
    second = await refreshed(sessions, first.refresh_token)
    async with reading(database) as session:
        rows = (await session.execute(select(RefreshTokenRow))).scalars().all()
    kept = repr([vars(row) for row in rows])
    for token in (first.refresh_token, second.refresh_token):
        assert token not in kept
        assert token.partition(".")[2] not in kept
    assert first.refresh_token not in repr(first)


async def test_logins_that_ended_long_ago_are_removed_and_no_others(
    sessions: Logins, ana: UserRow, database: Database, clock: Clock
) -> None:
    await sessions.start(ana)
    ended = await sessions.start(ana)
    await sessions.end(ended.login_id)
    clock.now += 13 * DAY
    alive = await sessions.start(ana)
    await sessions.prune()
    assert await count(database, LoginRow) == 2
    clock.now += 4 * DAY
    ended = await sessions.start(ana)
    await sessions.end(ended.login_id)
    await sessions.prune()
    async with reading(database) as session:
        left = set(await session.scalars(select(LoginRow.id)))
        tokens = set(await session.scalars(select(RefreshTokenRow.session_id)))
    assert left == tokens == {alive.login_id, ended.login_id}


async def _refresh_in_another_process(parent: object, url: str, key: str, token: str) -> None:
    from leasehold.server.auth.logins import Logins
    from leasehold.server.db.engine import close_engine, open_engine, session_factory

    engine = open_engine(url)
    sessions = Logins(session_factory(engine), key.encode())
    parent.send(ready=True)
    parent.receive()
    answer = await sessions.refresh(token)
    await close_engine(engine)
    parent.send(token=answer.refresh_token)


async def test_tabs_at_two_workers_get_the_same_token(
    database: Database, database_url: str, ana: UserRow, spawn: Callable[..., Child]
) -> None:
    token = (await Logins(database, KEY).start(ana)).refresh_token
    workers = [spawn(_refresh_in_another_process, database_url, KEY.decode(), token) for _ in range(2)]
    for worker in workers:
        assert await worker.aread(LIMIT) == {"ready": True}
    for worker in workers:
        worker.send()
    answers = [(await worker.aread(LIMIT))["token"] for worker in workers]
    assert answers[0] == answers[1] != token
