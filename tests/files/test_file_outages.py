"""Outages of the store: logged once, and over by themselves."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.files.both_sides import SIDES, file_locks
from tests.support.eventually import LIMIT, eventually_async
from tests.support.servers import SERVERS

import leasehold
from leasehold.files import FileLocks, FileSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.processes import Child
    from tests.support.servers import Server


def connect(side: str, url: str) -> Any:
    module: Any = leasehold if side == "async" else leasehold.blocking
    return module.connect(url, timeout=3)


async def close(client: Any) -> None:
    await client.close() if isinstance(client, leasehold.Client) else await asyncio.to_thread(client.close)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage().split(":")[0]
        for record in caplog.records
        if record.name == "leasehold.files" and "available" in record.getMessage()
    ]


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("flavour", SERVERS)
async def test_an_outage_of_the_store_is_logged_once_and_ends_by_itself(
    own_server: Callable[..., Server],
    root: Path,
    caplog: pytest.LogCaptureFixture,
    side: str,
    flavour: str,
) -> None:
    server = own_server(flavour, appendonly=True, appendfsync="always")
    client = connect(side, server.url)
    files = file_locks(client, root, settings=FileSettings(wait=0, ttl=120))
    session = await files.session("one")
    lease = await session.acquire_write("a.txt")
    fence = lease.fence
    with caplog.at_level(logging.INFO, "leasehold.files"):
        for _ in range(2):
            server.kill()
            refusals = await asyncio.gather(
                session.acquire_write("b.txt"),
                session.acquire_read("b.txt"),
                session.history(),
                files.inspect("a.txt"),
                files.session("two"),
                return_exceptions=True,
            )
            assert [type(each) for each in refusals] == [leasehold.StoreUnavailable] * 5
            server.start()
            await eventually_async(lambda: _works(session, "b.txt"))
    assert said(caplog) == ["unavailable", "available again"] * 2
    assert session.secret not in caplog.text
    await lease.renew()
    assert lease.fence == fence
    await lease.release()
    assert not (await files.inspect("a.txt")).is_held
    await close(client)


async def _works(session: Any, path: str) -> bool:
    with suppress(leasehold.StoreUnavailable):
        lease = await session.acquire_write(path)
        await lease.release()
        return True
    return False


async def test_a_release_that_fails_is_surfaced_and_can_be_done_again(
    own_server: Callable[..., Server], root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server("valkey9", appendonly=True, appendfsync="always")
    async with leasehold.connect(server.url, timeout=3) as client:
        session = await FileLocks(client, root=root).session("one")
        lease = await session.acquire_write("a.txt", ttl=300)
        server.kill()
        with pytest.raises(leasehold.StoreUnavailable):
            await lease.release()
        assert lease.is_lost
        messages = [record.getMessage() for record in caplog.records if "releasing" in record.getMessage()]
        assert messages == [f"session one: releasing {str(root / 'a.txt')!r} failed: store_unavailable"]
        assert session.held == [lease]
        server.start()
        await lease.release()
        assert session.held == []
        assert await session.history() == []


async def test_a_store_that_comes_back_empty_means_a_lost_lease_and_a_session_that_continues(
    own_server: Callable[..., Server], root: Path
) -> None:
    server = own_server("valkey9")
    async with leasehold.connect(server.url) as client:
        session = await FileLocks(client, root=root).session("one")
        lease = await session.acquire_write("a.txt", ttl=300)
        server.restart(keep_data=False)
        await eventually_async(lambda: _works(session, "b.txt"))
        with pytest.raises(leasehold.LeaseLost):
            await lease.renew()
        with pytest.raises(leasehold.LeaseLost):
            await lease.release()
        again = await session.acquire_write("a.txt", wait=0)
        assert again.fence > lease.fence


def sleeper(parent: Any, url: str, root: str) -> None:
    """A process that is paused while it holds a file, and tries to write when it wakes up."""
    import leasehold
    from leasehold.files.blocking import FileLocks

    with leasehold.blocking.connect(url) as locks:
        session = FileLocks(locks, root=root).session("sleeper")
        session.acquire_write("a.txt", ttl=3)
        parent.send(state="holding")
        parent.receive()
        try:
            session.write_file("a.txt", b"late")
        except leasehold.LeaseLost:
            parent.send(outcome="lost")
        else:
            parent.send(outcome="written")


async def test_a_process_that_was_paused_does_not_write_when_it_wakes_up(
    valkey: Server, root: Path, spawn: Callable[..., Child]
) -> None:
    child = spawn(sleeper, valkey.url, str(root))
    assert (await child.aread())["state"] == "holding"
    child.pause()
    async with leasehold.connect(valkey.url) as client:
        session = await FileLocks(client, root=root).session("other")
        async with session.write("a.txt", wait=LIMIT):
            await session.write_file("a.txt", b"mine")
            child.resume()
            child.send("go")
            assert (await child.aread())["outcome"] == "lost"
    assert (root / "a.txt").read_bytes() == b"mine"


async def test_a_forked_child_owns_nothing_of_its_parent_and_releases_nothing(
    valkey: Server, root: Path
) -> None:
    def in_fork() -> int:
        with leasehold.blocking.connect(valkey.url) as locks:
            from leasehold.files.blocking import FileLocks as BlockingFileLocks

            session = BlockingFileLocks(locks, root=root).session("parent")
            lease = session.acquire_write("a.txt")
            pid = os.fork()
            if pid == 0:
                code = 1
                with suppress(BaseException):
                    try:
                        lease.release()
                    except leasehold.LeaseLost:
                        code = 0 if lease.is_lost else 2
                os._exit(code)
            _, status = os.waitpid(pid, 0)
            lease.check()
            lease.renew()
            assert len(session.history()) == 1
            lease.release()
            return os.waitstatus_to_exitcode(status)

    assert await asyncio.to_thread(in_fork) == 0
