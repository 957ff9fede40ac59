"""Leases that are renewed or lost, and how their holders learn of it (traps 5 to 8; S2, S6, L1, L5)."""

# ruff: noqa: PT012
# (what comes out of a block is what is tested here, so the block stands in pytest.raises)

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually, eventually_async

import leasehold
from leasehold import LeaseLost, StoreUnavailable, blocking

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Count
    from tests.support.processes import Child
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

    Proxy = Callable[[Server | int], FaultProxy]

LOCK = "lock:{deal}"


def grows(lease: leasehold.Lease | blocking.Lease, seconds: float) -> Callable[[], bool]:
    """Whether the end of the lease has moved by more than so many seconds since; never, if it is lost."""
    before = lease.valid_until

    def has_grown() -> bool:
        lease.check()
        return lease.valid_until > before + seconds

    return has_grown


def hold_in_thread(url: str, growth: float, *, ttl: float, timeout: float = 2) -> None:
    """A blocking holder that keeps its lock until renewals have moved its end by so much."""
    with blocking.connect(url, timeout=timeout) as locks, locks.lock("threads", ttl=ttl) as lease:
        eventually(grows(lease, growth))


# Trap 5: the watchdog survives errors, and ends when it should


async def test_a_single_lease_is_renewed_again_and_again(valkey: Server) -> None:
    """A single one, so that no other renewals keep the renewer awake."""
    async with leasehold.connect(valkey.url) as locks:
        threads = asyncio.create_task(asyncio.to_thread(hold_in_thread, valkey.url, 3, ttl=6))
        async with locks.lock("deal", ttl=6) as lease:
            await eventually_async(grows(lease, 3))  # twice at least, at a third of the ttl
        await threads


async def test_a_crash_and_restart_of_the_server_within_the_ttl_loses_nothing(
    own_server: Callable[..., Server],
) -> None:
    server = own_server(appendonly=True, appendfsync="always")
    async with leasehold.connect(server.url, timeout=1.5) as locks:
        threads = asyncio.create_task(asyncio.to_thread(hold_in_thread, server.url, 1, ttl=12, timeout=1.5))
        await eventually_async(lambda: server.call("EXISTS", "lock:{threads}"))
        async with locks.lock("deal", ttl=12) as lease:
            has_grown = grows(lease, 1)
            server.kill()
            await eventually_async(lambda: lease.is_unsure)  # a renewal got no answer
            await asyncio.to_thread(server.start)
            await eventually_async(has_grown)
        await threads


async def test_connections_cut_again_and_again_lose_nothing(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url, timeout=5) as locks:
        threads = asyncio.create_task(asyncio.to_thread(hold_in_thread, through.url, 1, ttl=9))
        async with locks.lock("deal", ttl=9) as lease:
            has_grown = grows(lease, 1)
            # Beyond the first renewals, but no longer: a slow machine may not get through between two cuts.
            until = asyncio.get_running_loop().time() + 5
            while not (has_grown() and threads.done()) and asyncio.get_running_loop().time() < until:
                await asyncio.to_thread(through.cut)
                await asyncio.sleep(0.12)
            await eventually_async(has_grown)
        await threads


async def test_lost_renewals_and_lost_replies_to_renewals_lose_nothing(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url, timeout=5) as locks, locks.lock("deal", ttl=9) as lease:
        fence, has_grown = lease.fence, grows(lease, 1)
        for arm in [through.cut_after_request, through.cut_before_request] * 2:
            happened = arm(LOCK.encode())
            await eventually_async(happened.is_set)
            lease.check()
        await eventually_async(has_grown)
        assert lease.fence == fence


async def test_no_renewal_follows_a_release(valkey: Server) -> None:
    """When it would follow is tested in virtual time; here both clients are watched for longer than that."""
    ttl = 4.5
    with blocking.connect(valkey.url) as threads:
        async with leasehold.connect(valkey.url) as tasks:
            leases = [
                threads.acquire("of threads", ttl=ttl, renew=True),
                await tasks.acquire("of tasks", ttl=ttl, renew=True),
            ]
            have_grown = [grows(lease, 1) for lease in leases]
            await eventually_async(lambda: all(has_grown() for has_grown in have_grown))
            await asyncio.to_thread(leases[0].release)
            await leases[1].release()
            valkey.call("CONFIG", "RESETSTAT")
            await asyncio.sleep(ttl / 3 + 0.2)
            assert "cmdstat_evalsha" not in valkey.info("commandstats")


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_release_awaits_the_renewal_that_is_under_way(valkey: Server, proxy: Proxy, kind: str) -> None:
    through = proxy(valkey)
    if kind == "async":
        async with leasehold.connect(through.url, timeout=LIMIT) as locks:
            lease = await locks.acquire("deal", ttl=9, renew=True)
            through.stall("requests")
            await eventually_async(lambda: lease.exchanges)  # the renewal is on its way
            releasing = asyncio.create_task(lease.release())
            await asyncio.sleep(0.1)
            assert not releasing.done()
            through.flow()
            await releasing
    else:
        with blocking.connect(through.url, timeout=LIMIT) as locks:
            lease = locks.acquire("deal", ttl=9, renew=True)
            through.stall("requests")
            await eventually_async(lambda: lease.exchanges)
            releasing = asyncio.create_task(asyncio.to_thread(lease.release))
            await asyncio.sleep(0.1)
            assert not releasing.done()
            through.flow()
            await releasing
    assert not valkey.call("EXISTS", LOCK)


async def test_neither_renewal_nor_watchdog_brings_a_lost_lease_back(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        lease = await locks.acquire("deal", ttl=0.6, renew=True)
        valkey.call("DEL", LOCK)
        assert await lease.lost(timeout=LIMIT) == "expired"
        assert not valkey.call("EXISTS", LOCK)
        with pytest.raises(LeaseLost):
            await lease.renew()
        other = await locks.acquire("deal", ttl=5)
        valkey.call("DEL", LOCK)
        with pytest.raises(LeaseLost, match="expired"):
            await other.renew()
        assert not valkey.call("EXISTS", LOCK)
    with blocking.connect(valkey.url) as locks:
        lease = locks.acquire("deal", ttl=0.6, renew=True)
        valkey.call("DEL", LOCK)
        assert await asyncio.to_thread(lease.lost, LIMIT) == "expired"
        assert not valkey.call("EXISTS", LOCK)
        with pytest.raises(LeaseLost):
            lease.renew()


async def test_the_next_renewal_finds_that_the_server_lost_its_data(
    own_server: Callable[..., Server],
) -> None:
    server = own_server()
    async with leasehold.connect(server.url, timeout=5) as locks:
        with pytest.raises(LeaseLost, match="expired"):
            async with locks.lock("deal", ttl=2):
                await asyncio.to_thread(server.restart)
                await asyncio.sleep(LIMIT)


async def test_the_lock_of_a_killed_holder_is_free_within_its_ttl(
    valkey: Server, spawn: Callable[..., Child]
) -> None:
    def work(parent: Any, url: str) -> None:
        from leasehold import blocking

        with blocking.connect(url) as locks, locks.lock("deal", ttl=3):
            parent.send(held=True)
            parent.receive()

    child = spawn(work, valkey.url)
    await child.aread()
    async with leasehold.connect(valkey.url) as locks:
        assert await locks.try_acquire("deal") is None
        child.kill()
        # The server ends it: by its own clock within the ttl, or it has done so already.
        left_ms = valkey.call("PTTL", LOCK)
        assert left_ms <= 3000
        started_at = time.monotonic()
        await locks.acquire("deal", ttl=5, wait=LIMIT)
        print(f"left {left_ms} ms, acquired after {(time.monotonic() - started_at) * 1000:.0f} ms")


# Traps 6 and 8: the clock decides


async def test_a_starved_loop_sees_at_once_that_its_lease_is_lost(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        with pytest.raises(LeaseLost, match="expired"):
            async with locks.lock("deal", ttl=0.3) as lease:
                time.sleep(0.4)
                assert lease.is_lost
                assert lease.remaining() == 0
                with pytest.raises(LeaseLost, match="expired"):
                    lease.check()
        ran_on = False
        with pytest.raises(LeaseLost, match="expired"):
            async with locks.lock("deal", ttl=0.3):
                time.sleep(0.4)
                await asyncio.sleep(LIMIT)
                ran_on = True
        assert not ran_on


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_holder_stopped_for_longer_than_its_ttl_wakes_up_without_a_lease(
    valkey: Server, spawn: Callable[..., Child], kind: str
) -> None:
    async def work_async(parent: Any, url: str) -> None:
        import asyncio

        import leasehold

        try:
            async with leasehold.connect(url) as locks, locks.lock("deal", ttl=0.5) as lease:
                parent.send(fence=lease.fence)
                while not lease.is_lost:
                    await asyncio.sleep(0.001)
                parent.send(is_lost=lease.is_lost, remaining=lease.remaining())
                await asyncio.sleep(60)
        except leasehold.LeaseLost as lost:
            parent.send(reason=lost.reason)

    def work_blocking(parent: Any, url: str) -> None:
        import time

        import leasehold
        from leasehold import blocking

        try:
            with blocking.connect(url) as locks, locks.lock("deal", ttl=0.5) as lease:
                parent.send(fence=lease.fence)
                while not lease.is_lost:
                    time.sleep(0.001)
                parent.send(is_lost=lease.is_lost, remaining=lease.remaining())
        except leasehold.LeaseLost as lost:
            parent.send(reason=lost.reason)

    child = spawn(work_async if kind == "async" else work_blocking, valkey.url)
    old = (await child.aread())["fence"]
    await asyncio.sleep(0.6)  # kept alive by renewals
    child.pause()
    async with leasehold.connect(valkey.url) as locks:
        lease = await locks.acquire("deal", ttl=90, wait=LIMIT)
        assert lease.fence > old
        child.resume()
        assert await child.aread() == {"is_lost": True, "remaining": 0.0}
        assert await child.aread() == {"reason": "expired"}
        assert child.wait() == 0
        lease.check()
        await lease.release()


async def test_a_slow_reply_shortens_the_lease_and_never_lengthens_it(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url) as locks:
        for direction in ("requests", "replies"):
            through.delay(0.3, direction)
            lease = await locks.acquire("deal", ttl=60)
            assert lease.remaining() < 59.7
            # On the server's own clock: the holder's deadline comes first.
            assert (time.time() + lease.remaining()) * 1000 < valkey.call("PEXPIRETIME", LOCK)
            await lease.renew()
            assert lease.remaining() < 59.7
            assert (time.time() + lease.remaining()) * 1000 < valkey.call("PEXPIRETIME", LOCK)
            through.delay(0)
            await lease.release()
    with blocking.connect(through.url) as locks:
        through.delay(0.3, "replies")
        lease = locks.acquire("deal", ttl=60)
        assert lease.remaining() < 59.7
        assert (time.time() + lease.remaining()) * 1000 < valkey.call("PEXPIRETIME", LOCK)


async def test_a_grant_that_arrives_after_its_ttl_is_not_reported(valkey: Server, proxy: Proxy) -> None:
    """It is asked for again, which the counter of fences shows."""
    through = proxy(valkey)
    async with leasehold.connect(through.url, timeout=LIMIT) as locks:
        through.stall("replies")
        acquiring = asyncio.create_task(locks.acquire("deal", ttl=1, wait=0))
        await eventually_async(lambda: valkey.call("EXISTS", f"{LOCK}:fence"))
        late = int(valkey.call("GET", f"{LOCK}:fence"))
        await eventually_async(lambda: not valkey.call("EXISTS", LOCK))
        await asyncio.sleep(0.1)  # the holder's own clock agrees
        through.flow()
        lease = await acquiring
        assert lease.fence > late


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_loss_is_reported_in_time_though_the_store_is_silent(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    if kind == "async":
        async with leasehold.connect(through.url, timeout=3 * LIMIT) as locks:
            lease = await locks.acquire("deal", ttl=1, renew=True)
            through.stall()
            started_at = time.monotonic()
            assert await lease.lost(timeout=LIMIT) == "expired"
            told_after = time.monotonic() - started_at
            through.flow()
    else:
        with blocking.connect(through.url, timeout=3 * LIMIT) as locks:
            lease = locks.acquire("deal", ttl=1, renew=True)
            through.stall()
            started_at = time.monotonic()
            assert await asyncio.to_thread(lease.lost, LIMIT) == "expired"
            told_after = time.monotonic() - started_at
            through.flow()
    # The deadline decides, not the timeout of the store.
    print(f"reported {told_after:.2f} s after the store fell silent, with a ttl of 1 s")


# Trap 7: the body is stopped, and every exception finds its way


async def test_a_body_is_cancelled_when_its_lease_is_lost(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        for how, reason, ttl in ((lambda: valkey.call("DEL", LOCK), "expired", 0.6), (None, "taken", 90)):
            ended_by: list[BaseException] = []
            with pytest.raises(LeaseLost) as lost:
                async with locks.lock("deal", ttl=ttl):
                    if how:
                        how()
                    else:
                        taking = asyncio.create_task(locks.take("deal", ttl=20))
                    try:
                        await asyncio.sleep(LIMIT)
                    except asyncio.CancelledError as error:
                        ended_by.append(error)
                        raise
            assert ended_by
            assert (lost.value.name, lost.value.reason) == ("deal", reason)
            assert asyncio.current_task().cancelling() == 0
        taken = await taking
        taken.check()
        await taken.release()


async def test_an_exception_of_the_bodys_own_is_never_hidden(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        with pytest.raises(ZeroDivisionError) as own:
            async with locks.lock("deal", ttl=0.3):
                time.sleep(0.4)
                raise ZeroDivisionError
        assert "lost (expired)" in own.value.__notes__[0]
        with pytest.raises(ZeroDivisionError) as own:
            async with locks.lock("deal", ttl=0.3):
                valkey.call("DEL", LOCK)
                try:
                    await asyncio.sleep(LIMIT)
                finally:
                    raise ZeroDivisionError
        assert "lost (expired)" in own.value.__notes__[0]
        assert asyncio.current_task().cancelling() == 0
    with blocking.connect(valkey.url) as locks:
        with pytest.raises(ZeroDivisionError) as own, locks.lock("deal", ttl=0.3):
            valkey.call("DEL", LOCK)
            time.sleep(0.4)
            raise ZeroDivisionError
        assert "lost (expired)" in own.value.__notes__[0]


async def test_an_exception_of_the_bodys_own_is_not_hidden_by_a_release_without_an_answer(
    valkey: Server, proxy: Proxy
) -> None:
    async def fail_in_a_task(through: FaultProxy) -> None:
        async with leasehold.connect(through.url, timeout=2) as locks:
            with pytest.raises(ZeroDivisionError) as own:
                async with locks.lock("deal", ttl=90):
                    through.stall()
                    raise ZeroDivisionError
            assert "could not be released" in own.value.__notes__[0]
            through.flow()

    def fail_in_a_thread(through: FaultProxy) -> None:
        with blocking.connect(through.url, timeout=2) as locks:
            with pytest.raises(ZeroDivisionError) as own, locks.lock("other", ttl=90):
                through.stall()
                raise ZeroDivisionError
            assert "could not be released" in own.value.__notes__[0]
            through.flow()

    async def end_in_a_task(through: FaultProxy) -> None:
        async with leasehold.connect(through.url, timeout=2) as locks:
            with pytest.raises(StoreUnavailable):
                async with locks.lock("third", ttl=90):
                    through.stall()
            through.flow()

    await asyncio.gather(
        fail_in_a_task(proxy(valkey)),
        asyncio.to_thread(fail_in_a_thread, proxy(valkey)),
        end_in_a_task(proxy(valkey)),
    )


async def test_a_cancellation_from_outside_stays_one(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        inside = asyncio.Event()

        async def work(*, lose: bool) -> None:
            async with locks.lock("deal", ttl=0.6):
                inside.set()
                try:
                    await asyncio.sleep(LIMIT)
                except asyncio.CancelledError:
                    if lose:
                        time.sleep(0.7)
                    raise

        for lose in (False, True):
            inside.clear()
            working = asyncio.create_task(work(lose=lose))
            await inside.wait()
            working.cancel("from outside")
            with pytest.raises(asyncio.CancelledError):
                await working
            assert working.cancelled()
            await eventually_async(lambda: not valkey.call("EXISTS", LOCK))


async def test_a_cancellation_from_outside_in_the_moment_of_loss_stays_one(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        inside = asyncio.Event()

        async def work() -> None:
            async with locks.lock("deal", ttl=0.3):
                inside.set()
                try:
                    await asyncio.sleep(LIMIT)
                except asyncio.CancelledError:  # the loss
                    working.cancel()
                    await asyncio.sleep(LIMIT)

        working = asyncio.create_task(work())
        await inside.wait()
        valkey.call("DEL", LOCK)
        with pytest.raises(asyncio.CancelledError):
            await working


async def test_timeouts_around_and_inside_work_as_everywhere(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1), locks.lock("deal", ttl=90):
                await asyncio.sleep(LIMIT)
        await eventually_async(lambda: not valkey.call("EXISTS", LOCK))
        async with locks.lock("deal", ttl=90) as lease:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asyncio.sleep(LIMIT)
            lease.check()
        with pytest.raises(LeaseLost):
            async with asyncio.timeout(LIMIT), locks.lock("deal", ttl=0.3):
                valkey.call("DEL", LOCK)
                await asyncio.sleep(LIMIT)
        with pytest.raises(LeaseLost):
            async with locks.lock("deal", ttl=0.3), asyncio.timeout(LIMIT):
                valkey.call("DEL", LOCK)
                await asyncio.sleep(LIMIT)
        with pytest.raises(LeaseLost):
            async with locks.lock("deal", ttl=0.3), asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(5))
                valkey.call("DEL", LOCK)
                await asyncio.sleep(LIMIT)
        assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize("lost", [["outer"], ["inner"], ["outer", "inner"]])
async def test_nested_locks_report_which_one_was_lost_and_release_the_other(
    valkey: Server, lost: list[str]
) -> None:
    async with leasehold.connect(valkey.url) as locks:
        with pytest.raises(LeaseLost) as told:
            async with locks.lock("outer", ttl=0.5), locks.lock("inner", ttl=0.5):
                for name in lost:
                    valkey.call("DEL", f"lock:{{{name}}}")
                await asyncio.sleep(LIMIT)
        assert told.value.name in lost
        assert not valkey.call("EXISTS", "lock:{outer}", "lock:{inner}")
        assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)  # nothing is left to be cancelled by


async def test_a_body_that_swallows_the_cancel_is_cancelled_once_and_gets_the_loss_at_its_end(
    valkey: Server,
) -> None:
    async with leasehold.connect(valkey.url) as locks:
        cancelled = 0
        with pytest.raises(LeaseLost):
            async with locks.lock("deal", ttl=0.3) as lease:
                valkey.call("DEL", LOCK)
                rounds_since = 0
                while rounds_since < 20:  # in which another cancel would come
                    rounds_since += bool(cancelled)
                    try:
                        await asyncio.sleep(0.01)
                    except asyncio.CancelledError:
                        cancelled += 1
                assert lease.is_lost
        assert cancelled == 1
        assert asyncio.current_task().cancelling() == 0


async def test_a_body_that_only_wants_a_signal_runs_on_and_gets_the_loss_at_its_end(valkey: Server) -> None:
    async with leasehold.connect(valkey.url) as locks:
        with pytest.raises(LeaseLost, match="expired"):
            async with locks.lock("deal", ttl=3, on_loss="signal") as lease:
                assert await lease.lost(timeout=0.05) is None
                valkey.call("DEL", LOCK)
                assert await lease.lost() == "expired"
                assert lease.is_lost
                await asyncio.sleep(0.05)
                ran_on = True
        assert ran_on


async def test_a_thread_learns_of_a_loss_from_its_lease_and_at_the_end_of_the_block(valkey: Server) -> None:
    with blocking.connect(valkey.url) as locks:
        with pytest.raises(LeaseLost, match="taken"), locks.lock("deal", ttl=90) as lease:
            lease.check()
            taken = locks.take("deal", ttl=90)
            eventually(lambda: lease.is_lost)
            with pytest.raises(LeaseLost, match="taken"):
                lease.check()
        taken.release()


async def test_a_lease_kept_alive_ends_at_its_max_hold(valkey: Server) -> None:
    """When exactly is tested in virtual time."""
    async with leasehold.connect(valkey.url) as locks:
        started_at = time.monotonic()
        with pytest.raises(LeaseLost, match="max_hold"):
            async with locks.lock("deal", ttl=2, max_hold=2.5):
                await asyncio.sleep(LIMIT)
        assert time.monotonic() - started_at > 2.4
        await eventually_async(lambda: not valkey.call("EXISTS", LOCK))


# One task for all


@pytest.mark.timeout(180)
async def test_thousands_of_leases_are_kept_alive_by_one_task(valkey: Server, count: Count) -> None:
    leases_wanted, rounds = count(full=10_000, quick=1_200), count(full=2, quick=1)
    ttl = count(full=18, quick=12)
    async with leasehold.connect(valkey.url) as locks:
        leases: list[leasehold.Lease] = []
        started_at = time.monotonic()
        for start in range(0, leases_wanted, 500):
            names = [f"deal {n}" for n in range(start, min(start + 500, leases_wanted))]
            leases += await asyncio.gather(*[locks.acquire(name, ttl=ttl, renew=True) for name in names])
        acquired_after = time.monotonic() - started_at
        valkey.call("CONFIG", "RESETSTAT")
        most_tasks = renewals = 0
        while renewals < rounds * leases_wanted:
            most_tasks = max(most_tasks, len(asyncio.all_tasks()))
            assert [lease.name for lease in leases if lease.is_lost] == []
            await asyncio.sleep(0.05)
            renewals = valkey.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
        print(
            f"{leases_wanted} leases acquired in {acquired_after:.1f} s, and kept by {renewals} renewals; "
            f"at most {most_tasks} tasks"
        )
        # This test, the renewer, and for a moment each batch under way, of which a slow machine has more; not one for each lease.
        assert most_tasks < leases_wanted / 20
        with valkey.admin() as admin:
            assert len(admin.keys("lock:{deal *}")) == leases_wanted
        await asyncio.gather(*[lease.release() for lease in leases])
        assert len(asyncio.all_tasks()) <= 3
        with valkey.admin() as admin:
            assert admin.keys("lock:{deal *}") == []


@pytest.mark.timeout(180)
def test_many_leases_of_a_blocking_client_are_kept_alive_by_one_thread(valkey: Server, count: Count) -> None:
    leases_wanted = count(full=2_000, quick=200)
    threads_before = threading.active_count()
    with blocking.connect(valkey.url) as locks:
        leases = [locks.acquire(f"deal {n}", ttl=9, renew=True) for n in range(leases_wanted)]
        have_grown = [grows(lease, 1) for lease in leases]
        while not all(has_grown() for has_grown in have_grown):
            # The renewer, the subscriber, and the check of leases that were granted before the first subscription.
            assert threading.active_count() <= threads_before + 3
            time.sleep(0.05)
        for lease in leases:
            lease.release()
    eventually(lambda: threading.active_count() == threads_before)


async def test_a_closed_client_leaves_no_task_and_lets_leases_run_out(valkey: Server) -> None:
    tasks_before = asyncio.all_tasks()
    async with leasehold.connect(valkey.url) as locks:
        lease = await locks.acquire("deal", ttl=2, renew=True)
        with suppress(asyncio.CancelledError):
            task = asyncio.create_task(locks.acquire("other", ttl=2))
            await asyncio.sleep(0)
            task.cancel()
            await task
    assert asyncio.all_tasks() == tasks_before
    assert valkey.call("EXISTS", LOCK)
    await eventually_async(lambda: lease.is_lost and not valkey.call("EXISTS", LOCK))
