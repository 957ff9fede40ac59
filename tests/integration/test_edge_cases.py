"""Edges that a review found: forks, silence under TLS, signals, odd loops, closing, and odd servers."""

# ruff: noqa: PT012
# (what comes out of a block is what is tested here, so the block stands in pytest.raises)

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

import pytest
import redis
import redis.asyncio
import uvloop
from tests.support.eventually import LIMIT, eventually, eventually_async
from tests.support.resp import FrameSplitter

import leasehold
from leasehold import InvalidRequest, LeaseLost, StoreRefused, StoreUnavailable, blocking
from leasehold.core.replies import DONE, NotAfter
from leasehold.runtime import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.processes import Child
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server
    from tests.support.tls import Certificates, TlsFront

    Proxy = Callable[[Server | int], FaultProxy]

LOCK = "lock:{deal}"
ONE_LOOP = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


# Forks


def fork_and_ask_twice(parent: Any, url: str, first: str) -> None:
    import os

    from leasehold import LeaseLost, blocking

    locks = blocking.connect(url)
    lease = locks.acquire("deal", ttl=20, renew=True)
    child = os.fork()
    if child == 0:
        told = []
        for verb in (first, "release", "release"):
            try:
                getattr(lease, verb)()
                told.append("done")
            except LeaseLost:
                told.append("lost")
        parent.send(told=told)
        os._exit(0)
    os.waitpid(child, 0)
    parent.receive()
    lease.check()
    lease.release()
    locks.close()


def fork_and_ask_twice_async(parent: Any, url: str, first: str) -> None:
    import asyncio
    import os

    import leasehold

    async def ask(lease: Any) -> list[str]:
        told = []
        for verb in (first, "release", "release"):
            try:
                await getattr(lease, verb)()
                told.append("done")
            except leasehold.LeaseLost:
                told.append("lost")
        return told

    async def main() -> None:
        async with leasehold.connect(url) as locks:
            lease = await locks.acquire("deal", ttl=20, renew=True)
            child = os.fork()
            if child == 0:
                parent.send(told=asyncio.run(ask(lease)))
                os._exit(0)
            os.waitpid(child, 0)
            parent.receive()
            lease.check()
            await lease.release()

    asyncio.run(main())


def fork_and_leave(parent: Any, url: str, first: str) -> None:
    import os
    from contextlib import suppress

    from leasehold import LeaseLost, blocking

    locks = blocking.connect(url)
    child = -1
    try:
        with locks.lock("deal", ttl=20) as lease:
            child = os.fork()
            if child == 0:
                with suppress(LeaseLost):
                    getattr(lease, first)()
                raise KeyError  # and so it leaves the block
            os.waitpid(child, 0)
            parent.receive()
            lease.check()
    except KeyError:
        parent.send(told=["lost", "lost", "lost"])
        os._exit(0)
    locks.close()


@pytest.mark.parametrize("first", ["renew", "release"])
@pytest.mark.parametrize("work", [fork_and_ask_twice, fork_and_ask_twice_async, fork_and_leave])
def test_a_forked_child_that_asks_again_after_a_refusal_never_deletes_the_lock_of_its_parent(
    valkey: Server, spawn: Callable[..., Child], work: Any, first: str
) -> None:
    forking = spawn(work, valkey.url, first)
    assert forking.read() == {"told": ["lost", "lost", "lost"]}
    assert valkey.call("EXISTS", LOCK)
    forking.send()
    assert forking.wait() == 0, forking.stderr()
    assert not valkey.call("EXISTS", LOCK)


# Timeouts


def test_a_blocking_client_over_tls_does_not_wait_for_ever_for_a_silent_server(
    valkey: Server, proxy: Proxy, tls_front: Callable[..., TlsFront], certificates: Certificates
) -> None:
    through = proxy(valkey)
    front = tls_front(through)
    with blocking.connect(front.url, tls=certificates.client_context(), timeout=2) as locks:
        locks.acquire("deal", ttl=20).release()
        through.stall()
        release = threading.Timer(30, through.flow)  # or a client that hangs would hang the test
        release.start()
        started_at = time.monotonic()
        with pytest.raises(StoreUnavailable):
            locks.acquire("deal", ttl=20, wait=0)
        release.cancel()
        assert time.monotonic() - started_at < 20
        through.flow()
        locks.acquire("deal", ttl=20, wait=LIMIT).release()


def ask_among_signals(parent: Any, url: str) -> None:
    import signal
    import time

    from leasehold import StoreUnavailable, blocking

    caught = []
    signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
    with blocking.connect(url, timeout=2) as locks:
        locks.acquire("deal", ttl=20).release()
        parent.send(ready=True)
        parent.receive()
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        started_at = time.monotonic()
        try:
            locks.acquire("deal", ttl=20, wait=0)
        except StoreUnavailable:
            took = time.monotonic() - started_at
        else:
            took = None
        signal.setitimer(signal.ITIMER_REAL, 0)
        parent.send(took=took, caught=len(caught))
        parent.receive()


def test_signals_do_not_prolong_a_blocking_timeout(
    valkey: Server, proxy: Proxy, spawn: Callable[..., Child]
) -> None:
    """In a process of its own: pytest's timeouts use the same timer."""
    through = proxy(valkey)
    asking = spawn(ask_among_signals, through.url)
    assert asking.read() == {"ready": True}
    through.stall()
    release = threading.Timer(30, through.flow)
    release.start()
    asking.send()
    told = asking.read()
    release.cancel()
    through.flow()
    assert told["took"] is not None, "it was granted when the stall was over"
    assert told["took"] < 20
    assert told["caught"] >= 3
    asking.send()
    assert asking.wait() == 0, asking.stderr()


@pytest.mark.parametrize("loop", ONE_LOOP)
def test_a_request_that_is_sent_when_an_older_timer_fires_still_times_out(
    valkey: Server, proxy: Proxy, loop: str
) -> None:
    through = proxy(valkey)

    async def work() -> None:
        async with leasehold.connect(through.url, timeout=1) as locks:
            await asyncio.sleep(1.4)  # no timer is set
            await locks.inspect("deal")  # sets one
            await asyncio.sleep(0.8)
            through.stall()
            asking = asyncio.create_task(locks.acquire("deal", ttl=20, wait=0))
            await asyncio.sleep(0)  # queued, not yet sent
            time.sleep(0.4)
            done, _ = await asyncio.wait({asking}, timeout=LIMIT)
            through.flow()
            assert done, "it waits forever"
            assert isinstance(asking.exception(), StoreUnavailable)

    with asyncio.Runner(loop_factory=ONE_LOOP[loop]) as runner:
        runner.run(work())


# Keeping


async def test_a_batch_of_renewals_survives_a_script_flush_over_a_slow_line(
    valkey: Server, proxy: Proxy
) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url) as locks:
        leases = await asyncio.gather(
            *[locks.acquire(f"deal {n}", ttl=9, renew=True, wait=0) for n in range(500)]
        )
        valid_until = max(lease.valid_until for lease in leases)
        through.delay(0.01)
        valkey.call("SCRIPT", "FLUSH")
        await eventually_async(lambda: min(lease.valid_until for lease in leases) > valid_until)
        assert sum(lease.is_lost for lease in leases) == 0


async def test_a_block_cancelled_while_its_end_waits_for_a_renewal_leaves_nothing_behind(
    valkey: Server, proxy: Proxy
) -> None:
    through = proxy(valkey)
    async with leasehold.connect(through.url, timeout=20) as locks:
        held: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        may_leave = asyncio.Event()

        async def work() -> None:
            async with locks.lock("deal", ttl=60) as lease:
                held.set_result(lease)
                await may_leave.wait()

        working = asyncio.create_task(work())
        lease = await held
        through.stall("replies")
        renewing = asyncio.create_task(lease.renew())
        await asyncio.sleep(0.05)
        may_leave.set()
        await asyncio.sleep(0.05)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert lease.is_lost
        through.flow()
        with suppress(LeaseLost):
            await renewing
        await eventually_async(lambda: not valkey.call("EXISTS", LOCK), 40)  # before its ttl is over


class OddRedis(redis.Redis):
    """Fails once, on request, in a way that no driver should."""

    is_odd = False

    def pipeline(self, *args: Any, **options: Any) -> Any:
        if self.is_odd:
            self.is_odd = False
            raise ValueError("a driver's bug")
        return super().pipeline(*args, **options)


def test_a_driver_that_fails_oddly_once_does_not_end_the_keeping_and_shows_in_the_log(
    valkey: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with OddRedis.from_url(valkey.url) as existing, leasehold.from_client(existing) as locks:
        lease = locks.acquire("deal", ttl=6, renew=True)
        valid_until = lease.valid_until
        existing.is_odd = True
        with caplog.at_level(logging.ERROR, logger="leasehold"):
            eventually(lambda: not existing.is_odd)
            eventually(lambda: lease.valid_until > valid_until)
        assert not lease.is_lost
        (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
        assert record.name == "leasehold"
        assert record.exc_info is not None
        assert isinstance(record.exc_info[1], ValueError)
        lease.release()


@pytest.mark.parametrize("is_watched", [False, True])
async def test_waiting_for_the_end_of_a_shortened_lease_ends_in_time(
    valkey: Server, *, is_watched: bool
) -> None:
    async with leasehold.connect(valkey.url) as locks:
        lease = await locks.acquire("deal", ttl=60, renew=is_watched)
        waiting = asyncio.create_task(lease.lost())
        await asyncio.sleep(0.05)
        if is_watched:
            lease.abandon()  # or it would be renewed
        with suppress(LeaseLost):  # the reply may take longer than that on a busy machine
            await lease.renew(ttl=0.3)
        async with asyncio.timeout(20):
            assert await waiting == "expired"
    with blocking.connect(valkey.url) as threads:
        held = threads.acquire("other", ttl=60)
        hearing = asyncio.create_task(asyncio.to_thread(held.lost, 50))
        await asyncio.sleep(0.05)
        started_at = time.monotonic()
        with suppress(LeaseLost):
            await asyncio.to_thread(held.renew, 0.3)
        assert await hearing == "expired"
        assert time.monotonic() - started_at < 20


# Two loops, closing, leaving


@pytest.mark.parametrize("kind", ["own", "borrowed"])
def test_a_client_used_from_a_second_loop_is_refused_before_anything_is_locked(
    valkey: Server, kind: str
) -> None:
    existing = redis.asyncio.Redis.from_url(valkey.url)
    locks = leasehold.connect(valkey.url) if kind == "own" else leasehold.from_client(existing)

    async def use() -> None:
        async with locks.lock("deal", ttl=20, wait=0):
            pass

    async def close() -> None:
        await locks.close()
        await existing.aclose()

    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(use())
        fence = valkey.call("GET", "lock:{deal}:fence")
        with pytest.raises(InvalidRequest, match="loop"):
            second.run(use())
        assert valkey.call("GET", "lock:{deal}:fence") == fence
        first.run(use())  # it still serves the loop it belongs to
        first.run(close())


async def test_closing_the_client_ends_a_body_that_still_holds(valkey: Server) -> None:
    locks = leasehold.connect(valkey.url)
    has_begun = asyncio.Event()
    is_over = False

    async def work() -> None:
        nonlocal is_over
        async with locks.lock("deal", ttl=20):
            has_begun.set()
            await asyncio.sleep(2 * LIMIT)
            is_over = True

    working = asyncio.create_task(work())
    await has_begun.wait()
    await locks.close()
    with pytest.raises(LeaseLost):
        async with asyncio.timeout(LIMIT):
            await working
    assert not is_over
    assert working.cancelling() == 0


async def test_a_closed_client_refuses_at_once_and_closes_again_at_once(valkey: Server) -> None:
    locks = leasehold.connect(valkey.url, timeout=60)
    lease = await locks.acquire("deal", ttl=60)
    await locks.close()
    started_at = time.monotonic()
    for refused in (
        lambda: locks.acquire("other", wait=60),
        lambda: locks.take("other"),
        lambda: locks.inspect("other"),
        lease.renew,
    ):
        with pytest.raises((InvalidRequest, LeaseLost)):
            await refused()
    with pytest.raises(InvalidRequest):
        async with locks.lock("other", wait=60):
            pass
    await locks.close()
    assert time.monotonic() - started_at < 20


def test_a_closed_blocking_client_refuses_at_once_and_closes_again_at_once(valkey: Server) -> None:
    locks = blocking.connect(valkey.url, timeout=60)
    lease = locks.acquire("deal", ttl=60)
    locks.close()
    started_at = time.monotonic()
    for refused in (
        lambda: locks.acquire("other", wait=60),
        lambda: locks.take("other"),
        lambda: locks.inspect("other"),
        lease.renew,
    ):
        with pytest.raises((InvalidRequest, LeaseLost)):
            refused()
    locks.close()
    assert time.monotonic() - started_at < 20


async def test_a_body_that_abandoned_its_lease_and_then_lost_it_gets_a_loss_and_no_cancel(
    valkey: Server,
) -> None:
    async with leasehold.connect(valkey.url) as locks:
        with pytest.raises(LeaseLost) as lost:
            async with locks.lock("deal", ttl=0.3) as lease:
                lease.abandon()
                await asyncio.sleep(LIMIT)
        assert lost.value.reason == "expired"
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_context_that_is_used_again_after_a_loss_does_not_swallow_a_cancel_from_outside(
    valkey: Server,
) -> None:
    async with leasehold.connect(valkey.url) as locks, leasehold.connect(valkey.url) as others:
        context = locks.lock("deal", ttl=90, wait=LIMIT)
        with pytest.raises(LeaseLost, match="taken"):
            async with context:
                # Not by the body itself, which is stopped in the same moment.
                taking = asyncio.create_task(others.take("deal", ttl=90))
                await asyncio.sleep(LIMIT)
        await (await taking).release()
        has_begun = asyncio.Event()

        async def use_again() -> None:
            async with context:
                has_begun.set()
                await asyncio.sleep(LIMIT)

        using = asyncio.create_task(use_again())
        await has_begun.wait()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        assert using.cancelled()
        assert using.cancelling() == 1
        assert not valkey.call("EXISTS", LOCK)


# Odd servers


async def test_a_repeated_take_is_a_grant_also_when_the_counter_is_gone(any_server: Server) -> None:
    async with leasehold.connect(any_server.url) as locks:
        store, token, in_time = locks._engine.store, "0123456789abcdef" * 2, NotAfter(clock.now() + 60)
        first = await store.take("deal", token, 1, 30, 0, '"me"', "exclusive", None, in_time)
        assert isinstance(first, tuple)
        any_server.call("DEL", "lock:{deal}:fence")
        again = await store.take("deal", token, 1, 30, 0, '"me"', "exclusive", None, in_time)
        assert isinstance(again, tuple), again
        fence, remaining, _ = again
        assert fence >= first[0]
        assert 0 < remaining <= 30
        assert (await store.release("deal", token, fence, None)) == DONE


class RudeFront:
    """Passes its first connection's greeting on, breaks the protocol after the replies, then behaves."""

    def __init__(self, port: int, farewell: bytes) -> None:
        self._target = ("127.0.0.1", port)
        self._farewell = farewell
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open = ExitStack()
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._open.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client = self._open.enter_context(self._listener.accept()[0])
                server = self._open.enter_context(socket.create_connection(self._target))
                self.connections += 1
                if self.connections == 1:
                    self._be_rude(client, server)
                    continue
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _be_rude(self, client: socket.socket, server: socket.socket) -> None:
        greeting = client.recv(65536)
        expected = len(FrameSplitter().feed(greeting))
        server.sendall(greeting)
        replies, splitter, frames = b"", FrameSplitter(), 0
        while frames < expected:
            data = server.recv(65536)
            replies += data
            frames += len(splitter.feed(data))
        client.sendall(replies + self._farewell)
        client.close()
        server.close()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("farewell", [b"", b"+and another thing\r\n"], ids=["closes", "says too much"])
async def test_a_connection_that_breaks_right_after_its_handshake_is_not_used(
    valkey: Server, farewell: bytes
) -> None:
    with RudeFront(valkey.port, farewell) as front:
        async with leasehold.connect(front.url, timeout=20) as locks:
            await (await locks.acquire("deal", ttl=20, wait=0)).release()
        assert front.connections == 2
    with RudeFront(valkey.port, farewell) as front, blocking.connect(front.url, timeout=20) as threads:
        held = await asyncio.to_thread(threads.acquire, "deal", ttl=20, wait=0)
        await asyncio.to_thread(held.release)
        # With the subscriber; and a fourth if the lease is checked, because it was granted before the subscription, while
        # it is being released.
        await eventually_async(lambda: front.connections >= 3)
        assert front.connections <= 4


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".example"])
async def test_a_host_name_that_cannot_be_one_is_a_failure_of_the_store(host: str) -> None:
    url = f"redis://{host}:6379"
    with pytest.raises((StoreUnavailable, StoreRefused)):
        async with leasehold.connect(url, timeout=0.5):
            pass
    with pytest.raises((StoreUnavailable, StoreRefused)), blocking.connect(url, timeout=0.5):
        pass


def test_a_client_that_only_acquired_is_refused_in_another_loop_as_well(valkey: Server) -> None:
    locks = leasehold.connect(valkey.url)

    async def elsewhere() -> None:
        for ask in (locks.acquire("other", ttl=20), locks.inspect("other"), locks.lock("other").__aenter__()):
            with pytest.raises(InvalidRequest, match="another event loop"):
                await ask

    async def here() -> None:
        await (await locks.acquire("deal", ttl=20)).release()
        await asyncio.to_thread(asyncio.run, elsewhere())
        async with locks.lock("deal", ttl=20):
            assert not (await locks.inspect("other")).is_held
        await locks.close()

    asyncio.run(here())
