"""Consumers on real brokers: a message is processed under its lock, or returned and redelivered."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.operations.broker_setups import BrokerSetup, NatsSetup, RabbitSetup, RedisSetup
from tests.support.eventually import LIMIT, eventually_async

from leasehold.operations import Operations, Purpose, Purposes
from leasehold.operations.faststream import LockMiddleware, check_redelivery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import leasehold

# RabbitMQ takes its time to start on a busy machine.
pytestmark = pytest.mark.timeout(300)

PURPOSES = Purposes(
    [
        Purpose("deal", "deal:{deal_id}", ttl=30, wait=0.05, retry_interval=0.02),
        Purpose("patient", "deal:{deal_id}", ttl=30, wait=30),
    ]
)


@pytest.fixture(params=["redis", "rabbit", "nats"])
def setup(request: pytest.FixtureRequest, valkey) -> BrokerSetup:
    if request.param == "redis":
        return RedisSetup(valkey)
    server = request.getfixturevalue(request.param)
    return RabbitSetup(server) if request.param == "rabbit" else NatsSetup(server)


@asynccontextmanager
async def consuming(
    setup: BrokerSetup,
    locks: leasehold.Client,
    handler: Callable[..., Any],
    purpose: str = "deal",
    **options: Any,
) -> AsyncIterator[None]:
    """The handler at work; in the end every message must have been acknowledged."""
    middleware = LockMiddleware(
        Operations(locks, PURPOSES), purpose=purpose, pause=0.05, max_pause=0.2, **options
    )
    setup.build(middleware, handler)
    check_redelivery(setup.broker.subscribers)
    async with setup.broker:
        await setup.broker.start()
        yield
    assert await setup.left() == 0


def times_nacked(caplog: pytest.LogCaptureFixture) -> int:
    return sum("is nacked" in record.message for record in caplog.records)


async def test_a_message_whose_lock_is_busy_is_redelivered_until_it_is_free(setup, locks, caplog) -> None:
    done = []

    async def handle(body: dict[str, int]) -> None:
        assert (await locks.inspect("deal:42")).is_held
        done.append(body["deal_id"])

    caplog.set_level(logging.WARNING, "leasehold")
    other = await locks.acquire("deal:42", ttl=300)
    async with consuming(setup, locks, handle, key=lambda body: body["deal_id"]):
        await setup.publish({"deal_id": 42})
        await eventually_async(lambda: times_nacked(caplog) >= 2)
        assert not done
        await other.release()
        # Perhaps more than once: a message that takes long, as on a busy machine, is delivered again.
        await eventually_async(lambda: 42 in done)
        await is_free(locks, "deal:42")


async def test_a_message_is_redelivered_while_the_store_is_unavailable(
    setup, own_server, impatient, caplog
) -> None:
    done = []

    async def handle(body: dict[str, int]) -> None:
        done.append(body["deal_id"])

    caplog.set_level(logging.WARNING, "leasehold")
    store = own_server("valkey9")
    locks = impatient(store, 1)
    async with consuming(setup, locks, handle):
        store.kill()
        await setup.publish({"deal_id": 42})
        await eventually_async(lambda: times_nacked(caplog) >= 2)
        assert not done
        await asyncio.to_thread(store.start)
        await eventually_async(lambda: 42 in done)
        await is_free(locks, "deal:42")


async def test_a_lost_lease_stops_the_handler_and_the_message_is_redelivered(setup, locks, caplog) -> None:
    started, done = [], []

    async def handle(body: dict[str, int]) -> None:
        started.append(body["deal_id"])
        if len(started) == 1:
            taken = await locks.take("deal:42")
            await taken.release()
            await asyncio.sleep(2 * LIMIT)
        done.append(body["deal_id"])

    caplog.set_level(logging.WARNING, "leasehold")
    async with consuming(setup, locks, handle):
        await setup.publish({"deal_id": 42})
        await eventually_async(lambda: 42 in done)
        await is_free(locks, "deal:42")
    assert len(started) > len(done)
    assert times_nacked(caplog) >= 1


async def test_a_duplicate_is_skipped(setup, locks) -> None:
    done = []

    async def handle(body: dict[str, Any]) -> None:
        done.append(body["tx_hash"])

    async with consuming(setup, locks, handle, once=lambda body: body["tx_hash"]):
        for tx_hash in ("0xa", "0xb", "0xa", "0xa", "0xb", "0xc"):
            await setup.publish({"deal_id": 42, "tx_hash": tx_hash})
        await eventually_async(lambda: set(done) == {"0xa", "0xb", "0xc"})
        await eventually_async(lambda: len(setup.acknowledged) == 6)
    assert sorted(done) == ["0xa", "0xb", "0xc"]


async def test_messages_with_the_same_lock_are_processed_one_at_a_time(setup, locks) -> None:
    running, most, done = 0, 0, []

    async def handle(body: dict[str, Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        done.append(body["number"])

    async with consuming(setup, locks, handle, purpose="patient"):
        for number in range(8):
            await setup.publish({"deal_id": 42, "number": number})
        # Some may be done more than once: a message that waits for the lock for too long is redelivered.
        await eventually_async(lambda: set(done) == set(range(8)))
        await eventually_async(lambda: len(setup.acknowledged) == 8)
        await is_free(locks, "deal:42")
    assert most == 1


async def dying(parent: Any, url: str) -> None:
    """A worker that is killed in the middle of its first message."""
    import asyncio

    from faststream.redis import RedisBroker, StreamSub

    import leasehold
    from leasehold.operations import Operations, Purpose, Purposes
    from leasehold.operations.faststream import LockMiddleware

    purposes = Purposes([Purpose("deal", "deal:{deal_id}", ttl=2)])
    ops = Operations(leasehold.connect(url, timeout=60), purposes)
    middleware = LockMiddleware(ops, purpose="deal", once=lambda body: body["tx_hash"])
    broker = RedisBroker(url, middlewares=[middleware], logger=None)

    async def handle(body: dict[str, Any]) -> None:
        parent.send(working_on=body["deal_id"])
        await asyncio.sleep(600)

    broker.subscriber(stream=StreamSub("dying", group="workers", consumer="dying"))(handle)
    async with broker:
        await broker.start()
        parent.send(ready=True)
        await asyncio.sleep(600)


async def test_the_message_of_a_killed_worker_is_processed_by_another(valkey, locks, spawn) -> None:
    worker = spawn(dying, valkey.url)
    assert await worker.aread() == {"ready": True}
    done = []

    async def handle(body: dict[str, Any]) -> None:
        done.append((body["deal_id"], (await locks.inspect("deal:42")).fence))

    setup = RedisSetup(valkey)
    setup.place = "dying"
    valkey.call("XADD", "dying", "*", "__data__", '{"deal_id": 42, "tx_hash": "0xa"}')
    assert await worker.aread() == {"working_on": 42}
    before = (await locks.inspect("deal:42")).fence
    worker.kill()
    async with consuming(setup, locks, handle, once=lambda body: body["tx_hash"]):
        await eventually_async(lambda: done)
        await is_free(locks, "deal:42")
    ((deal_id, after),) = done
    assert deal_id == 42
    assert after > before


async def is_free(locks: leasehold.Client, name: str) -> None:
    """Waits until the last handler's lock was released; a stop waits for the acknowledgement that follows."""

    async def free() -> bool:
        return not (await locks.inspect(name)).is_held

    await eventually_async(free)
