"""Read, modify, write by two processes with real leases, one of them stopped past its ttl in the middle (S4).

Each round one process is stopped between its read and its write until its lease has ended and the other one has
read in its turn; then it goes on, before or after the other one writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import NullPool, create_engine, text
from tests.support.processes import Child

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.conftest import Count, Servers

GUARDED, ONLY_AT_THE_WRITE, OFF = "guarded", "only at the write", "off"


def work(parent: Any, store_url: str) -> None:
    """Counts up, one step at a time on the test's request: "begin" acquires and reads, "write" writes what was read plus one."""
    from sqlalchemy import BigInteger, Integer, create_engine, update
    from sqlalchemy.orm import DeclarativeBase, Session, mapped_column

    import leasehold
    from leasehold import blocking
    from leasehold.operations.guards.sql import Fenced, guarded_update, load_for_update

    class Base(DeclarativeBase):
        pass

    class Counter(Fenced, Base):
        __tablename__ = "counters"
        # Without annotations: SQLAlchemy could not resolve those inside a function.
        id = mapped_column(Integer, primary_key=True)
        value = mapped_column(BigInteger)

    engines: dict[str, Any] = {}
    locks = blocking.connect(store_url, timeout=60)
    parent.send(ready=True)
    while said := parent.receive():
        url, guard = said
        if url not in engines:
            engines[url] = create_engine(url, connect_args={"timeout": 30} if "sqlite" in url else {})
        engine = engines[url]
        lease = locks.acquire("counter", ttl=0.3, wait=60)
        with Session(engine) as session, session.begin():
            if guard == "guarded":
                value = load_for_update(session, Counter, 1, lease.fence).value
            else:
                value = session.get_one(Counter, 1).value
        parent.send(fence=lease.fence, value=value)
        assert parent.receive() == "write"
        try:
            with Session(engine) as session, session.begin():
                if guard == "off":
                    session.execute(update(Counter).values(value=value + 1))
                else:
                    guarded_update(session, Counter, 1, lease.fence, {"value": value + 1})
        except leasehold.StaleFence as refused:
            parent.send(acknowledged=False, seen=refused.seen, given=refused.given)
        else:
            parent.send(acknowledged=True)
        try:
            lease.release()
        except leasehold.LeaseLost:
            parent.send(lost=True)
        else:
            parent.send(lost=False)


class Scene:
    """The counter and the two processes."""

    def __init__(self, children: list[Child], url: str) -> None:
        self.children, self._url = children, url
        self._engine = create_engine(url, poolclass=NullPool)
        with self._engine.begin() as connection:
            connection.execute(
                text(
                    "CREATE TABLE counters (id INTEGER PRIMARY KEY, value BIGINT, fence BIGINT NOT NULL DEFAULT 0)"
                )
            )
            connection.execute(text("INSERT INTO counters (id, value) VALUES (1, 0)"))
        self.acknowledged = self.refused = 0

    def counter(self) -> int:
        with self._engine.connect() as connection:
            return connection.execute(text("SELECT value FROM counters")).scalar_one()

    def round(self, number: int, guard: str) -> None:
        """The stopped process continues before the other one writes in even rounds, and after it in odd ones."""
        stopped, other = self.children[number % 2], self.children[1 - number % 2]
        stopped.send([self._url, guard])
        older = stopped.read()
        stopped.pause()
        other.send([self._url, guard])
        newer = other.read()  # not before the lease has ended
        assert newer["fence"] > older["fence"]
        if number % 4 < 2:
            self._write(stopped)
            self._write(other)
        else:
            self._write(other)
            self._write(stopped)

    def _write(self, child: Child) -> None:
        child.send("write")
        child.resume()
        told = child.read()
        if told["acknowledged"]:
            self.acknowledged += 1
        else:
            assert told["seen"] > told["given"]
            self.refused += 1
        child.read()  # whether the lease was lost

    def lost(self) -> int:
        return self.acknowledged - self.counter()


@pytest.fixture(scope="module")
def children(servers: Servers) -> Iterator[list[Child]]:
    """Both processes, for all tests: to import SQLAlchemy takes them longer than to count."""
    with Child.spawn(work, servers["valkey9"].url) as one, Child.spawn(work, servers["valkey9"].url) as other:
        for child in (one, other):
            assert child.read() == {"ready": True}
        yield [one, other]


@pytest.fixture(params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, children: list[Child], tmp_path: Path) -> Iterator[Scene]:
    if request.param == "sqlite":
        yield Scene(children, f"sqlite:///{tmp_path}/counter.db")
        return
    with request.getfixturevalue("postgres").database("guard_stress") as database:
        yield Scene(children, database.url())


def test_no_acknowledged_update_is_lost_with_the_guard_and_some_are_without_it(
    scene: Scene, count: Count
) -> None:
    rounds = count(full=40, quick=4)
    for number in range(rounds):
        scene.round(number, GUARDED)
    assert scene.lost() == 0
    assert scene.acknowledged == scene.refused == rounds
    # The controls: the very same rounds lose updates if the fence is not shown at the read, or not at all.
    for control in (ONLY_AT_THE_WRITE, OFF):
        before = scene.lost()
        for number in range(count(full=4, quick=2)):
            scene.round(number, control)
        assert scene.lost() > before, control
