"""A fenced effect of `once` happens exactly once, at whichever point its process is killed, or paused and woken up late."""

from __future__ import annotations

import signal
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from tests.support.processes import Child

from leasehold import blocking
from leasehold.operations.guards.sql import Fenced, guarded_update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.servers import Server

PRICE = 100


class Base(DeclarativeBase):
    pass


class Account(Fenced, Base):
    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    is_paid: Mapped[bool] = mapped_column(default=False)
    balance: Mapped[int] = mapped_column(default=0)


def pay(database: Any, number: int, lease: Any, *, is_fenced: bool, point: Callable[..., Any]) -> int:
    """The effect: reads whether it has been done, and does it, in two transactions."""
    with point("read"), Session(database) as session:
        if session.get_one(Account, number).is_paid:
            return PRICE
    with point("write"), Session(database) as session, session.begin():
        if is_fenced:
            paid = {"balance": Account.balance + PRICE, "is_paid": True}
            guarded_update(session, Account, number, lease.fence, paid)
        else:
            account = session.get_one(Account, number)
            account.balance, account.is_paid = account.balance + PRICE, True
    return PRICE


def nursery(parent: Any) -> None:
    """Forks a process for each order, and reports when it is paused and how it ended."""
    import os
    import signal

    from tests.operations.test_once_fenced import mortal

    while (orders := parent.receive()) is not None:
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if mortal(*orders) else 3)
            finally:
                os._exit(4)
        _, status = os.waitpid(pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            parent.send(status="paused")
            parent.receive()
            os.kill(pid, signal.SIGCONT)
            _, status = os.waitpid(pid, 0)
        parent.send(status=os.waitstatus_to_exitcode(status))


def mortal(url: str, file: str, number: int, step: int, fate: str, is_fenced: bool) -> bool:
    """Pays once, and sends itself the signal ``fate`` at the n-th point; whether that came to a result."""
    import functools
    import os
    from contextlib import contextmanager

    from leasehold import LeaseLost, StaleFence
    from leasehold.valkey.once_store import ValkeyOnceStore
    from leasehold.valkey.store import ValkeyStore

    passed = 0

    def pass_point() -> None:
        nonlocal passed
        passed += 1
        if passed == step:
            os.kill(os.getpid(), getattr(signal, fate))

    @contextmanager
    def point(_name: str) -> Iterator[None]:
        pass_point()
        yield
        pass_point()

    def watched(kind: Any, name: str) -> None:
        ask = getattr(kind, name)

        @functools.wraps(ask)
        async def wrapper(*args: Any, **options: Any) -> Any:
            with point(name):
                return await ask(*args, **options)

        setattr(kind, name, wrapper)

    for kind, name in (ValkeyOnceStore, "recall"), (ValkeyStore, "acquire"), (ValkeyOnceStore, "keep"):
        watched(kind, name)
    database = create_engine(f"sqlite:///{file}")
    try:
        with blocking.connect(url) as locks:
            locks.once(
                f"payout:{number}",
                lambda lease: pay(database, number, lease, is_fenced=is_fenced, point=point),
                lease_ttl=600,
            )
    except (LeaseLost, StaleFence):
        return False
    return True


@pytest.fixture(scope="module")
def forks() -> Iterator[Child]:
    with Child.spawn(nursery) as child:
        yield child


def balances(
    forks: Child, server: Server, folder: Path, fate: str, *, is_fenced: bool = True
) -> Iterator[int]:
    """For each point: what was paid in the end, when another process did the work after the one that was hit there."""
    file = folder / "accounts.sqlite"
    database = create_engine(f"sqlite:///{file}")
    Base.metadata.create_all(database)
    for step in count(1):
        with Session(database) as session, session.begin():
            session.add(Account(id=step))
        forks.send([server.url, str(file), step, step, fate, is_fenced])
        status = forks.read()["status"]
        if status == 0:
            break  # there is no such point left
        assert status == ("paused" if fate == "SIGSTOP" else -signal.SIGKILL), forks.stderr()
        # Its lease expires, sooner than in 600 seconds.
        server.call("DEL", f"idempotency:{{payout:{step}}}:lock")

        def work(lease: Any, number: int = step) -> int:
            from contextlib import nullcontext

            return pay(database, number, lease, is_fenced=is_fenced, point=nullcontext)

        with blocking.connect(server.url) as locks:
            assert locks.once(f"payout:{step}", work) == PRICE
        if fate == "SIGSTOP":
            forks.send(None)
            assert forks.read()["status"] in {0, 3}, forks.stderr()
        with Session(database) as session:
            yield session.get_one(Account, step).balance
    database.dispose()


@pytest.mark.parametrize("fate", ["SIGKILL", "SIGSTOP"])
def test_a_fenced_effect_happens_exactly_once(
    forks: Child, valkey: Server, tmp_path: Path, fate: str
) -> None:
    paid = list(balances(forks, valkey, tmp_path, fate))
    assert len(paid) == 12  # before and after each of three reads, two requests and a write
    assert set(paid) == {PRICE}


def test_without_the_fence_a_paused_process_pays_again(forks: Child, valkey: Server, tmp_path: Path) -> None:
    """The control: between its read and its write another process has paid."""
    assert 2 * PRICE in set(balances(forks, valkey, tmp_path, "SIGSTOP", is_fenced=False))
