"""The separate port of the metrics: what its clients cannot do."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
from tests.support.eventually import LIMIT, eventually

if TYPE_CHECKING:
    from tests.observe.conftest import MakeServed

SLOW = 150


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_slow_clients_take_no_threads_and_are_ended(served: MakeServed) -> None:
    running = served(metrics_port=0)
    where = running.told["metrics"]
    port = int(where.split(":")[2].split("/")[0])
    assert httpx.get(where, timeout=LIMIT).status_code == 200
    before = threads_of(running.pid)
    with ExitStack() as clients:
        slow = [
            clients.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT)) for _ in range(SLOW)
        ]
        for each in slow:
            each.sendall(b"GET /metrics HTTP/1.1\r\n")
        with socket.create_connection(("127.0.0.1", port), LIMIT, ("127.0.0.2", 0)) as scraper:
            scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in scraper.recv(15)
        assert threads_of(running.pid) <= before + 2
        for each in slow:  # within its timeout
            with suppress(ConnectionError):
                each.recv(1)
    eventually(lambda: httpx.get(where, timeout=LIMIT).status_code == 200)


def test_without_a_token_a_foreign_page_cannot_read_the_metrics(served: MakeServed) -> None:
    where = served(metrics_port=0).told["metrics"]
    assert httpx.get(where, headers={"Host": "evil.example"}, timeout=LIMIT).status_code == 421
    assert httpx.get(where, headers={"Host": "localhost"}, timeout=LIMIT).status_code == 200
