"""What observers receive, on both sides, and what they must not change."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest
from tests.observe.recorder import SCRIPTED, Recorder, play, play_blocking
from tests.support.eventually import LIMIT, eventually, eventually_async

import leasehold
from leasehold.core.observer import LeaseEnded, Operation, Result, observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers import Server


async def test_every_operation_is_observed_with_its_outcome(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        await play(locks)
    assert told.outcomes() == SCRIPTED
    assert len(told.begun) == len(SCRIPTED)
    assert all(result.seconds >= 0 for _, result in told.ended)


def test_threads_are_observed_alike(valkey: Server) -> None:
    with leasehold.blocking.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        play_blocking(locks)
    assert told.outcomes() == SCRIPTED


async def test_nothing_is_observed_before_an_observer_is_added(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        early = await locks.acquire("early")
        locks.lookout.add(told := Recorder())
        assert (told.begun, told.events) == ([], [])
        await early.release()
    assert told.outcomes() == [("lock", "release", "success")]
    (end,) = told.events
    assert end == LeaseEnded("lock", "early", early.fence, "released", None), (
        "an observer added after the start"
    )


async def test_a_grant_has_its_fence_and_an_end_the_time_held(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        lease = await locks.acquire("a", ttl=30)
        await asyncio.sleep(0.05)
        await lease.release()
    assert told.result("acquire").fence == lease.fence
    (end,) = told.events
    assert isinstance(end, LeaseEnded)
    assert (end.reason, end.fence) == ("released", lease.fence)
    assert end.held is not None
    assert 0.05 <= end.held < LIMIT


async def test_a_wait_has_its_length_the_queue_and_the_hand_over(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as holder, leasehold.connect(valkey.url) as waiter:
        waiter.lookout.add(told := Recorder())
        lease = await holder.acquire("a")
        waiting = asyncio.create_task(waiter.acquire("a", wait=60, renew=True))
        await eventually_async(lambda: _has_waiter(holder))
        await lease.release()
        await (await waiting).release()
    result = told.result("acquire")
    assert result.outcome == "success"
    assert result.queue == 1
    assert result.waited is not None
    assert 0 < result.waited <= result.seconds
    assert result.handed_over is not None, "the grant was pushed, so its way can be timed"
    assert 0 <= result.handed_over < result.seconds


async def test_without_a_wait_there_is_no_wait_time(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        lease = await locks.acquire("a")
        assert await locks.try_acquire("a") is None
        await lease.release()
    assert (told.result("acquire").waited, told.result("acquire").queue) == (None, None)
    assert (told.result("try_acquire").waited, told.result("try_acquire").queue) == (None, 0)


async def test_a_taken_lease_is_observed_as_lost_when_its_holder_is_notified(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        lease = await locks.acquire("a")
        await locks.take("a")
        await lease.lost(LIMIT)
        assert told.ends() == [("a", "taken")]


async def test_a_lease_that_expires_unnoticed_is_observed_as_lost_once(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        lease = await locks.acquire("a", ttl=0.5)
        await lease.lost(LIMIT)
        with pytest.raises(leasehold.LeaseLost):
            await lease.release()
        with pytest.raises(leasehold.LeaseLost):
            await lease.renew()
    assert told.ends() == [("a", "expired")]
    assert told.losses_found() == []


async def test_a_loss_found_at_the_release_is_observed(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        lease = await locks.acquire("a")
        valkey.call("FLUSHALL")  # this causes no notification
        with pytest.raises(leasehold.LeaseLost):
            await lease.release()
    assert told.ends() == [("a", "released")], "in good faith"
    assert told.losses_found() == [("a", "expired")]


async def test_background_renewals_are_observed(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        async with locks.lock("a", ttl=9):
            await eventually_async(lambda: told.renewals()[:1] == ["success"])


async def test_renewals_without_a_reply_are_observed_and_so_is_the_loss(
    own_server: Callable[..., Server],
) -> None:
    store = own_server("valkey9")
    async with leasehold.connect(store.url, timeout=2) as locks:
        locks.lookout.add(told := Recorder())
        lease = await locks.acquire("a", ttl=9, renew=True)
        store.kill()
        assert await lease.lost(LIMIT) == "expired"
    assert "unavailable" in told.renewals()
    assert told.ends() == [("a", "expired")]


def test_renewals_by_the_background_thread_are_observed(valkey: Server) -> None:
    with leasehold.blocking.connect(valkey.url) as locks:
        locks.lookout.add(told := Recorder())
        with locks.lock("a", ttl=9):
            eventually(lambda: "success" in told.renewals())


async def test_a_cancelled_acquire_is_observed_as_cancelled(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as holder, leasehold.connect(valkey.url) as waiter:
        waiter.lookout.add(told := Recorder())
        lease = await holder.acquire("a")
        waiting = asyncio.create_task(waiter.acquire("a", wait=60))
        await eventually_async(lambda: _has_waiter(holder))
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await lease.release()
    assert told.outcomes() == [("lock", "acquire", "cancelled")]


async def test_a_silent_store_is_observed_as_unavailable(own_server: Callable[..., Server]) -> None:
    store = own_server("valkey9")
    async with leasehold.connect(store.url, timeout=1) as locks:
        locks.lookout.add(told := Recorder())
        store.pause()
        with pytest.raises(leasehold.StoreUnavailable):
            await locks.acquire("a", wait=0)
        store.resume()
    assert told.outcomes() == [("lock", "try_acquire", "unavailable")]


class _Broken:
    """An observer with a bug in everything."""

    def __init__(self, *, at_begin: bool) -> None:
        self._at_begin = at_begin

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        if self._at_begin:
            raise ZeroDivisionError("begin")

        def end(result: Result) -> None:
            raise ZeroDivisionError("end")

        return end

    def hear(self, event: object) -> None:
        raise ZeroDivisionError("hear")


@pytest.mark.parametrize("at_begin", [True, False], ids=["at_begin", "at_end"])
async def test_a_failing_observer_does_not_affect_leases(
    valkey: Server, caplog: pytest.LogCaptureFixture, at_begin: bool
) -> None:
    async with leasehold.connect(valkey.url) as locks:
        locks.lookout.add(first := Recorder())
        locks.lookout.add(_Broken(at_begin=at_begin))
        locks.lookout.add(last := Recorder())
        await play(locks)
        assert first.outcomes() == last.outcomes() == SCRIPTED
        assert [info.name async for info in locks.list()] == [], "everything was given back"
    complaints = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(complaints) == 1, "said once, not with every operation"
    assert complaints[0].exc_info is not None


async def test_observers_end_in_reverse_order() -> None:
    lines: list[str] = []

    class Noting:
        def __init__(self, name: str) -> None:
            self.name = name

        def begin(self, operation: Operation) -> Callable[[Result], None]:
            lines.append(f"+{self.name}")
            return lambda result: lines.append(f"-{self.name}")

        def hear(self, event: object) -> None: ...

    locks = leasehold.connect("redis://127.0.0.1:1")
    for name in "abc":
        locks.lookout.add(Noting(name))
    clock = iter([1.0, 3.5])

    async def work() -> int:
        lines.append("work")
        return 7

    operation = Operation("file", "write", "x")
    assert await observed(locks.lookout, lambda: next(clock), operation, work) == 7
    assert lines == ["+a", "+b", "+c", "work", "-c", "-b", "-a"]


async def _has_waiter(locks: leasehold.Client) -> bool:
    return (await locks.inspect("a")).waiters == 1
