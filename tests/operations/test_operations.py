"""Operations under the lock of a purpose, for asyncio and for threads, on a real server."""

from __future__ import annotations

import asyncio
import inspect
import threading
from dataclasses import dataclass

import pytest
from tests.support.eventually import LIMIT

import leasehold
from leasehold import InvalidRequest, LeaseLost, LockBusy, operations
from leasehold.operations import STANDARD, Operations, Purpose, Purposes
from leasehold.operations import blocking as threads

QUICK = Purposes(
    [
        *STANDARD.values(),
        Purpose("once_asked", "asked:{x}", ttl=30, wait=0),
        Purpose("transfer", "transfer:{source}:{target}", ttl=30, retry_interval=0.02),
        Purpose("short", "short", ttl=20, renew=False, max_hold=0.2),
        Purpose("patient", "patient:{deal_id}", ttl=LIMIT, wait=LIMIT),
    ]
)


@dataclass
class Event:
    deal_id: int | None


@pytest.fixture
def ops(locks) -> Operations:
    return Operations(locks, QUICK)


@pytest.fixture
def blocking_ops(valkey):
    with leasehold.blocking.connect(valkey.url, timeout=LIMIT) as client:
        yield threads.Operations(client, QUICK)


class TestPurpose:
    async def test_holds_the_lock_of_its_name_with_its_times(self, ops, locks, valkey) -> None:
        async with ops.purpose("payout", deal_id=42) as lease:
            assert lease.name == "payout:42"
            assert lease.ttl == 60
            assert 30 < valkey.call("PTTL", "lock:{payout:42}") / 1000 <= 60
            assert (await locks.inspect("payout:42")).fence == lease.fence
            async with ops.purpose("payout", deal_id=43):
                pass
        assert await locks.try_acquire("payout:42")

    async def test_is_renewed_or_not_as_declared(self, ops) -> None:
        async with ops.purpose("deal", deal_id=1) as renewed:
            assert renewed.renews
        short = ops.purpose("short")
        with pytest.raises(LeaseLost, match="max_hold"):
            async with short as lease:
                await lease.lost()
        assert not lease.renews

    async def test_a_busy_lock_is_a_typed_error(self, ops) -> None:
        async with ops.purpose("once_asked", x=1):
            with pytest.raises(LockBusy):
                async with ops.purpose("once_asked", x="1"):
                    pytest.fail("two at once")

    @pytest.mark.parametrize(
        ("name", "parameters"),
        [
            ("pay", {"deal_id": 1}),
            ("payout", {}),
            ("payout", {"deal_id": 1, "more": 1}),
            ("payout", {"deal_id": None}),
            ("payout", {"deal_id": ""}),
            ("reconciliation", {"deal_id": 1}),
            (None, {}),
            ([], {}),
        ],
    )
    def test_errors_are_raised_before_anything_is_sent(self, name, parameters) -> None:
        nowhere = leasehold.connect("redis://127.0.0.1:1")
        with pytest.raises(InvalidRequest):
            Operations(nowhere, QUICK).purpose(name, **parameters)

    async def test_each_kind_of_client_has_its_own(self, locks, blocking_ops) -> None:
        with pytest.raises(InvalidRequest, match=r"leasehold\.operations\.blocking"):
            Operations(blocking_ops.locks)
        with pytest.raises(InvalidRequest, match="for asyncio"):
            threads.Operations(locks)
        with pytest.raises(InvalidRequest, match="Purposes"):
            Operations(locks, {"deal": STANDARD["deal"]})


class TestGuarded:
    async def test_runs_under_the_lock_of_the_call(self, ops, locks) -> None:
        @ops.guarded("deal", deal_id=lambda event: event.deal_id)
        async def handle(event: Event, note: str = "-") -> tuple[str, bool]:
            return note, (await locks.inspect(f"deal:{event.deal_id}")).is_held

        assert await handle(Event(42), note="x") == ("x", True)
        assert not (await locks.inspect("deal:42")).is_held
        assert handle.__name__ == "handle"

    async def test_passes_the_lease_to_functions_that_declare_it(self, ops) -> None:
        @ops.guarded("deal")
        async def handle(deal_id: int, *, lease: leasehold.Lease) -> str:
            lease.check()
            return lease.name

        assert await handle(42) == "deal:42"
        assert await handle(deal_id=43) == "deal:43"
        assert list(inspect.signature(handle).parameters) == ["deal_id"]
        with pytest.raises(TypeError):
            await handle(42, lease=None)

    async def test_takes_keys_from_arguments_by_name_or_the_first_one(self, ops) -> None:
        class Service:
            @ops.guarded("transfer", source=lambda e: e["from"], target=lambda event, to="x": event[to])
            async def move(self, event: dict[str, int], lease: leasehold.Lease) -> str:
                return lease.name

            @ops.guarded("transfer", target=lambda destination: destination)
            async def send(self, source: int, destination: int, *, lease: leasehold.Lease) -> str:
                return lease.name

        assert await Service().move({"from": 1, "x": 2}) == "transfer:1:2"
        assert await Service().send(3, destination=4) == "transfer:3:4"

    async def test_a_key_function_that_returns_nothing_is_an_error_and_nothing_runs(self, ops) -> None:
        ran = []

        @ops.guarded("deal", deal_id=lambda event: event.deal_id)
        async def handle(event: Event) -> None:
            ran.append(event)

        with pytest.raises(InvalidRequest, match=r"purpose 'deal': deal_id must be .*, not None"):
            await handle(Event(None))
        with pytest.raises(AttributeError):
            await handle(None)
        assert not ran

    async def test_a_busy_lock_keeps_the_function_from_running(self, ops) -> None:
        ran = []

        @ops.guarded("once_asked")
        async def handle(x: int) -> None:
            ran.append(x)

        async with ops.purpose("once_asked", x=1):
            with pytest.raises(LockBusy):
                await handle(1)
        assert not ran

    @pytest.mark.parametrize(
        ("purpose", "keys", "told"),
        [
            ("pay", {}, "no purpose 'pay'"),
            ("deal", {}, "deal_id is missing"),
            ("deal", {"deal": lambda event: 1}, "deal is unknown"),
            (
                "deal",
                {"deal_id": lambda event, user: 1},
                "needs user, but the function's parameters are event",
            ),
            ("deal", {"deal_id": "deal_id"}, "must be a function, not str"),
            ("transfer", {"source": lambda event: 1}, "target is missing"),
        ],
    )
    def test_a_wrong_declaration_is_refused_at_once(self, purpose, keys, told) -> None:
        ops = Operations(leasehold.connect("redis://127.0.0.1:1"), QUICK)

        async def handle(event: Event) -> None: ...

        with pytest.raises(InvalidRequest, match=told):
            ops.guarded(purpose, **keys)(handle)

    def test_a_function_of_the_wrong_kind_is_refused(self, blocking_ops) -> None:
        ops = Operations(leasehold.connect("redis://127.0.0.1:1"), QUICK)

        async def key(event):
            return 1

        async def handle(event) -> None: ...

        async def generate(deal_id):
            yield deal_id

        def positional(deal_id, lease, /): ...

        with pytest.raises(InvalidRequest, match="must not be asynchronous"):
            ops.guarded("deal", deal_id=key)(handle)
        for function in (generate, lambda deal_id: None):
            with pytest.raises(InvalidRequest, match=r"guarded\(\) needs an async function"):
                ops.guarded("deal")(function)
        with pytest.raises(InvalidRequest, match="which is async"):
            blocking_ops.guarded("deal", deal_id=lambda event: 1)(handle)
        with pytest.raises(InvalidRequest, match="positional"):
            blocking_ops.guarded("deal")(positional)

    async def test_a_lost_lease_stops_it(self, ops, locks) -> None:
        @ops.guarded("deal")
        async def handle(deal_id: int) -> None:
            await locks.take(f"deal:{deal_id}")
            await asyncio.sleep(60)
            pytest.fail("it was not stopped")

        with pytest.raises(LeaseLost, match="taken"):
            await handle(42)


class TestThreads:
    def test_hold_the_lock_of_a_purpose(self, blocking_ops) -> None:
        with blocking_ops.purpose("payout", deal_id=42) as lease:
            assert (lease.name, lease.ttl) == ("payout:42", 60)
            with pytest.raises(InvalidRequest):
                blocking_ops.purpose("payout")

    def test_run_one_at_a_time(self, blocking_ops) -> None:
        running, most, done = 0, 0, []

        @blocking_ops.guarded("patient", deal_id=lambda event: event.deal_id)
        def handle(event: Event, lease: leasehold.blocking.Lease) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            threading.Event().wait(0.02)
            running -= 1
            done.append(lease.fence)

        workers = [threading.Thread(target=handle, args=(Event(1),)) for _ in range(5)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(LIMIT)
        assert len(done) == 5
        assert most == 1
        assert done == sorted(done)

    def test_have_the_same_names_and_arguments(self) -> None:
        def shape(function):
            return [
                (each.name, each.kind, each.default)
                for each in inspect.signature(function).parameters.values()
            ]

        def verbs(kind):
            return {name for name, _ in inspect.getmembers(kind, callable) if not name.startswith("_")}

        assert verbs(operations.Operations) == verbs(threads.Operations)
        for verb in [*verbs(operations.Operations), "__init__"]:
            assert shape(getattr(operations.Operations, verb)) == shape(getattr(threads.Operations, verb))
