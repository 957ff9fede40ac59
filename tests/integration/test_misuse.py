"""Calls that a program makes by mistake get an error that says what to do instead."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import leasehold
from leasehold import InvalidRequest, blocking

if TYPE_CHECKING:
    from tests.support.servers import Server


async def test_a_closed_async_client_says_so_although_no_store_was_asked(
    valkey: Server, caplog: pytest.LogCaptureFixture
) -> None:
    locks = leasehold.connect(valkey.url)
    lease = await locks.acquire("a", renew=True)
    await locks.close()
    for call in (locks.acquire("b"), locks.inspect("a"), locks.take("a"), locks.once("c", list)):
        with pytest.raises(InvalidRequest, match="client is closed; open a new one"):
            await call
    assert lease.is_lost
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_closed_blocking_client_says_so_although_no_store_was_asked(
    valkey: Server, caplog: pytest.LogCaptureFixture
) -> None:
    locks = blocking.connect(valkey.url)
    locks.acquire("a", renew=True)
    locks.close()
    calls: list[Any] = [lambda: locks.acquire("b"), lambda: locks.inspect("a"), lambda: locks.take("a")]
    for call in calls:
        with pytest.raises(InvalidRequest, match="client is closed; open a new one"):
            call()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]


async def test_waiting_for_a_lock_that_the_client_holds_itself_says_so(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks, leasehold.connect(valkey.url) as rival:
        lease = await locks.acquire("a")
        with pytest.raises(leasehold.AcquireTimeout, match="this client itself holds it") as caught:
            await locks.acquire("a", wait=0.01)
        assert caught.value.is_own
        for wait in (0.01, 1e-9):  # over before the first lock is asked for
            with pytest.raises(leasehold.AcquireTimeout, match="this client itself holds it"):
                async with locks.lock_all(["a", "b"], wait=wait):
                    pass
        with pytest.raises(leasehold.AcquireTimeout) as caught:
            await rival.acquire("a", wait=0.01)
        assert not caught.value.is_own
        await lease.release()
        await rival.acquire("a")
        with pytest.raises(leasehold.AcquireTimeout) as caught:
            await locks.acquire("a", wait=0.01)
        assert not caught.value.is_own


def test_with_instead_of_async_with_says_what_to_write(valkey: Server) -> None:
    locks: Any = leasehold.connect(valkey.url)
    hint = "use 'async with' here; for threads, use leasehold.blocking"
    with pytest.raises(TypeError, match=hint), locks:
        pass
    with pytest.raises(TypeError, match=hint), locks.lock("a"):
        pass
    with pytest.raises(TypeError, match=hint), locks.lock_all(["a"]):
        pass


UNCLOSED = """
import asyncio, gc, sys
import leasehold


async def main():
    locks = leasehold.connect(sys.argv[1])
    await locks.acquire("a", renew=True)
    await asyncio.sleep(0.01)


loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
del loop
gc.collect()
"""


def test_a_client_that_is_dropped_without_being_closed_is_one_warning_and_no_lost_task(
    valkey: Server,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", UNCLOSED, valkey.url],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stderr.count("unclosed Leasehold client: use 'async with', or await its close()") == 1
    assert "Task was destroyed" not in ended.stderr


async def test_a_closed_client_is_no_warning(valkey: Server, recwarn: pytest.WarningsRecorder) -> None:
    async with leasehold.connect(valkey.url) as locks:
        await locks.acquire("a", renew=True)
    del locks
    await asyncio.sleep(0)
    assert not recwarn.list
