"""Metrics of files, scraped over HTTP from a process in which sessions lock them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
from tests.observe.scraping import Scrape

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
    parent.tell(port=server.server_port, secrets=[one.secret, other.secret])
    parent.hear()
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_script_of_sessions_leaves_these_figures(
    valkey: Server, tmp_path: Path, spawn: Callable[..., Child]
) -> None:
    child = spawn(lock_files, valkey.url, str(tmp_path))
    told = child.read(60)
    found = Scrape(httpx.get(f"http://127.0.0.1:{told['port']}/metrics").text)
    child.tell()

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
