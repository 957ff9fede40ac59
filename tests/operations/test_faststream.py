"""The decisions of the middleware, on FastStream's test brokers with real locks. No real Kafka is run here."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from faststream import AckPolicy, BaseMiddleware, Context
from faststream.confluent import KafkaBroker, KafkaMessage, KafkaRouter, TestKafkaBroker
from faststream.exceptions import AckMessage, StopConsume
from faststream.nats import JStream, NatsBroker
from faststream.rabbit import RabbitBroker
from faststream.redis import ListSub, PubSub, RedisBroker, StreamSub
from tests.support.eventually import eventually_async

import leasehold
from leasehold import InvalidRequest, Lease
from leasehold.operations import Operations, Purpose, Purposes
from leasehold.operations.faststream import LockMiddleware, check_redelivery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from faststream.message import StreamMessage

PURPOSES = Purposes(
    [
        Purpose("deal", "deal:{deal_id}", ttl=30, wait=0),
        Purpose("brief", "deal:{deal_id}", ttl=5, wait=0),
        Purpose("transfer", "transfer:{source}:{target}", ttl=30, wait=0),
        Purpose("nightly", "nightly", ttl=30, wait=0),
    ]
)
DEAL = {"deal_id": 42}


class Partition:
    """The calls of a Kafka consumer: commit, or seek back."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    async def commit(self) -> None:
        self.told.append("commit")

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        self.told.append(("seek", topic, partition, offset))


BACK = ("seek", "deals", 0, 0)


@pytest.fixture
def ops(locks) -> Operations:
    return Operations(locks, PURPOSES)


@asynccontextmanager
async def kafka(
    ops: Operations,
    handler: Callable[..., Any],
    *,
    policy: AckPolicy = AckPolicy.ACK,
    **options: Any,
) -> AsyncIterator[tuple[KafkaBroker, Partition]]:
    middleware = LockMiddleware(ops, **{"purpose": "deal", "pause": 0.01, **options})
    router = KafkaRouter(middlewares=[middleware])
    subscriber = router.subscriber("deals", group_id="workers", ack_policy=policy)
    router.publisher("results")(subscriber(handler))
    broker = KafkaBroker(logger=None)
    broker.include_router(router)
    partition = Partition()
    async with TestKafkaBroker(broker):
        subscriber.parser._setup(partition)
        yield broker, partition


class TestKafka:
    async def test_a_message_that_was_worked_on_is_committed(self, ops) -> None:
        async def handle(body: dict[str, int], lease: Annotated[Lease, Context()]) -> str:
            lease.check()
            return lease.name

        async with kafka(ops, handle) as (broker, partition):
            await broker.publish(DEAL, "deals")
            assert partition.told == ["commit"]
            assert not (await ops.locks.inspect("deal:42")).is_held

    @pytest.mark.parametrize("policy", [AckPolicy.ACK, AckPolicy.NACK_ON_ERROR, AckPolicy.MANUAL])
    async def test_one_whose_lock_is_busy_is_rewound_to_whatever_the_policy(self, ops, policy) -> None:
        done = []

        async def handle(body: dict[str, int]) -> None:
            done.append(body)

        async with kafka(ops, handle, policy=policy) as (broker, partition):
            async with ops.purpose("deal", deal_id=42):
                if policy is AckPolicy.MANUAL:
                    with pytest.raises(Exception, match="nacked"):
                        await broker.publish(DEAL, "deals")
                else:
                    await broker.publish(DEAL, "deals")
            assert partition.told == [BACK]
            assert not done

    async def test_it_waits_longer_each_time_before_it_goes_back(self, ops) -> None:
        async def handle(body: dict[str, int]) -> None: ...

        async with kafka(ops, handle, pause=0.1, max_pause=0.4) as (broker, partition):
            async with ops.purpose("deal", deal_id=42):
                started_at = time.monotonic()
                for _ in range(4):
                    await broker.publish(DEAL, "deals")
                # 0.1, 0.2, 0.4 and 0.4 seconds, of each of which half is certain.
                assert time.monotonic() - started_at >= 0.55
            assert partition.told == [BACK] * 4

    async def test_the_store_away_is_no_reason_to_go_on(self) -> None:
        done = []

        async def handle(body: dict[str, int]) -> None:
            done.append(body)

        nowhere = leasehold.connect("redis://127.0.0.1:1", timeout=0.1)
        async with kafka(Operations(nowhere, PURPOSES), handle) as (broker, partition):
            await broker.publish(DEAL, "deals")
            assert (done, partition.told) == ([], [BACK])
        await nowhere.close()

    @pytest.mark.parametrize("end", ["sleeps", "fails", "acknowledges", "returns"])
    async def test_however_a_handler_ends_that_lost_its_lease_its_message_comes_again(self, ops, end) -> None:
        ended = []

        async def handle(body: dict[str, int]) -> str | None:
            try:
                await ops.locks.take("deal:42")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append(end)
                if end == "fails":
                    raise RuntimeError("of its own") from None
                if end == "acknowledges":
                    raise AckMessage from None
                if end == "returns":
                    return "done"
                raise
            return None

        async with kafka(ops, handle) as (broker, partition):
            await broker.publish(DEAL, "deals")
            assert partition.told == [BACK]
        assert ended == [end]

    async def test_what_the_handler_raises_of_its_own_is_left_to_the_policy(self, ops) -> None:
        async def handle(body: dict[str, int]) -> None:
            raise RuntimeError("of its own")

        for policy, told in ((AckPolicy.ACK, "commit"), (AckPolicy.NACK_ON_ERROR, BACK)):
            async with kafka(ops, handle, policy=policy) as (broker, partition):
                with pytest.raises(RuntimeError, match="of its own"):
                    await broker.publish(DEAL, "deals")
                assert partition.told == [told]
        assert not (await ops.locks.inspect("deal:42")).is_held

    async def test_a_lock_that_the_handler_could_not_get_is_a_reason_to_come_again(self, ops) -> None:
        async def handle(body: dict[str, int]) -> None:
            async with ops.purpose("nightly"):
                pytest.fail("it is held by another client")

        async with kafka(ops, handle) as (broker, partition), ops.purpose("nightly"):
            await broker.publish(DEAL, "deals")
            assert partition.told == [BACK]

    @pytest.mark.parametrize("once", [None, itemgetter("deal_id")], ids=["lock", "once"])
    async def test_work_that_is_done_is_not_done_again_because_the_store_went_away(
        self, own_server, impatient, once
    ) -> None:
        server = own_server("valkey9")

        done = []

        async def handle(body: dict[str, int]) -> None:
            done.append(body)
            server.kill()

        ops = Operations(impatient(server, 2), PURPOSES)
        async with kafka(ops, handle, purpose="brief", once=once) as (broker, partition):
            for _ in range(5):  # a store that stood still before the work was begun is another matter
                await broker.publish(DEAL, "deals")
                if done:
                    break
            assert (len(done), partition.told[-1]) == (1, "commit")

    async def test_a_retry_topic_takes_what_is_busy_and_the_message_is_committed(self, ops) -> None:
        retried = []

        async def handle(body: dict[str, int]) -> None:
            pytest.fail("it is held by another client")

        async def retry(message: StreamMessage[Any]) -> None:
            retried.append(await message.decode())

        async with kafka(ops, handle, retry_to=retry) as (broker, partition):
            async with ops.purpose("deal", deal_id=42):
                await broker.publish(DEAL, "deals")
            assert (retried, partition.told) == ([DEAL], ["commit"])

    async def test_a_retry_topic_that_fails_loses_nothing(self, ops) -> None:
        async def handle(body: dict[str, int]) -> None:
            pytest.fail("it is held by another client")

        async def retry(message: StreamMessage[Any]) -> None:
            raise ConnectionError("no broker")

        async with kafka(ops, handle, retry_to=retry) as (broker, partition):
            async with ops.purpose("deal", deal_id=42):
                await broker.publish(DEAL, "deals")
            assert partition.told == [BACK]

    @pytest.mark.parametrize(
        "body", [{"deal": 42}, {"deal_id": None}, {"deal_id": ""}, [42], "text"], ids=repr
    )
    async def test_a_message_without_a_usable_key_is_an_error_and_nothing_runs(self, ops, body) -> None:
        async def handle(body: Any) -> None:
            pytest.fail("it ran")

        async with kafka(ops, handle, policy=AckPolicy.NACK_ON_ERROR) as (broker, partition):
            with pytest.raises(InvalidRequest, match="deal_id"):
                await broker.publish(body, "deals")
            assert partition.told == [BACK]

    async def test_the_default_policy_is_refused_because_it_would_lose_messages(self, ops) -> None:
        async def handle(body: dict[str, int]) -> None:
            pytest.fail("it ran")

        async with kafka(ops, handle, policy=AckPolicy.ACK_FIRST) as (broker, _):
            with pytest.raises(StopConsume) as stopped:
                await broker.publish(DEAL, "deals")
            assert isinstance(stopped.value.__cause__, InvalidRequest)
            with pytest.raises(InvalidRequest, match=r"Handle.*AckPolicy\.NACK_ON_ERROR"):
                check_redelivery(broker.subscribers)


class Published(BaseMiddleware):
    """What was published to the results."""

    seen: list[Any]

    async def publish_scope(self, call_next: Any, cmd: Any) -> Any:
        if cmd.destination == "results":
            self.seen.append(cmd.body)
        return await call_next(cmd)


class TestOnce:
    @pytest.fixture
    def published(self) -> list[Any]:
        Published.seen = []
        return Published.seen

    async def test_what_was_returned_is_published_again_for_a_duplicate(self, ops, published) -> None:
        done = []

        async def handle(body: dict[str, int]) -> dict[str, int]:
            done.append(body)
            return {"paid": body["deal_id"]}

        async with kafka(ops, handle, once=lambda body: body["deal_id"]) as (broker, partition):
            broker.add_middleware(Published)
            for _ in range(3):
                await broker.publish(DEAL, "deals")
            assert (len(done), partition.told) == (1, ["commit"] * 3)
            assert published == [{"paid": 42}] * 3

    async def test_what_is_not_json_is_published_once_and_the_work_done_once(self, ops, published) -> None:
        done = []

        async def handle(body: dict[str, int]) -> Any:
            done.append(body)
            return b"\xff"

        async with kafka(ops, handle, once=lambda body: body["deal_id"]) as (broker, partition):
            broker.add_middleware(Published)
            for _ in range(3):
                await broker.publish(DEAL, "deals")
            assert (len(done), partition.told) == (1, ["commit"] * 3)
            assert published == [b"\xff"]

    async def test_work_that_failed_is_done_again_and_acknowledged_work_is_not(self, ops) -> None:
        done: list[int] = []

        async def handle(body: dict[str, int]) -> None:
            done.append(1)
            if len(done) == 1:
                raise RuntimeError("of its own")
            raise AckMessage

        async with kafka(ops, handle, policy=AckPolicy.NACK_ON_ERROR, once=lambda body: body["deal_id"]) as (
            broker,
            partition,
        ):
            with pytest.raises(RuntimeError, match="of its own"):
                await broker.publish(DEAL, "deals")
            for _ in range(2):
                await broker.publish(DEAL, "deals")
            assert (len(done), partition.told) == (2, [BACK, "commit", "commit"])

    async def test_work_whose_message_the_handler_gives_back_itself_is_done_again(self, ops) -> None:
        done: list[int] = []

        async def handle(body: dict[str, int], msg: KafkaMessage) -> None:
            done.append(1)
            if len(done) == 1:
                await msg.nack()

        async with kafka(ops, handle, once=itemgetter("deal_id")) as (broker, partition):
            for _ in range(3):
                await broker.publish(DEAL, "deals")
            assert (len(done), partition.told) == (2, [BACK, "commit", "commit"])

    @pytest.mark.parametrize("result", [None, {"paid": 42}, b"\xff"], ids=["nothing", "json", "bytes"])
    async def test_a_duplicate_is_acknowledged_where_the_handler_would_have_to(self, ops, result) -> None:
        done = []

        async def handle(body: dict[str, int], msg: KafkaMessage) -> Any:
            done.append(body)
            await msg.ack()
            return result

        async with kafka(ops, handle, once=itemgetter("deal_id"), policy=AckPolicy.MANUAL) as (
            broker,
            partition,
        ):
            for _ in range(2):
                with suppress(AckMessage):  # a running broker then publishes nothing
                    await broker.publish(DEAL, "deals")
            assert (len(done), partition.told) == (1, ["commit"] * 2)

    @pytest.mark.parametrize("apart", ["topics", "filters"])
    async def test_each_handler_does_its_own_work_once(self, ops, apart) -> None:
        done = []
        router = KafkaRouter(middlewares=[LockMiddleware(ops, purpose="deal", once=itemgetter("deal_id"))])

        def subscriber(topic: str) -> Any:
            return router.subscriber(topic, group_id="workers", ack_policy=AckPolicy.NACK_ON_ERROR)

        opened = subscriber("opened")
        paid = subscriber("paid") if apart == "topics" else opened

        async def is_opened(message: StreamMessage[Any]) -> bool:
            return apart == "topics" or message.headers.get("about") == "opened"

        async def handle_opened(body: dict[str, int]) -> None:
            done.append("opened")

        async def handle_paid(body: dict[str, int]) -> None:
            done.append("paid")

        opened(handle_opened, filter=is_opened)
        paid(handle_paid)
        broker = KafkaBroker(logger=None)
        broker.include_router(router)
        async with TestKafkaBroker(broker):
            for each in (opened, paid):
                each.parser._setup(Partition())
            for about in ("opened", "paid") * 2:
                topic = about if apart == "topics" else "opened"
                await broker.publish(DEAL, topic, headers={"about": about})
        assert done == ["opened", "paid"]

    async def test_what_a_handler_does_once_itself_is_not_taken_for_its_own_run(self, ops) -> None:
        paid = []

        async def handle(body: dict[str, int]) -> None:
            await ops.locks.once(f"deal:{body['deal_id']}", lambda: paid.append(1), wait=0)

        async with kafka(ops, handle, once=itemgetter("deal_id")) as (broker, partition):
            await broker.publish(DEAL, "deals")
            assert (paid, partition.told) == ([1], ["commit"])

    async def test_handlers_that_do_one_operation_do_it_once_together(self, ops) -> None:
        done = []

        async def handle(body: dict[str, int]) -> None:
            done.append("one")

        async def handle_too(body: dict[str, int]) -> None:
            done.append("the other")

        for handler in (handle, handle_too):
            async with kafka(ops, handler, once=itemgetter("deal_id"), operation="closing") as (broker, _):
                await broker.publish(DEAL, "deals")
        assert done == ["one"]
        assert await ops.locks.once("closing:42", lambda: "again") == {"result": None}

    async def test_while_it_is_being_done_elsewhere_the_message_comes_again(self, ops) -> None:
        async def handle(body: dict[str, int]) -> None:
            pytest.fail("it ran twice")

        begun, gate = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            begun.set()
            await gate.wait()

        elsewhere = asyncio.create_task(ops.locks.once("closing:0xa", work))
        await begun.wait()
        async with kafka(ops, handle, once=lambda body: "0xa", operation="closing") as (broker, partition):
            await broker.publish(DEAL, "deals")
            assert partition.told == [BACK]
        gate.set()
        await elsewhere

    async def test_an_empty_key_is_an_error_and_nothing_runs(self, ops) -> None:
        async def handle(body: dict[str, int]) -> None:
            pytest.fail("it ran")

        async with kafka(ops, handle, once=lambda body: None) as (broker, _):
            with pytest.raises(InvalidRequest, match="once must be"):
                await broker.publish(DEAL, "deals")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"purpose": "pay"}, "no purpose 'pay'"),
        ({"key": {}}, "deal_id is missing"),
        ({"key": {"deal": len}}, "deal is unknown"),
        ({"key": "deal_id"}, "plain function"),
        ({"key": asyncio.sleep}, "plain function"),
        ({"purpose": "transfer", "key": len}, "key must be a mapping"),
        ({"purpose": "nightly", "key": len}, "takes no parameters"),
        ({"once": "tx"}, "once must be a plain function"),
        ({"once": len, "once_ttl": 0}, "ttl must be"),
        ({"once": len, "operation": "a:b"}, "without a colon"),
        ({"operation": "closing"}, "needs once as well"),
        ({"pause": 0}, "pause must be"),
        ({"pause": 2, "max_pause": 1}, "max_pause"),
    ],
)
def test_a_wrong_declaration_is_refused_at_once(options, told) -> None:
    ops = Operations(leasehold.connect("redis://127.0.0.1:1"), PURPOSES)
    with pytest.raises(InvalidRequest, match=told):
        LockMiddleware(ops, **{"purpose": "deal", **options})


class TestRedelivery:
    async def handle(self, body: Any) -> None: ...

    def test_of_redis_only_streams_with_a_group_have_it(self) -> None:
        broker = RedisBroker()
        broker.subscriber(stream=StreamSub("a", group="g", consumer="c"))(self.handle)
        check_redelivery(broker.subscribers)
        for place in (
            {"stream": "b"},
            {"list": ListSub("c")},
            {"channel": PubSub("d")},
            {"stream": StreamSub("e", group="g", consumer="c", no_ack=True)},
        ):
            broker = RedisBroker()
            broker.subscriber(**place)(self.handle)
            with pytest.raises(InvalidRequest, match="only streams with a consumer group"):
                check_redelivery(broker.subscribers)

    def test_of_nats_only_jetstream_has_it(self) -> None:
        broker = NatsBroker()
        broker.subscriber("a", stream=JStream("s"), durable="d", pull_sub=True)(self.handle)
        broker.subscriber("b", stream=JStream("s"))(self.handle)
        check_redelivery(broker.subscribers)
        broker.subscriber("c")(self.handle)
        with pytest.raises(InvalidRequest, match="only JetStream"):
            check_redelivery(broker.subscribers)

    def test_rabbitmq_has_it_unless_it_acknowledges_first(self) -> None:
        broker = RabbitBroker()
        broker.subscriber("a")(self.handle)
        check_redelivery(broker.subscribers)
        broker.subscriber("b", ack_policy=AckPolicy.ACK_FIRST)(self.handle)
        with pytest.raises(InvalidRequest, match="ACK_FIRST"):
            check_redelivery(broker.subscribers)

    async def test_a_channel_is_refused_at_its_first_message(self, ops, valkey) -> None:
        ran = []

        async def handle(body: Any) -> None:
            ran.append(body)

        broker = RedisBroker(valkey.url, middlewares=[LockMiddleware(ops, purpose="deal")], logger=None)
        subscriber = broker.subscriber(channel="jobs")
        subscriber(handle)
        async with broker:
            await broker.start()
            await broker.publish(DEAL, channel="jobs")
            await eventually_async(lambda: not subscriber.running)
        assert not ran
