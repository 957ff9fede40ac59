"""Rows refuse a fence that is older than the newest they have seen: SQLite and PostgreSQL, Session and AsyncSession."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from datetime import datetime  # noqa: TC003 - SQLAlchemy reads the annotations
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import BigInteger, ForeignKey, String, create_engine, func, select, text, update
from sqlalchemy.exc import DBAPIError, NoResultFound, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    aliased,
    mapped_column,
    relationship,
    scoped_session,
    selectinload,
    sessionmaker,
)
from tests.support.databases import DRIVERS, Database, settle
from tests.support.eventually import LIMIT, eventually_async

import leasehold
from leasehold import InvalidRequest, LeaseLost, StaleFence, blocking
from leasehold.operations.guards.sql import Fenced, guarded_update, load_for_update

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from tests.support.postgres import PostgresAddress
    from tests.support.servers import Server


class Base(DeclarativeBase):
    pass


class Owner(Base):
    __tablename__ = "owners"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(20))


class Deal(Fenced, Base):
    __tablename__ = "deals"
    id: Mapped[int] = mapped_column(primary_key=True)
    amount: Mapped[int] = mapped_column("cents", BigInteger, default=100)  # a column by another name
    state: Mapped[str] = mapped_column(String(20), default="open")
    owner_id: Mapped[int | None] = mapped_column(ForeignKey("owners.id"))
    changed_at: Mapped[datetime | None] = mapped_column(onupdate=func.current_timestamp())
    owner: Mapped[Owner | None] = relationship()


class Share(Fenced, Base):
    __tablename__ = "shares"
    company: Mapped[str] = mapped_column(String(20), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    price: Mapped[int] = mapped_column(default=0)


class Ticket(Fenced, Base):
    __tablename__ = "tickets"
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    seat: Mapped[int] = mapped_column(default=0)


class Payment(Fenced, Base):
    """Joined inheritance: the fence is in one table, what changes in another."""

    __tablename__ = "payments"
    id: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str] = mapped_column(String(20))
    total: Mapped[int] = mapped_column(default=0)
    __mapper_args__ = {"polymorphic_on": "kind", "polymorphic_identity": "plain"}  # noqa: RUF012 - SQLAlchemy's way


class Refund(Payment):
    __tablename__ = "refunds"
    id: Mapped[int] = mapped_column(ForeignKey("payments.id"), primary_key=True)
    reason: Mapped[str] = mapped_column(String(20), default="")
    __mapper_args__ = {"polymorphic_identity": "refund"}  # noqa: RUF012 - SQLAlchemy's way


class Plain(Base):
    """Has no fence."""

    __tablename__ = "plain"
    id: Mapped[int] = mapped_column(primary_key=True)


class Texts(Base):
    """Compares fences as text would: 9 is above 10."""

    __tablename__ = "texts"
    id: Mapped[int] = mapped_column(primary_key=True)
    fence: Mapped[str] = mapped_column(String(20))


class Nullable(Base):
    __tablename__ = "nullable"
    id: Mapped[int] = mapped_column(primary_key=True)
    fence: Mapped[int | None] = mapped_column(BigInteger)


def fill(url: str) -> None:
    """Empty tables but for two owners and a deal."""
    engine = create_engine(url)
    Base.metadata.drop_all(engine)
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add_all([Owner(id=1, name="ada"), Owner(id=2, name="bob"), Deal(id=42, owner_id=1)])
        session.commit()
    engine.dispose()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database to copy: making the tables takes longer than most tests."""
    path = tmp_path_factory.mktemp("template") / "deals.db"
    fill(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="module")
def filled_postgres(postgres: PostgresAddress) -> Iterator[PostgresAddress]:
    """A database of this module's own, with the tables."""
    with postgres.database("guard_sql") as database:
        fill(database.url())
        yield database


@pytest.fixture
def refilled_postgres(filled_postgres: PostgresAddress) -> PostgresAddress:
    with filled_postgres.connect() as connection:
        connection.execute("TRUNCATE deals, shares, tickets, payments, refunds")
        connection.execute("INSERT INTO deals (id, cents, state, owner_id) VALUES (42, 100, 'open', 1)")
    return filled_postgres


@pytest.fixture(params=DRIVERS)
async def database(request: pytest.FixtureRequest, tmp_path: Path, template: Path) -> AsyncIterator[Database]:
    driver = request.param
    if driver.startswith("sqlite"):
        shutil.copy(template, tmp_path / "deals.db")
        opened = Database(f"{driver}:///{tmp_path}/deals.db")
    else:
        opened = Database(request.getfixturevalue("refilled_postgres").url(driver.partition("+")[2]))
    yield opened
    await opened.close()


async def write(
    database: Database, fence: Any, values: dict[str, Any], ident: Any = 42, **options: Any
) -> None:
    async with database.session() as session:
        await settle(guarded_update(session, Deal, ident, fence, values, **options))
        await settle(session.commit())


async def load(database: Database, fence: Any, **options: Any) -> Deal:
    async with database.session(expire_on_commit=False) as session:
        deal = await settle(load_for_update(session, Deal, 42, fence, **options))
        await settle(session.commit())
        return deal


async def stored(database: Database, model: Any = Deal, ident: Any = 42) -> Any:
    async with database.session() as session:
        return await settle(session.get(model, ident))


# What a guard refuses, and what it lets pass.


async def test_a_newer_fence_writes_and_is_registered(database: Database) -> None:
    await write(database, 7, {"amount": 90, "state": "paid"})
    deal = await stored(database)
    assert (deal.amount, deal.state, deal.fence) == (90, "paid", 7)


async def test_an_older_fence_is_refused_with_what_was_seen_and_given_and_changes_nothing(
    database: Database,
) -> None:
    await write(database, 7, {"amount": 90})
    with pytest.raises(StaleFence) as refused:
        await write(database, 6, {"amount": 1})
    assert (refused.value.seen, refused.value.given) == (7, 6)
    with pytest.raises(StaleFence) as refused:
        await load(database, 6)
    assert (refused.value.seen, refused.value.given) == (7, 6)
    assert (await stored(database)).amount == 90


async def test_the_same_holder_writes_and_loads_again_with_the_same_fence(database: Database) -> None:
    await write(database, 7, {"amount": 90})
    assert (await load(database, 7)).amount == 90
    await write(database, 7, {"amount": 80})
    assert (await stored(database)).amount == 80


async def test_fences_as_large_as_real_ones_are_kept_exactly(database: Database) -> None:
    await write(database, 2**52 - 1, {"amount": 90})
    with pytest.raises(StaleFence, match=str(2**52 - 2)):
        await write(database, 2**52 - 2, {"amount": 1})
    assert (await stored(database)).fence == 2**52 - 1


async def test_values_may_be_expressions(database: Database) -> None:
    await write(database, 7, {"amount": Deal.amount - 30})
    assert (await stored(database)).amount == 70


async def test_uncommitted_fences_do_not_count(database: Database) -> None:
    async with database.session() as session:
        await settle(guarded_update(session, Deal, 42, 9, {"amount": 1}))
    deal = await stored(database)
    assert (deal.amount, deal.fence) == (100, 0)
    await write(database, 7, {"amount": 90})


async def test_loading_for_update_registers_the_fence_and_changes_nothing_else(database: Database) -> None:
    deal = await load(database, 7)
    assert (deal.amount, deal.fence, deal.changed_at) == (100, 7, None)
    found = await stored(database)
    assert (found.fence, found.changed_at) == (7, None)
    await write(database, 7, {"amount": 90})
    assert (await stored(database)).changed_at is not None


async def test_an_object_loaded_for_update_may_be_changed_and_flushed_in_the_same_transaction(
    database: Database,
) -> None:
    async with database.session() as session:
        deal = await settle(load_for_update(session, Deal, 42, 7))
        deal.amount -= 10
        await settle(session.commit())
    deal = await stored(database)
    assert (deal.amount, deal.fence) == (90, 7)


# Trap 22: read, modify, write.


async def read_only(database: Database, fence: int) -> Deal:
    """Reads as an application that compares fences only at the write."""
    del fence
    return await stored(database)


async def two_holders_add_ten(database: Database, read: Callable[..., Any]) -> list[int]:
    """The older one is paused after its read, and writes between the newer one's read and write; returns the acknowledged writes."""
    acknowledged = []
    amounts = {fence: (await read(database, fence)).amount for fence in (1, 2)}
    for fence in (1, 2):
        try:
            await write(database, fence, {"amount": amounts[fence] + 10})
        except StaleFence:
            continue
        acknowledged.append(fence)
    return acknowledged


async def test_an_older_holder_cannot_write_between_a_newer_ones_read_and_write(database: Database) -> None:
    acknowledged = await two_holders_add_ten(database, load)
    assert acknowledged == [2]
    assert (await stored(database)).amount == 100 + 10 * len(acknowledged)


async def test_a_fence_that_is_compared_only_at_the_write_loses_an_acknowledged_update(
    database: Database,
) -> None:
    """The negative control: without registering at the read, the same sequence loses money."""
    acknowledged = await two_holders_add_ten(database, read_only)
    assert acknowledged == [1, 2]
    assert (await stored(database)).amount == 110


# Leases instead of numbers, and shared ones.


async def test_a_lease_presents_its_own_fence_and_mode(database: Database, valkey: Server) -> None:
    async with leasehold.connect(valkey.url, timeout=LIMIT) as locks:
        async with locks.lock("deal:42", ttl=60) as lease:
            assert (await load(database, lease)).fence == lease.fence
            await write(database, lease, {"amount": 90})
        with pytest.raises(LeaseLost, match="released"):
            await write(database, lease, {"amount": 1})
        async with locks.lock("deal:42", ttl=60, mode="shared") as reader:
            assert reader.fence > lease.fence
            assert (await load(database, reader)).fence == lease.fence
            with pytest.raises(InvalidRequest, match="this lease is shared"):
                await load(database, reader, mode="exclusive")
    deal = await stored(database)
    assert (deal.amount, deal.fence) == (90, lease.fence)


async def test_a_lease_of_the_blocking_client_is_accepted(database: Database, valkey: Server) -> None:
    with blocking.connect(valkey.url, timeout=LIMIT) as locks, locks.lock("deal:42", ttl=60) as lease:
        await write(database, lease, {"amount": 90})
        assert (await stored(database)).fence == lease.fence


async def test_shared_fences_are_compared_with_the_last_exclusive_one_and_not_registered(
    database: Database,
) -> None:
    await load(database, 5)
    for reader in (8, 6, 7):  # readers do not refuse each other
        assert (await load(database, reader, mode="shared")).fence == 5
    await write(database, 6, {"state": "read"}, mode="shared")
    assert (await stored(database)).fence == 5
    await load(database, 9)
    with pytest.raises(StaleFence) as refused:
        await load(database, 8, mode="shared")
    assert (refused.value.seen, refused.value.given) == (9, 8)
    with pytest.raises(StaleFence):
        await write(database, 8, {"state": "late"}, mode="shared")


# Bad input.


async def test_an_invalid_fence_is_refused(database: Database) -> None:
    for fence in (True, "7", -1, 7.0, None, 2**53, b"7", [7]):
        with pytest.raises(InvalidRequest, match="a fence is a lease or a whole number"):
            await write(database, fence, {"amount": 1})
        with pytest.raises(InvalidRequest, match="a fence is a lease or a whole number"):
            await load(database, fence)
    assert (await stored(database)).amount == 100


async def test_values_that_cannot_be_set_are_refused(database: Database) -> None:
    bad: list[tuple[Any, str]] = [
        ({}, "at least one column"),
        (None, "must be a mapping"),
        ([("amount", 1)], "must be a mapping"),
        ({"fence": 9}, "must not set fence"),
        ({"amount": 1, "fence": 9}, "must not set fence"),
        ({"id": 43}, "must not change the key"),
        ({"amout": 1}, "Deal has no column 'amout'"),
        ({"cents": 1}, "Deal has no column 'cents'"),
        ({"owner": None}, "Deal has no column 'owner'"),
        ({3: 1}, "Deal has no column 3"),
    ]
    for values, complaint in bad:
        with pytest.raises(InvalidRequest, match=complaint):
            await write(database, 7, values)
    assert (await stored(database)).fence == 0


async def test_a_missing_row_raises_no_result_found(database: Database) -> None:
    with pytest.raises(NoResultFound, match="there is no Deal 43 to update"):
        await write(database, 7, {"amount": 1}, 43)
    async with database.session() as session:
        with pytest.raises(NoResultFound, match=r"there is no Share \('ibm', 1\) to update"):
            await settle(load_for_update(session, Share, ("ibm", 1), 7))


async def test_a_model_that_cannot_be_guarded_is_refused(database: Database) -> None:
    complaints = {
        Plain: "Plain has no column fence; .* mixin Fenced",
        Texts: "must be a BigInteger",
        Nullable: "not null",
        int: "not a mapped class",
        aliased(Deal): "not a mapped class",
    }
    async with database.session() as session:
        for model, complaint in complaints.items():
            with pytest.raises(InvalidRequest, match=complaint):
                await settle(guarded_update(session, model, 1, 7, {"id": 1}))
            with pytest.raises(InvalidRequest, match=complaint):
                await settle(load_for_update(session, model, 1, 7))


async def test_an_invalid_key_is_refused(database: Database) -> None:
    for ident in ("42", None, (42, 1), (), {"number": 42}, {}, {"id": 42, "amount": 1}):
        with pytest.raises(InvalidRequest, match=r"Deal"):
            await write(database, 7, {"amount": 1}, ident)


async def test_an_invalid_session_is_refused(database: Database) -> None:
    makers = (database.engine, None, sessionmaker(), async_sessionmaker())
    for session in makers:  # a maker would create a session that is never committed
        with pytest.raises(InvalidRequest, match="session must be a SQLAlchemy Session or AsyncSession"):
            guarded_update(session, Deal, 42, 7, {"amount": 1})


# Keys and inheritance.


async def test_composite_keys_are_given_as_tuples_or_by_name(database: Database) -> None:
    async with database.session() as session:
        session.add_all([Share(company="ibm", number=1), Share(company="ibm", number=2)])
        await settle(session.commit())
        await settle(guarded_update(session, Share, ("ibm", 1), 7, {"price": 10}))
        await settle(guarded_update(session, Share, {"number": 1, "company": "ibm"}, 8, {"price": 20}))
        with pytest.raises(StaleFence):
            await settle(load_for_update(session, Share, ["ibm", 1], 7))
        assert (await settle(load_for_update(session, Share, {"number": 2, "company": "ibm"}, 7))).price == 0
        with pytest.raises(InvalidRequest, match=r"the key of Share is \(company, number\), not 'ibm'"):
            await settle(guarded_update(session, Share, "ibm", 8, {"price": 1}))
        await settle(session.commit())
    assert (await stored(database, Share, ("ibm", 1))).price == 20


async def test_keys_need_not_be_numbers(database: Database) -> None:
    ident = uuid4()
    async with database.session() as session:
        session.add(Ticket(id=ident))
        await settle(guarded_update(session, Ticket, ident, 7, {"seat": 3}))  # not flushed before: it is now
        assert (await settle(load_for_update(session, Ticket, ident, 8))).seat == 3
        await settle(session.commit())
    assert (await stored(database, Ticket, ident)).fence == 8


async def test_with_joined_inheritance_the_one_fence_guards_every_table(database: Database) -> None:
    async with database.session() as session:
        session.add_all([Refund(id=1), Payment(id=2, kind="plain")])
        await settle(session.commit())
        refund = await settle(load_for_update(session, Refund, 1, 7))
        await settle(guarded_update(session, Refund, 1, 8, {"reason": "broken", "total": 5}))
        assert (refund.reason, refund.total, refund.fence) == ("broken", 5, 8)
        with pytest.raises(StaleFence):
            await settle(guarded_update(session, Refund, 1, 7, {"reason": "late"}))
        with pytest.raises(StaleFence):
            await settle(guarded_update(session, Payment, 1, 7, {"total": 9}))
        await settle(session.commit())
    found = await stored(database, Refund, 1)
    assert (found.reason, found.total, found.fence) == ("broken", 5, 8)
    async with database.session() as session:
        with pytest.raises(NoResultFound):  # it is a payment, but not a refund
            await settle(guarded_update(session, Refund, 2, 8, {"reason": "none"}))


# The objects that the session knows.


async def test_the_object_in_the_session_is_up_to_date_after_a_guarded_update(database: Database) -> None:
    async with database.session() as session:
        deal = await settle(session.get(Deal, 42, options=[selectinload(Deal.owner)]))
        assert deal.owner.name == "ada"
        await settle(
            guarded_update(session, Deal, 42, 7, {"amount": Deal.amount - 1, "owner_id": 2, "state": "paid"})
        )
        # Without another await: an AsyncSession could not load anything now.
        assert (deal.amount, deal.fence, deal.state, deal.owner.name) == (99, 7, "paid", "bob")
        assert deal.changed_at is not None
        await settle(session.commit())


async def test_loading_for_update_refreshes_objects_of_the_session(database: Database) -> None:
    async with database.session() as session:
        deal = await settle(session.get(Deal, 42))
        await settle(session.commit())  # SQLite: otherwise no other connection could write
        await write(database, 6, {"amount": 50})
        again = await settle(load_for_update(session, Deal, 42, 7, options=[selectinload(Deal.owner)]))
        assert again is deal
        assert (deal.amount, deal.fence, deal.owner.name) == (50, 7, "ada")


async def test_an_object_read_before_and_kept_is_never_trusted(database: Database) -> None:
    async with database.session(expire_on_commit=False) as session:
        deal = await settle(session.get(Deal, 42))
        await settle(session.commit())
        await write(database, 6, {"amount": 50})
        assert deal.amount == 100
        await settle(load_for_update(session, Deal, 42, 7))
        assert deal.amount == 50


async def test_changes_made_before_the_fence_was_presented_are_refused(database: Database) -> None:
    async with database.session() as session:
        deal = await settle(session.get(Deal, 42))
        deal.amount += 1
        with pytest.raises(InvalidRequest, match="Deal 42 has unflushed changes"):
            await settle(load_for_update(session, Deal, 42, 7))
        with pytest.raises(InvalidRequest, match="call the guard before changing the object"):
            await settle(guarded_update(session, Deal, 42, 7, {"state": "paid"}))
        await settle(session.rollback())
    deal = await stored(database)
    assert (deal.amount, deal.fence) == (100, 0)


async def test_scoped_sessions_are_sessions(database: Database) -> None:
    if database.is_async:
        scoped: Any = async_scoped_session(
            async_sessionmaker(database.engine, class_=AsyncSession), asyncio.current_task
        )
    else:
        scoped = scoped_session(sessionmaker(database.engine, class_=Session))
    await settle(guarded_update(scoped, Deal, 42, 7, {"amount": 90}))
    assert (await settle(load_for_update(scoped, Deal, 42, 7))).amount == 90
    await settle(scoped.commit())
    await settle(scoped.remove())
    assert (await stored(database)).amount == 90


async def test_rows_from_before_the_column_was_added_count_as_never_locked(database: Database) -> None:
    async with database.session() as session:
        await settle(session.execute(text("INSERT INTO tickets (id, seat) VALUES ('" + "0" * 32 + "', 1)")))
        assert (await settle(session.scalar(select(Ticket.fence)))) == 0
        assert (await settle(load_for_update(session, Ticket, UUID(int=0), 1))).fence == 1


# Two transactions at once.


at_every_level = pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])


@pytest.fixture
async def isolated(level: str, refilled_postgres: PostgresAddress) -> AsyncIterator[Database]:
    database = Database(refilled_postgres.url("asyncpg"), isolation_level=level)
    yield database
    await database.close()


@at_every_level
async def test_the_older_of_two_concurrent_writers_is_refused(
    isolated: Database, level: str, refilled_postgres: PostgresAddress
) -> None:
    async with isolated.session() as newer, isolated.session() as older:
        # From here on it sees nothing newer at the higher levels.
        await older.execute(text("SELECT 1 FROM deals"))
        await load_for_update(newer, Deal, 42, 2)
        late = asyncio.create_task(settle(guarded_update(older, Deal, 42, 1, {"amount": 1})))
        await eventually_async(lambda: is_waiting_for_a_row(refilled_postgres))
        await guarded_update(newer, Deal, 42, 2, {"amount": 90})
        await newer.commit()
        if level == "READ COMMITTED":
            with pytest.raises(StaleFence) as refused:
                await late
            assert (refused.value.seen, refused.value.given) == (2, 1)
        else:
            with pytest.raises(DBAPIError) as failed:
                await late
            assert failed.value.orig.sqlstate == SERIALIZATION_FAILURE  # passed on as it is
        await older.rollback()
        with pytest.raises(StaleFence):  # and when it tries again
            await guarded_update(older, Deal, 42, 1, {"amount": 1})
    assert (await stored(isolated)).amount == 90


@at_every_level
async def test_the_newer_of_two_concurrent_writers_sees_the_older_ones_write(
    isolated: Database, level: str, refilled_postgres: PostgresAddress
) -> None:
    async with isolated.session() as older, isolated.session() as newer:
        deal = await load_for_update(older, Deal, 42, 1)
        loading = asyncio.create_task(settle(load_for_update(newer, Deal, 42, 2)))
        await eventually_async(lambda: is_waiting_for_a_row(refilled_postgres))
        deal.amount += 10
        await older.commit()
        if level == "READ COMMITTED":
            deal = await loading
        else:
            with pytest.raises(DBAPIError) as failed:
                await loading
            assert failed.value.orig.sqlstate == SERIALIZATION_FAILURE
            await newer.rollback()
            deal = await load_for_update(newer, Deal, 42, 2)
        deal.amount += 10
        await newer.commit()
    assert (await stored(isolated)).amount == 120


SERIALIZATION_FAILURE = "40001"


def is_waiting_for_a_row(database: PostgresAddress) -> bool:
    with database.connect() as connection:
        waiting = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
    return waiting is not None and waiting[0] > 0


async def test_a_locked_sqlite_raises_and_nothing_was_changed(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/deals.db", connect_args={"timeout": 0.1})
    await database.create(Base.metadata)
    async with database.session() as session:
        session.add(Deal(id=42))
        session.commit()
    async with database.session() as newer, database.session() as older:
        load_for_update(newer, Deal, 42, 2)
        with pytest.raises(OperationalError, match="database is locked"):
            guarded_update(older, Deal, 42, 1, {"amount": 1})
        older.rollback()
        newer.commit()
        with pytest.raises(StaleFence):
            guarded_update(older, Deal, 42, 1, {"amount": 1})
    await database.close()


async def test_a_plain_write_in_a_later_transaction_is_not_guarded(database: Database) -> None:
    """What the docs say is not promised: the fence holds for the transaction in which it was shown."""
    async with database.session(expire_on_commit=False) as session:
        await settle(load_for_update(session, Deal, 42, 1))
        await settle(session.commit())
        await load(database, 2)
        await settle(session.execute(update(Deal).values(amount=1)))
        await settle(session.commit())
    assert (await stored(database)).amount == 1


# The extra.


def test_a_missing_extra_is_named_when_the_module_is_imported_and_not_before() -> None:
    code = """
import importlib, sys
for module, package in ("sql", "sqlalchemy"), ("http", "httpx"), ("http", "fastapi"):
    sys.modules[package] = None
    import leasehold.operations.guards.valkey
    try:
        importlib.import_module(f"leasehold.operations.guards.{module}")
    except ModuleNotFoundError as error:
        print(error)
    del sys.modules[package]
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert ran.stdout.splitlines() == [
        f"leasehold.operations.guards.{module} needs {package}: pip install 'leasehold[operations]'"
        for module, package in [("sql", "sqlalchemy"), ("http", "httpx"), ("http", "fastapi")]
    ], ran.stderr


def test_blocking_sessions_need_no_greenlet() -> None:
    code = """
import sys
sys.modules["greenlet"] = None
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from leasehold.operations.guards.sql import Fenced, guarded_update
class Base(DeclarativeBase): pass
class Deal(Fenced, Base):
    __tablename__ = "deals"
    id: Mapped[int] = mapped_column(primary_key=True)
    amount: Mapped[int]
engine = create_engine("sqlite://")
Base.metadata.create_all(engine)
with Session(engine) as session:
    session.add(Deal(id=1, amount=5))
    guarded_update(session, Deal, 1, 7, {"amount": 6})
    print(session.get(Deal, 1).amount)
engine.dispose()
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert ran.stdout == "6\n", ran.stderr


def test_the_column_is_a_big_integer_that_is_never_null() -> None:
    column = Deal.__table__.c.fence
    assert type(column.type) is BigInteger
    assert not column.nullable
