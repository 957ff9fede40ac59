"""Metrics of lock operations: names, labels, and sums that add up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry
from tests.observe.recorder import play, play_blocking
from tests.observe.scrape import Scrape
from tests.support.eventually import eventually_async

import leasehold
from leasehold.core.observer import Operation, RateLimitChecked, observed
from leasehold.observe import observe
from leasehold.operations import STANDARD

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers import Server

COMMON = {"kind", "purpose"}
LABELS = {
    "leasehold_operation_seconds_count": COMMON | {"operation", "outcome"},
    "leasehold_acquire_seconds_count": COMMON | {"outcome"},
    "leasehold_wait_seconds_count": COMMON | {"outcome"},
    "leasehold_hold_seconds_count": COMMON | {"reason"},
    "leasehold_queue_length_count": COMMON,
    "leasehold_renewals_total": COMMON | {"outcome"},
    "leasehold_losses_total": COMMON | {"reason"},
    "leasehold_operations_under_way": COMMON | {"operation"},
}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def watch(locks: object, registry: CollectorRegistry, **options: object) -> None:
    observe(locks, tracing=False, logging=False, registry=registry, **options)


def check_the_script(scrape: Scrape) -> None:
    for name, labels in LABELS.items():
        assert scrape.label_names(name) == labels
    done = {"kind": "lock", "purpose": ""}
    count = "leasehold_operation_seconds_count"
    assert scrape.value(count, **done, operation="try_acquire", outcome="busy") == 1
    assert scrape.value(count, **done, operation="acquire", outcome="timeout") == 1
    assert scrape.value(count, **done, operation="acquire", outcome="success") == 2
    assert scrape.value(count, **done, operation="release", outcome="success") == 4
    assert scrape.value(count, **done, operation="release", outcome="lost") == 1
    assert scrape.value("leasehold_acquire_seconds_count", **done, outcome="success") == 4
    assert scrape.value("leasehold_wait_seconds_count", **done, outcome="timeout") == 1
    assert scrape.total("leasehold_wait_seconds_count") == 1, "the others did not wait"
    assert scrape.value("leasehold_wait_seconds_sum", **done, outcome="timeout") > 0.01
    assert scrape.value("leasehold_queue_length_count", **done) == 2
    assert scrape.value("leasehold_hold_seconds_count", **done, reason="released") == 4
    assert scrape.value("leasehold_hold_seconds_count", **done, reason="taken") == 1
    assert scrape.value("leasehold_losses_total", **done, reason="taken") == 1
    assert scrape.total("leasehold_losses_total") == 1
    assert scrape.value("leasehold_renewals_total", **done, outcome="success") == 1
    assert scrape.total("leasehold_operations_under_way") == 0


async def test_a_script_yields_these_metrics(valkey: Server, registry: CollectorRegistry) -> None:
    async with leasehold.connect(valkey.url) as locks:
        watch(locks, registry)
        await play(locks)
    check_the_script(Scrape.of(registry))


def test_threads_yield_the_same_metrics(valkey: Server, registry: CollectorRegistry) -> None:
    with leasehold.blocking.connect(valkey.url) as locks:
        watch(locks, registry)
        play_blocking(locks)
    check_the_script(Scrape.of(registry))


async def test_hand_overs_and_current_waiters_are_counted(
    valkey: Server, registry: CollectorRegistry
) -> None:
    async with leasehold.connect(valkey.url) as locks, leasehold.connect(valkey.url) as other:
        watch(other, registry)
        lease = await locks.acquire("a")
        waiting = asyncio.create_task(other.acquire("a", wait=60, renew=True))

        async def has_waiter() -> bool:
            return (await locks.inspect("a")).waiters == 1

        await eventually_async(has_waiter)
        labels = {"kind": "lock", "purpose": "", "operation": "acquire"}
        assert Scrape.of(registry).value("leasehold_operations_under_way", **labels) == 1
        await lease.release()
        await (await waiting).release()
    scrape = Scrape.of(registry)
    assert scrape.value("leasehold_operations_under_way", **labels) == 0
    assert scrape.label_names("leasehold_hand_over_seconds_count") == COMMON
    assert scrape.value("leasehold_hand_over_seconds_count", kind="lock", purpose="") == 1


async def test_two_clients_share_a_registry(valkey: Server, registry: CollectorRegistry) -> None:
    async with leasehold.connect(valkey.url) as one, leasehold.connect(valkey.url) as other:
        watch(one, registry)
        watch(other, registry)
        await (await one.acquire("a")).release()
        await (await other.acquire("a")).release()
    assert Scrape.of(registry).total("leasehold_acquire_seconds_count") == 2


async def test_a_purpose_is_a_label_and_a_name_never_is(valkey: Server, registry: CollectorRegistry) -> None:
    async with leasehold.connect(valkey.url) as locks:
        watch(locks, registry, purpose_of=STANDARD.purpose_of)
        for name in ("payout:CANARY-1", "payout:CANARY-2", "reconciliation", "CANARY", "payout:CANARY:3"):
            await (await locks.acquire(name)).release()
    scrape = Scrape.of(registry)
    counted = {
        purpose: scrape.total("leasehold_acquire_seconds_count", purpose=purpose)
        for purpose in ("payout", "reconciliation", "")
    }
    assert counted == {"payout": 2, "reconciliation": 1, "": 2}
    assert "CANARY" not in scrape.text


async def test_purposes_over_the_limit_become_one(valkey: Server, registry: CollectorRegistry) -> None:
    async with leasehold.connect(valkey.url) as locks:
        watch(locks, registry, purpose_of=lambda name: name)
        for number in range(150):
            await (await locks.acquire(f"name-{number}")).release()
    scrape = Scrape.of(registry)
    assert scrape.total("leasehold_acquire_seconds_count") == 150
    assert scrape.total("leasehold_acquire_seconds_count", purpose="other") == 50


async def test_errors_of_the_store_are_counted_by_code(
    own_server: Callable[..., Server], registry: CollectorRegistry
) -> None:
    store = own_server("valkey9")
    async with leasehold.connect(store.url, timeout=3) as locks:
        watch(locks, registry)
        await locks.inspect("a")
        store.call("CONFIG", "SET", "min-replicas-to-write", "1")
        with pytest.raises(leasehold.StoreRefused):
            await locks.acquire("a", wait=0)
        store.kill()
        with pytest.raises(leasehold.StoreUnavailable):
            await locks.acquire("a", wait=0)
    scrape = Scrape.of(registry)
    assert scrape.label_names("leasehold_store_errors_total") == {"error", "code"}
    assert scrape.value("leasehold_store_errors_total", error="refused", code="NOREPLICAS") == 1
    assert scrape.value("leasehold_store_errors_total", error="unavailable", code="ECONNREFUSED") == 1
    outcome = {"kind": "lock", "purpose": "", "operation": "try_acquire"}
    assert scrape.value("leasehold_operation_seconds_count", **outcome, outcome="unavailable") == 1


FILE_LABELS = {
    "orchestrator_file_lock_attempts_total": {"operation", "outcome"},
    "orchestrator_file_lock_attempt_seconds_count": {"operation", "outcome"},
    "orchestrator_file_lock_acquire_seconds_count": {"operation"},
    "orchestrator_file_lock_contention_total": {"operation", "reason"},
    "orchestrator_file_lock_rate_limit_total": {"operation", "result"},
    "orchestrator_file_lock_release_total": {"outcome"},
}


class _RoomBusy(leasehold.LockBusy):
    reason = "room_busy"


ATTEMPTS = [
    ("read", None, "success", None),
    ("write", leasehold.LockBusy("x"), "busy", "lock_contended"),
    ("write", leasehold.AcquireTimeout("x", waited=1), "busy", "lock_timeout"),
    ("write", _RoomBusy("x"), "busy", "room_busy"),
    ("write", leasehold.RateLimited("slowly", retry_after=1), "rate_limited", None),
    ("restore", leasehold.StoreUnavailable("silent"), "error", None),
    ("upgrade", ZeroDivisionError(), "error", None),
    ("release", None, "success", None),
    ("release", leasehold.StoreUnavailable("silent"), "error", None),
]


async def test_file_attempts_are_counted_under_the_orchestrators_names(
    registry: CollectorRegistry,
) -> None:
    locks = leasehold.connect("redis://127.0.0.1:1")
    watch(locks, registry)
    for verb, error, _, _ in ATTEMPTS:
        await _attempt(locks, verb, error)
    assert locks.lookout.observer is not None
    locks.lookout.observer.hear(RateLimitChecked("read", is_allowed=True))
    locks.lookout.observer.hear(RateLimitChecked("write", is_allowed=False))

    scrape = Scrape.of(registry)
    for name, labels in FILE_LABELS.items():
        assert scrape.label_names(name) == labels
    for verb, _, outcome, reason in ATTEMPTS:
        if verb == "release":
            assert scrape.value("orchestrator_file_lock_release_total", outcome=outcome) == 1
            continue
        labels = {"operation": verb, "outcome": outcome}
        expected = sum((verb, outcome) == (each[0], each[2]) for each in ATTEMPTS)
        assert scrape.value("orchestrator_file_lock_attempts_total", **labels) == expected
        assert scrape.value("orchestrator_file_lock_attempt_seconds_count", **labels) == expected
        if reason is not None:
            assert scrape.value("orchestrator_file_lock_contention_total", operation=verb, reason=reason) == 1
    assert scrape.total("orchestrator_file_lock_contention_total") == 3
    assert scrape.value("orchestrator_file_lock_acquire_seconds_count", operation="read") == 1
    assert scrape.total("orchestrator_file_lock_acquire_seconds_count") == 1
    allowed = {"operation": "read", "result": "allowed"}
    blocked = {"operation": "write", "result": "blocked"}
    assert scrape.value("orchestrator_file_lock_rate_limit_total", **allowed) == 1
    assert scrape.value("orchestrator_file_lock_rate_limit_total", **blocked) == 1
    assert scrape.total("leasehold_operation_seconds_count") == 0, (
        "an attempt is around operations, not one of them"
    )


async def _attempt(locks: leasehold.Client, verb: str, error: Exception | None) -> None:
    async def work() -> None:
        if error is not None:
            raise error

    operation = Operation("file", verb, "CANARY.txt", is_attempt=True)
    with suppress(Exception):
        await observed(locks.lookout, lambda: 0.0, operation, work)
