"""Hand-over when something fails: lost pushes, cuts, restarts, stopped and dead waiters. No waiter waits forever (L1, L2, L4).

Nothing here must happen fast: that a waiter was notified shows by its having polled too seldom to know, and that it
looked shows by pushes that were swallowed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually, eventually_async
from tests.support.grants import GrantRecorder
from tests.support.servers import SERVERS
from tests.support.threads import InThread

import leasehold
from leasehold import StoreUnavailable, blocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.grants import GrantedHold
    from tests.support.processes import Child
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

    Proxy = Callable[[Server | int], FaultProxy]

KINDS = ["async", "blocking"]
LOCK = "lock:{deal}"
QUEUE = "lock:{deal}:queue"
SELDOM = 60.0
"""An interval that does not pass within a test: a waiter that gets the lock was notified."""
SOON = 40.0
"""A limit that only a hang exceeds; less than a ttl, and than the first poll of clients with the interval `SELDOM` (48 s)."""
CLAIM_WINDOW = 2.0


@asynccontextmanager
async def client(kind: str, url: str, **options: Any) -> AsyncIterator[Any]:
    options = {"timeout": 10, **options}
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(32))
    if kind == "async":
        async with leasehold.connect(url, **options) as locks:
            yield locks
    else:
        locks = blocking.connect(url, **options)
        try:
            await asyncio.to_thread(locks.__enter__)
            yield InThread(locks)
        finally:
            await asyncio.to_thread(locks.close)


async def until_waiting(server: Server, waiters: int) -> None:
    await eventually_async(lambda: server.call("ZCARD", QUEUE) == waiters)


async def until_listening(server: Server, clients: int) -> None:
    """A blocking client subscribes a moment after its first connection."""
    await eventually_async(lambda: len(server.call("PUBSUB", "CHANNELS", "leasehold:*")) == clients)


async def soon(call: Any) -> Any:
    async with asyncio.timeout(SOON):
        return await call


# Pushes


@pytest.mark.parametrize("flavour", SERVERS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_waiter_is_notified_without_a_poll(
    own_server: Callable[..., Server], flavour: str, kind: str
) -> None:
    """The control for what follows: with pushes, no look is needed."""
    server = own_server(flavour)
    async with (
        client("async", server.url) as others,
        client(kind, server.url, retry_interval=SELDOM) as locks,
    ):
        await until_listening(server, 2)
        held = await others.acquire("deal", ttl=90)
        waiting = asyncio.create_task(locks.acquire("deal", ttl=90, wait=80))
        await until_waiting(server, 1)
        await held.release()
        lease = await soon(waiting)
        assert lease.fence > held.fence
        lease.check()


@pytest.mark.parametrize("flavour", SERVERS)
@pytest.mark.parametrize("begin", ["late", "early"])
@pytest.mark.parametrize("kind", KINDS)
async def test_with_every_push_dropped_a_waiter_gets_the_lock_by_looking(
    own_server: Callable[..., Server], proxy: Proxy, flavour: str, kind: str, begin: str
) -> None:
    """From the beginning means: not even the subscription is confirmed."""
    server = own_server(flavour)
    through = proxy(server)
    through.drop_pushes(begin == "early")
    async with (
        client("async", server.url) as others,
        client(kind, through.url, retry_interval=1.0) as locks,
    ):
        await until_listening(server, 2)
        through.drop_pushes()
        await (await locks.acquire("other", ttl=30)).release()
        for _ in range(2):  # the connection stays in order
            held = await others.acquire("deal", ttl=90)
            waiting = asyncio.create_task(locks.acquire("deal", ttl=90, wait=80))
            await until_waiting(server, 1)
            dropped = through.pushes_dropped
            await held.release()
            lease = await soon(waiting)
            assert through.pushes_dropped > dropped, "it was notified after all"
            assert lease.fence > held.fence
            lease.check()
            await lease.release()


@pytest.mark.parametrize("flavour", SERVERS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_waiter_looks_when_the_lease_before_it_ends(
    own_server: Callable[..., Server], flavour: str, kind: str
) -> None:
    """An expiry is not published, so the waiter polls before the interval is over."""
    server = own_server(flavour)
    async with (
        client("async", server.url) as others,
        client(kind, server.url, retry_interval=SELDOM) as locks,
    ):
        held = await others.acquire("deal", ttl=1.5)
        lease = await soon(locks.acquire("deal", ttl=90, wait=80))
        assert held.is_lost
        assert lease.fence > held.fence
        lease.check()


@pytest.mark.parametrize("kind", KINDS)
async def test_with_every_push_dropped_a_lock_with_renewal_is_claimed_too(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    """A grant that a poll finds starts with the rest of the claim window."""
    through = proxy(valkey)
    through.drop_pushes()
    async with (
        client("async", valkey.url) as others,
        client(kind, through.url, retry_interval=0.5) as locks,
    ):
        held = await others.acquire("deal", ttl=90)
        waiting = asyncio.create_task(locks.acquire("deal", ttl=30, wait=80, renew=True))
        await until_waiting(valkey, 1)
        await held.release()
        lease = await soon(waiting)
        await eventually_async(lambda: lease.remaining() > 15)  # more than any window
        assert valkey.call("GET", LOCK).startswith(b"2w" + lease.token.encode())
        await lease.release()


@pytest.mark.parametrize("rights", ["~* &* +@all -subscribe", "~* resetchannels +@all"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_user_without_permission_to_subscribe_is_warned_once_and_waits_by_polling(
    own_server: Callable[..., Server], caplog: pytest.LogCaptureFixture, kind: str, rights: str
) -> None:
    """Without any channel the user may not publish either: its releases must work all the same."""
    server = own_server("valkey9", user=["default off", f"locker on >secret {rights}"])
    url = server.url_for(username="locker", password="secret")
    with caplog.at_level(logging.WARNING, logger="leasehold"):
        async with client(kind, url, retry_interval=0.5) as locks:
            for _ in range(2):
                held = await locks.acquire("deal", ttl=90)
                waiting = [asyncio.create_task(locks.acquire("deal", ttl=90, wait=80)) for _ in range(2)]
                await until_waiting(server, 2)
                await held.release()
                for _ in waiting:
                    done, _pending = await asyncio.wait(
                        waiting, timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED
                    )
                    lease = await done.pop()
                    waiting = [task for task in waiting if not task.done()]
                    lease.check()
                    await lease.release()
            if kind == "async":  # a new connection, the same answer
                locks.store_access.transport.connection.close("by the test")
                await locks.inspect("deal")
    warnings = [record.getMessage() for record in caplog.records if "subscriptions" in record.getMessage()]
    assert len(warnings) == 1, warnings


async def test_a_take_right_after_the_hand_over_is_not_missed(valkey: Server, proxy: Proxy) -> None:
    """Both notifications and the reply in between arrive in one read, while the waiter becomes the holder."""
    through = proxy(valkey)
    async with (
        client("async", valkey.url) as others,
        client("async", through.url, retry_interval=SELDOM) as locks,
    ):
        held = await others.acquire("deal", ttl=90)
        waiting = asyncio.create_task(locks.acquire("deal", ttl=90, wait=80))
        await until_waiting(valkey, 1)
        claimed = through.stall_after_request(LOCK.encode())
        await held.release()
        # Granted, notified, and claimed; the answer to the claim is on its way.
        await eventually_async(claimed.is_set)
        await eventually_async(lambda: (valkey.call("GET", LOCK) or b"").startswith(b"2w"))
        taken = await others.take("deal", ttl=90)
        for _ in range(20):  # unknown tickets: once they have arrived, all before them has
            valkey.call("PUBLISH", f"leasehold:{locks.store_access.transport.channel}", "taken 4000000000")
        arrived = through.bytes["replies"]
        through.flow("replies")
        eventually(lambda: through.bytes["replies"] > arrived + 1000)  # while the loop is blocked
        # A grant that was taken before it was notified does not count: the waiter keeps waiting.
        await until_waiting(valkey, 1)
        assert not waiting.done()
        await taken.release()
        lease = await soon(waiting)
        assert lease.fence > taken.fence
        lease.check()


# The connection


@pytest.mark.parametrize("kind", KINDS)
async def test_a_waiter_whose_connection_is_cut_gets_the_lock_after_it_is_back(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with (
        client("async", valkey.url) as others,
        client(kind, through.url, retry_interval=1.0) as locks,
    ):
        for cuts in (1, 3):
            held = await others.acquire("deal", ttl=90)
            waiting = asyncio.create_task(locks.acquire("deal", ttl=90, wait=80))
            await until_waiting(valkey, 1)
            for _ in range(cuts):
                await asyncio.to_thread(through.cut)
            await held.release()
            lease = await soon(waiting)
            assert lease.fence > held.fence
            lease.check()
            await lease.release()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_waiter_that_cannot_reconnect_raises_and_leaves_no_trace(
    valkey: Server, proxy: Proxy, kind: str
) -> None:
    through = proxy(valkey)
    async with (
        client("async", valkey.url) as others,
        client(kind, through.url, retry_interval=0.5, timeout=2) as locks,
    ):
        held = await others.acquire("deal", ttl=90)
        waiting = asyncio.create_task(locks.acquire("deal", ttl=90, wait=80))
        await until_waiting(valkey, 1)
        await asyncio.to_thread(through.refuse)
        await asyncio.to_thread(through.cut)
        with pytest.raises(leasehold.StoreUnavailable):
            await soon(waiting)
        await held.release()
        # A waiter that was granted the lock and is gone costs its claim window.
        await (await soon(others.acquire("deal", ttl=90, wait=80))).release()
        await asyncio.to_thread(through.refuse, False)


# The server


async def serve_all(waiting: dict[int, asyncio.Task[Any]]) -> list[int]:
    """The holders in order; each releases at once, and the lock never has two holders."""
    served: list[tuple[int, int]] = []

    async def serve(number: int, task: asyncio.Task[Any]) -> None:
        lease = await task
        assert not lease.is_lost
        served.append((lease.fence, number))
        await lease.release()

    async with asyncio.timeout(LIMIT):
        await asyncio.gather(*[serve(number, task) for number, task in waiting.items()])
    assert len({fence for fence, _ in served}) == len(waiting)
    assert [fence for fence, _ in served] == sorted(fence for fence, _ in served)
    return [number for _, number in served]


async def join(server: Server, clients: list[Any]) -> dict[int, asyncio.Task[Any]]:
    """One waiter of each client, one after another."""
    waiting: dict[int, asyncio.Task[Any]] = {}
    for number, locks in enumerate(clients):
        waiting[number] = asyncio.create_task(locks.acquire("deal", ttl=60, wait=None))
        await until_waiting(server, number + 1)
    return waiting


@pytest.mark.parametrize("flavour", SERVERS)
@pytest.mark.parametrize("keeps", [True, False], ids=["with AOF", "without data"])
async def test_waiters_go_on_after_the_server_was_killed_and_restarted(
    own_server: Callable[..., Server], flavour: str, keeps: bool
) -> None:
    server = own_server(flavour, **({"appendonly": True, "appendfsync": "always"} if keeps else {}))
    async with (
        client("async", server.url, retry_interval=2) as one,
        client("blocking", server.url, retry_interval=2) as other,
    ):
        held = await one.acquire("deal", ttl=60)
        waiting = await join(server, [one, other, one, other])
        await asyncio.to_thread(server.restart, keep_data=keeps)
        if keeps:
            info = await one.inspect("deal")
            assert (info.is_held, info.fence) == (True, held.fence)
            await held.release()
        served = await serve_all(waiting)
        # Without its data the server has lost the queue.
        assert sorted(served) == [0, 1, 2, 3]
        if keeps:
            assert served == [0, 1, 2, 3]
        last = await one.acquire("deal", ttl=60)
        assert last.fence > held.fence


@pytest.mark.parametrize("fault", ["FLUSHALL", "SCRIPT FLUSH", "CLIENT PAUSE"])
async def test_waiters_continue_after_a_loss_of_data_or_a_pause_of_the_server(
    own_server: Callable[..., Server], fault: str
) -> None:
    server = own_server()
    async with (
        client("async", server.url, retry_interval=1) as one,
        client("blocking", server.url, retry_interval=1) as other,
    ):
        held = await one.acquire("deal", ttl=60)
        waiting = await join(server, [one, other, one, other])
        if fault == "CLIENT PAUSE":
            server.call("CLIENT", "PAUSE", 1000)
        else:
            server.call(*fault.split())
        if fault != "FLUSHALL":
            await held.release()
        served = await serve_all(waiting)
        assert sorted(served) == [0, 1, 2, 3]
        assert fault == "FLUSHALL" or served == [0, 1, 2, 3]


# Stopped and dead


def wait_in_a_child(parent: Any, kind: str, url: str, renew: bool) -> None:
    """Waits for the lock, reports it, and releases it on the test's request."""
    import asyncio

    import leasehold
    from leasehold import blocking

    # It counts as alive for forty seconds without looking, so it keeps its place while it is stopped or dead.
    options: dict[str, Any] = {"retry_interval": 10, "timeout": 10, "holder": "child"}

    async def by_task() -> None:
        async with leasehold.connect(url, **options) as locks:
            parent.send(ready=True)
            lease = await locks.acquire("deal", ttl=60, wait=None, renew=renew)
            parent.send(fence=lease.fence, is_lost=lease.is_lost)
            await asyncio.to_thread(parent.receive)
            await lease.release()

    def by_thread() -> None:
        with blocking.connect(url, **options) as locks:
            parent.send(ready=True)
            lease = locks.acquire("deal", ttl=60, wait=None, renew=renew)
            parent.send(fence=lease.fence, is_lost=lease.is_lost)
            parent.receive()
            lease.release()

    asyncio.run(by_task()) if kind == "async" else by_thread()


def check_claim_windows(holds: list[GrantedHold]) -> None:
    """Each but the last was granted to a waiter that did not claim it: on the server's clock it cost its window."""
    for one, after in itertools.pairwise(holds):
        assert one.is_handed_over
        assert one.until - one.since <= CLAIM_WINDOW + 0.001
        print(f"window {one.until - one.since:.3f} s, then granted after {after.since - one.until:.3f} s")


@pytest.mark.parametrize(
    ("kind", "renew"), [("async", False), ("async", True), ("blocking", False), ("blocking", True)]
)
async def test_a_stopped_waiter_that_is_granted_is_skipped_and_does_not_count_as_holder(
    valkey: Server, spawn: Callable[..., Child], kind: str, renew: bool
) -> None:
    async with client("async", valkey.url) as locks:
        held = await locks.acquire("deal", ttl=90)
        child = spawn(wait_in_a_child, kind, valkey.url, renew)
        assert await child.aread() == {"ready": True}
        await until_waiting(valkey, 1)
        child.pause()
        waiting = asyncio.create_task(locks.acquire("deal", ttl=90, wait=80, holder="next"))
        await until_waiting(valkey, 2)
        with GrantRecorder(valkey, "deal") as recorder:
            await held.release()
            lease = await soon(waiting)  # the claim window, 2 s, and not the ttl
            passed_over, granted, *_ = recorder.stop()
        assert (passed_over.holder, granted.holder) == ("child", "next")
        check_claim_windows([passed_over, granted])
        child.resume()
        # It joins again, at the end, and reports nothing.
        await until_waiting(valkey, 1)
        info = await locks.inspect("deal")
        assert (info.holder, info.fence) == ("next", lease.fence)
        await lease.release()
        told = await child.aread()
        assert told["fence"] > lease.fence
        # Lost again, if the machine stopped it for longer than its claim window: then it knows that as well.
        if not told["is_lost"]:
            assert (await locks.inspect("deal")).fence == told["fence"]
        child.send()
        assert await asyncio.to_thread(child.wait) == 0
        assert not (await locks.inspect("deal")).is_held


async def test_no_newcomer_passes_a_queue_even_when_the_holder_is_gone(
    valkey: Server, spawn: Callable[..., Child]
) -> None:
    """The first caller after the end of a lease finds the waiter before it, even if that is stopped."""
    async with client("async", valkey.url) as locks:
        held = await locks.acquire("deal", ttl=90)
        child = spawn(wait_in_a_child, "async", valkey.url, False)
        assert await child.aread() == {"ready": True}
        await until_waiting(valkey, 1)
        child.pause()
        await held.renew(0.3)

        async def is_over() -> bool:
            assert await locks.try_acquire("deal", ttl=90) is None, "a newcomer passed the queue"
            return held.is_lost and not valkey.call("ZCARD", QUEUE)

        await eventually_async(is_over, every=0)
        assert (await locks.inspect("deal")).holder == "child"
        child.resume()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_waiter_that_dies_costs_its_claim_window_and_no_more(
    valkey: Server, spawn: Callable[..., Child], kind: str
) -> None:
    async with client(kind, valkey.url) as locks:
        held = await locks.acquire("deal", ttl=90)
        children = [spawn(wait_in_a_child, other, valkey.url, False) for other in KINDS]
        for child in children:
            assert await child.aread() == {"ready": True}
        await until_waiting(valkey, 2)
        waiting = asyncio.create_task(locks.acquire("deal", ttl=90, wait=80))
        await until_waiting(valkey, 3)
        for child in children:
            await asyncio.to_thread(child.kill)
        with GrantRecorder(valkey, "deal") as recorder:
            await held.release()
            lease = await soon(waiting)
            holds = recorder.stop()
        assert [hold.holder for hold in holds[:2]] == ["child", "child"]
        check_claim_windows(holds[:3])
        assert lease.fence > held.fence
        info = await locks.inspect("deal")
        assert (info.fence, info.waiters) == (lease.fence, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_holder_stopped_past_its_ttl_loses_the_lock_to_the_waiter(
    valkey: Server, spawn: Callable[..., Child], kind: str
) -> None:
    def hold(parent: Any, url: str) -> None:
        import time

        from leasehold import LeaseLost, blocking

        with blocking.connect(url) as locks:
            lease = locks.acquire("deal", ttl=2, renew=True)
            parent.send(fence=lease.fence)
            while not lease.is_lost:
                time.sleep(0.01)
            try:
                lease.release()
            except LeaseLost as lost:
                parent.send(reason=lost.reason)

    async with client(kind, valkey.url) as locks:
        child = spawn(hold, valkey.url)
        fence = (await child.aread())["fence"]
        waiting = asyncio.create_task(locks.acquire("deal", ttl=90, wait=80))
        await until_waiting(valkey, 1)
        child.pause()
        lease = await soon(waiting)
        assert lease.fence > fence
        child.resume()
        assert await child.aread() == {"reason": "expired"}
        lease.check()
        info = await locks.inspect("deal")
        assert (info.fence, info.waiters) == (lease.fence, 0)


# Closing and forking


@pytest.mark.parametrize("kind", KINDS)
async def test_waiting_ends_at_once_when_the_client_is_closed(valkey: Server, kind: str) -> None:
    async with client("async", valkey.url) as others:
        held = await others.acquire("deal", ttl=90)
        async with client(kind, valkey.url, timeout=2 * LIMIT) as locks:
            waiting = [asyncio.create_task(locks.acquire("deal", ttl=90, wait=None)) for _ in range(10)]
            await until_waiting(valkey, 10)
            ends = asyncio.gather(*waiting, return_exceptions=True)
            await soon(locks.close())
            # At once, and not when the store has been silent for the client's timeout.
            async with asyncio.timeout(SOON):
                told = await ends
        # Not a refusal: the lock may have been granted in this moment.
        assert {type(end) for end in told} == {StoreUnavailable}
        assert all("closed" in str(end) for end in told)
        # They do not stand in the way for longer than a dead client does.
        await held.release()
        lease = await soon(others.acquire("deal", ttl=90, wait=None))
        assert lease.fence > held.fence


def fork_while_waiting(parent: Any, kind: str, url: str) -> None:
    """A child that is forked while its parent waits in a queue, and lives on."""
    import asyncio
    import os
    import threading
    import time

    import leasehold
    from leasehold import blocking

    def be_the_child(locks: Any) -> None:
        engine = locks._engine
        known = [len(engine.notifications._recipients), len(engine.waiter_poller._waiters)]
        parent.send(who="child", pid=os.getpid(), known=known, channel=locks.store_access.transport.channel)
        parent.receive()
        parent.send(
            who="child", known=[len(engine.notifications._recipients), len(engine.notifications._early)]
        )
        time.sleep(600)

    async def by_task() -> None:
        async with leasehold.connect(url, client_name="elder", timeout=10) as locks:
            waiting = asyncio.create_task(locks.acquire("deal", ttl=60, wait=None))
            while not locks._engine.waiter_poller._waiters:
                await asyncio.sleep(0.001)
            parent.send(who="parent", channel=locks.store_access.transport.channel)
            if os.fork() == 0:
                be_the_child(locks)
            lease = await waiting
            parent.send(who="parent", fence=lease.fence)
            time.sleep(600)

    def by_thread() -> None:
        with blocking.connect(url, client_name="elder", timeout=10) as locks:
            leases: list[Any] = []
            waiting = threading.Thread(
                target=lambda: leases.append(locks.acquire("deal", ttl=60, wait=None)), daemon=True
            )
            waiting.start()
            while (
                not locks._engine.waiter_poller._waiters
                or locks.store_access.transport._subscriber._connection is None
            ):
                time.sleep(0.001)
            parent.send(who="parent", channel=locks.store_access.transport.channel)
            if os.fork() == 0:
                be_the_child(locks)
            waiting.join()
            parent.send(who="parent", fence=leases[0].fence)
            time.sleep(600)

    asyncio.run(by_task()) if kind == "async" else by_thread()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_child_forked_while_its_parent_waits_owns_nothing_and_receives_nothing(
    valkey: Server, spawn: Callable[..., Child], kind: str
) -> None:
    async with client("async", valkey.url) as locks:
        held = await locks.acquire("deal", ttl=90)
        elder = spawn(fork_while_waiting, kind, valkey.url)
        first = await elder.aread()
        child = await elder.aread()
        try:
            assert (first["who"], child["who"], child["known"]) == ("parent", "child", [0, 0])
            assert child["channel"] != first["channel"]
            await until_waiting(valkey, 1)
            await held.release()
            granted = await elder.aread()
            assert granted["fence"] > held.fence
            elder.send()
            assert await elder.aread() == {"who": "child", "known": [0, 0]}
            # The parent's end is its end for the server too, though the child lives on.
            await asyncio.to_thread(elder.kill)
            channel = f"leasehold:{first['channel']}"
            await eventually_async(lambda: not valkey.call("PUBSUB", "CHANNELS", channel))
        finally:
            os.kill(child["pid"], signal.SIGKILL)
