"""`once` under faults: killed processes, lost replies, an absent store."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio
from tests.support.eventually import LIMIT, eventually_async
from tests.support.threads import InThread

import leasehold

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.processes import Child
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server


RUNNER = """
    import time
    import leasehold

    url, lease_ttl = args

    def work():
        report(begun=True)
        time.sleep(600)

    with leasehold.blocking.connect(url) as locks:
        locks.once("payout:42", work, lease_ttl=lease_ttl)
"""


async def test_work_whose_process_was_killed_is_run_again_after_its_lease(
    valkey: Server, spawn: Callable[..., Child]
) -> None:
    runner = spawn(RUNNER, valkey.url, 2)
    await asyncio.to_thread(runner.read)
    async with leasehold.connect(valkey.url) as locks:
        with pytest.raises(leasehold.InProgress):
            await locks.once("payout:42", lambda: "again", wait=0)
        runner.kill()
        left_ms = valkey.call("PTTL", "idempotency:{payout:42}:lock")
        assert left_ms <= 2000  # by the server's clock it is over within its ttl
        assert await locks.once("payout:42", lambda: "again", wait=LIMIT) == "again"
        assert await locks.once("payout:42", lambda: "and again") == "again"


async def test_a_paused_run_that_wakes_up_late_keeps_nothing(
    valkey: Server, spawn: Callable[..., Child]
) -> None:
    runner = spawn(
        """
        import leasehold

        def work():
            report(begun=True)
            parent.receive()
            return "late"

        with leasehold.blocking.connect(args[0]) as locks:
            try:
                report(result=locks.once("payout:42", work, lease_ttl=1))
            except leasehold.LeaseLost as lost:
                report(lost=lost.reason)
        """,
        valkey.url,
    )
    await asyncio.to_thread(runner.read)
    runner.pause()
    async with leasehold.connect(valkey.url) as locks:
        assert await locks.once("payout:42", lambda: "in time", wait=LIMIT) == "in time"
        runner.send(None)
        runner.resume()
        assert await asyncio.to_thread(runner.read) == {"lost": "expired"}
        assert await locks.once("payout:42", lambda: "third") == "in time"


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_result_is_kept_although_the_connection_broke_just_then(
    valkey: Server, proxy: Callable[[Server], FaultProxy], kind: str, lost: str
) -> None:
    through = proxy(valkey)
    runs = 0

    def work() -> str:
        nonlocal runs
        runs += 1
        arm = through.cut_after_request if lost == "reply" else through.cut_before_request
        arm(b'r"paid"')
        return "paid"

    async with _client(kind, through.url) as locks:
        assert await locks.once("payout:42", work) == "paid"
        assert await locks.once("payout:42", work) == "paid"
    assert runs == 1
    assert valkey.call("EXISTS", "idempotency:{payout:42}:lock") == 0


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_the_first_caller_learns_that_it_is_first_although_the_connection_broke(
    valkey: Server, proxy: Callable[[Server], FaultProxy], kind: str, lost: str
) -> None:
    through = proxy(valkey)
    async with _client(kind, through.url) as locks:
        arm = through.cut_after_request if lost == "reply" else through.cut_before_request
        arm(b"idempotency:")
        assert await locks.first_time("deposit", "0xabc") is True
        assert await locks.first_time("deposit", "0xabc") is False


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_work_that_was_done_is_not_done_again_after_an_outage_that_its_lease_outlasts(
    valkey: Server, proxy: Callable[[Server], FaultProxy], kind: str
) -> None:
    through = proxy(valkey)
    runs = 0

    def work() -> str:
        nonlocal runs
        runs += 1
        through.refuse()
        through.cut()
        threading.Timer(4, through.refuse, (False,)).start()
        return "paid"

    async with _client(kind, through.url, timeout=2) as locks:
        assert await locks.once("payout:42", work, lease_ttl=60) == "paid"
        assert await locks.once("payout:42", work) == "paid"
    assert runs == 1


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_lease_whose_result_may_not_have_been_kept_is_left_to_expire(
    valkey: Server, proxy: Callable[[Server], FaultProxy], kind: str
) -> None:
    through = proxy(valkey)

    def work() -> str:
        through.refuse()
        through.cut()
        # As after a renewal that arrives and whose reply is lost.
        assert valkey.call("PEXPIRE", "idempotency:{payout:42}:lock", 600_000) == 1
        return "paid"

    async with _client(kind, through.url, timeout=2) as locks:
        with pytest.raises(leasehold.StoreUnavailable):
            await locks.once("payout:42", work, lease_ttl=3)
        through.refuse(False)
        with pytest.raises(leasehold.InProgress):
            await _until_reachable(locks.once, "payout:42", lambda: "again", wait=0)
    # `close` has waited for all releases.
    assert valkey.call("EXISTS", "idempotency:{payout:42}:lock") == 1


async def test_a_caller_that_is_cancelled_after_its_work_was_done_leaves_a_result(
    valkey: Server, proxy: Callable[[Server], FaultProxy]
) -> None:
    through = proxy(valkey)
    done = asyncio.Event()

    def work() -> str:
        through.refuse()
        through.cut()
        done.set()
        return "paid"

    async with leasehold.connect(through.url, timeout=20) as locks:
        running = asyncio.create_task(locks.once("payout:42", work, lease_ttl=60))
        await done.wait()
        await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        through.refuse(False)
    async with leasehold.connect(valkey.url) as locks:
        assert await locks.once("payout:42", lambda: "again", wait=0) == "paid"


class SlowToHear(redis.asyncio.Redis):
    """A driver that hands the reply to a result over two seconds late; on its other connections nothing is late."""

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        reply = await super().execute_command(*words, **options)
        if any(word in {'r"paid"', b'r"paid"'} for word in words):
            await asyncio.sleep(2)
        return reply


async def test_a_result_that_was_kept_is_not_reported_as_lost_by_a_concurrent_renewal(valkey: Server) -> None:
    async with SlowToHear.from_url(valkey.url) as client, leasehold.from_client(client) as locks:
        assert await locks.once("payout:42", lambda: "paid", lease_ttl=5) == "paid"  # renewed in between


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_result_that_is_there_is_returned_although_the_wait_is_over(
    valkey: Server, kind: str
) -> None:
    """The lock was handed over to another waiter, which has not polled yet, or has died."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        begun.set()
        await go_on.wait()
        return "paid"

    async with leasehold.connect(valkey.url) as other, _client(kind, valkey.url) as locks:
        holding = asyncio.create_task(other.once("payout:42", work))
        await begun.wait()
        waiting = asyncio.create_task(locks.once("payout:42", lambda: "again", wait=4))
        await eventually_async(lambda: valkey.call("ZCARD", "idempotency:{payout:42}:queue") == 1)
        valkey.call("SET", "idempotency:{payout:42}", 'r"paid"', "PX", 600_000)
        assert await waiting == "paid"
        go_on.set()
        await holding


async def test_cancelled_work_keeps_nothing_and_leaves_no_lock(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        begun = asyncio.Event()

        async def work() -> None:
            begun.set()
            await asyncio.sleep(600)

        running = asyncio.create_task(locks.once("payout:42", work))
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await locks.once("payout:42", lambda: "again", wait=LIMIT) == "again"


async def test_work_is_cancelled_when_its_lease_is_lost(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        begun, cancelled = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        running = asyncio.create_task(locks.once("payout:42", work, lease_ttl=1))
        await begun.wait()
        valkey.call("DEL", "idempotency:{payout:42}:lock")
        with pytest.raises(leasehold.LeaseLost):
            await running
        assert cancelled.is_set()


async def _until_reachable(ask: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The answer, once the store can be reached again."""
    give_up_at = time.monotonic() + LIMIT
    while True:
        try:
            return await ask(*arguments, **options)
        except leasehold.StoreUnavailable:
            if time.monotonic() > give_up_at:
                raise


class _client:  # noqa: N801 - reads as what it gives
    def __init__(self, kind: str, url: str, timeout: float = 20) -> None:
        self._kind = kind
        make = leasehold.connect if kind == "async" else leasehold.blocking.connect
        self._client: Any = make(url, timeout=timeout)

    async def __aenter__(self) -> Any:
        return self._client if self._kind == "async" else InThread(self._client)

    async def __aexit__(self, *_: object) -> None:
        if self._kind == "async":
            await self._client.close()
        else:
            self._client.close()
