"""Metrics of files, scraped over HTTP from a process in which sessions lock them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from tests.observe.scrape import Scrape
from tests.support.eventually import LIMIT, eventually_async

import leasehold
from leasehold.core.observer import Operation, observed
from leasehold.files import FileLocks, FileSettings
from leasehold.observe import observe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.processes import Child
    from tests.support.servers import Server

LABELS = {
    "orchestrator_file_lock_attempts_total": {"operation", "outcome"},
    "orchestrator_file_lock_attempt_seconds_count": {"operation", "outcome"},
    "orchestrator_file_lock_acquire_seconds_count": {"operation"},
    "orchestrator_file_lock_contention_total": {"operation", "reason"},
    "orchestrator_file_lock_rate_limit_total": {"operation", "result"},
    "orchestrator_file_lock_release_total": {"outcome"},
}


async def lock_files(parent: Any, url: str, root: str) -> None:
    """The script of the child process, which serves its metrics as any program does."""
    from contextlib import suppress

    from prometheus_client import start_http_server

    import leasehold
    from leasehold.files import FileLocks, FileSettings
    from leasehold.observe import observe

    server, thread = start_http_server(0, addr="127.0.0.1")
    async with leasehold.connect(url) as locks:
        observe(locks)
        files = FileLocks(locks, root=root, settings=FileSettings(rate_limit=8))
        one, other = await files.session("agent-1"), await files.session("agent-2")
        async with one.read("CANARY.txt"), other.read("CANARY.txt"):
            pass
        async with one.write("CANARY.txt"):
            with suppress(leasehold.LockBusy):
                await other.acquire_read("CANARY.txt", wait=0)
            with suppress(leasehold.LockBusy):
                await other.acquire_write("CANARY.txt", wait=0.05)
        async with files.room("CANARY.txt", holder="editors"):
            with suppress(leasehold.LockBusy):
                await other.acquire_write("CANARY.txt", wait=0)
        for _ in range(8):
            with suppress(leasehold.RateLimited):
                await (await one.acquire_write("other.txt")).release()
    parent.send(port=server.server_port, secrets=[one.secret, other.secret])
    parent.receive()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_script_of_sessions_yields_these_metrics(
    valkey: Server, tmp_path: Path, spawn: Callable[..., Child]
) -> None:
    child = spawn(lock_files, valkey.url, str(tmp_path))
    told = child.read(LIMIT)
    found = Scrape(httpx.get(f"http://127.0.0.1:{told['port']}/metrics").text)
    child.send()

    for name, labels in LABELS.items():
        assert found.label_names(name) == labels
    attempts = "orchestrator_file_lock_attempts_total"
    assert found.value(attempts, operation="read", outcome="success") == 2
    assert found.value(attempts, operation="read", outcome="busy") == 1
    assert found.value(attempts, operation="write", outcome="success") == 1 + 6
    assert found.value(attempts, operation="write", outcome="busy") == 2
    assert found.value(attempts, operation="write", outcome="rate_limited") == 2
    seconds = "orchestrator_file_lock_attempt_seconds_count"
    assert found.value(seconds, operation="write", outcome="rate_limited") == 2
    assert found.value("orchestrator_file_lock_acquire_seconds_count", operation="write") == 7

    contention = "orchestrator_file_lock_contention_total"
    assert found.value(contention, operation="read", reason="lock_contended") == 1
    assert found.value(contention, operation="write", reason="lock_timeout") == 1
    assert found.value(contention, operation="write", reason="room_busy") == 1
    checks = "orchestrator_file_lock_rate_limit_total"
    assert found.value(checks, operation="write", result="blocked") == 2
    assert found.value(checks, operation="write", result="allowed") == 1 + 2 + 6
    assert found.value("orchestrator_file_lock_release_total", outcome="success") == 2 + 1 + 6

    assert found.total("leasehold_hold_seconds_count", kind="file") >= 9, "the locks behind the files"
    assert "CANARY" not in found.text
    assert [secret for secret in told["secrets"] if secret in found.text] == []


ATTEMPTS, FAULTS = "orchestrator_file_lock_attempts_total", "leasehold_store_errors_total"


async def test_each_attempt_without_a_reply_of_the_store_is_one_fault(
    own_server: Callable[..., Server], tmp_path: Path
) -> None:
    registry = CollectorRegistry()
    store = own_server("valkey9")
    async with leasehold.connect(store.url, timeout=3) as locks:
        observe(locks, registry=registry, tracing=False, logging=False)
        session = await FileLocks(locks, root=tmp_path, settings=FileSettings(wait=0)).session("one")
        lease = await session.acquire_read("a.txt")
        store.kill()
        for ask in (session.acquire_write, session.acquire_read, session.acquire_write):
            with pytest.raises(leasehold.StoreUnavailable):
                await ask("b.txt")
        with pytest.raises(leasehold.StoreUnavailable):
            await lease.upgrade()
    found = Scrape.of(registry)
    assert found.total(ATTEMPTS, outcome="error") == 4
    assert found.total(FAULTS, error="unavailable") == 4


async def test_a_fault_of_an_operation_inside_an_attempt_is_counted_once(
    own_server: Callable[..., Server],
) -> None:
    registry = CollectorRegistry()
    store = own_server("valkey9")
    async with leasehold.connect(store.url, timeout=3) as locks:
        observe(locks, registry=registry, tracing=False, logging=False)
        store.kill()
        operation = Operation("file", "write", "a", is_attempt=True)
        for _ in range(2):
            with pytest.raises(leasehold.StoreUnavailable):
                await observed(locks.lookout, lambda: 0.0, operation, lambda: locks.acquire("a", wait=0))
    found = Scrape.of(registry)
    assert found.total(ATTEMPTS, outcome="error") == 2
    assert found.total(FAULTS) == 2


def wait_for_ever(parent: Any, url: str, root: str, secret: str) -> None:
    """A process that waits for a file until it is killed."""
    import leasehold
    from leasehold.files.blocking import FileLocks

    with leasehold.blocking.connect(url) as locks:
        FileLocks(locks, root=root).session("one", secret=secret).acquire_write("busy.txt", wait=None)


async def test_a_restore_without_files_is_not_an_attempt(
    valkey: Server, tmp_path: Path, spawn: Callable[..., Child]
) -> None:
    registry = CollectorRegistry()
    async with leasehold.connect(valkey.url) as locks:
        files = FileLocks(locks, root=tmp_path, settings=FileSettings(ttl=60))
        one, other = await files.session("one"), await files.session("other")
        await one.acquire_write("held.txt")
        await other.acquire_write("busy.txt")
        child = spawn(wait_for_ever, valkey.url, str(tmp_path), one.secret)

        async def has_asked() -> bool:
            return (await files.inspect("busy.txt")).waiters == 1

        await eventually_async(has_asked)
        child.kill()
        observe(locks, registry=registry, tracing=False, logging=False)
        again = await files.session("one", secret=one.secret)
        assert [entry.state for entry in await again.history()] == ["held", "asked"]
        assert [report.outcome for report in await again.restore()] == ["restored"]
        assert len(await again.history()) == 1
    found = Scrape.of(registry)
    assert found.total(ATTEMPTS, operation="restore") == 1
    assert found.total("orchestrator_file_lock_attempt_seconds_count", operation="restore") == 1
    assert found.total("orchestrator_file_lock_acquire_seconds_count", operation="restore") == 1


async def test_files_that_are_refused_count_as_attempts_that_failed(valkey: Server, tmp_path: Path) -> None:
    registry = CollectorRegistry()
    async with leasehold.connect(valkey.url) as locks:
        observe(locks, registry=registry, tracing=False)
        session = await FileLocks(locks, root=tmp_path).session("one")
        for bad in ("../CANARY.txt", "", "CANARY\0", "CANARY-\udcff"):
            with pytest.raises(leasehold.InvalidRequest):
                await session.acquire_all(["a.txt", bad])
        for acquire in (session.acquire_read, session.acquire_write):
            with pytest.raises(leasehold.InvalidRequest):
                await acquire("../CANARY.txt")
    found = Scrape.of(registry)
    assert found.value(ATTEMPTS, operation="write", outcome="error") == 5
    assert found.value(ATTEMPTS, operation="read", outcome="error") == 1
    assert found.total(FAULTS) == 0
    assert "CANARY" not in found.text
