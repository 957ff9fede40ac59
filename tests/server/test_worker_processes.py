"""`leasehold serve`: one process that listens, workers that respond, and the consequences when any of them dies."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
import pytest
from tests.server.api import Api
from tests.server.served import QUICK, SERVE, START, Served, environ_of
from tests.support.eventually import LIMIT, eventually, eventually_async
from tests.support.servers import reserve_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.server.conftest import MakeServed
    from tests.server.databases import PostgresDatabases
    from tests.support.servers import Server


# Several starts in one test, each within `START`.
pytestmark = pytest.mark.timeout(600)


def ask(served: Served, path: str = "/readyz") -> httpx.Response:
    """Sends a request on a new connection, which any worker may accept."""
    return httpx.get(served.base_url + path, timeout=START)


def refuses(served: Served) -> bool:
    """Whether the port refuses connections."""
    try:
        socket.create_connection(("127.0.0.1", port_of(served)), LIMIT).close()
    except ConnectionRefusedError:
        return True
    return False


def port_of(served: Served) -> int:
    return int(served.base_url.rpartition(":")[2])


def is_gone(pid: int) -> bool:
    """Ended, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


async def test_it_serves_with_everything_embedded_and_the_store_comes_back_when_it_was_killed(
    served: MakeServed, tmp_path: Path
) -> None:
    server = served(store_url=None, secret_key="canary-" * 8)
    assert ask(server).json() == {"status": "ready", "database": "ok", "store": "ok"}
    assert server.told["store_url"].startswith("unix:///")
    assert server.told["data_dir"] == str(tmp_path / "data")
    assert server.told["workers"] == server.workers()
    assert (server.told["demo"], server.told["metrics"]) == ([], None)
    assert server.complaints() == []
    # Every user of the machine can read arguments.
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (server.pid, *server.workers())]
    assert not any(b"canary" in command for command in commands)

    store = _listening_process(tmp_path / "data" / "server.sock")
    os.kill(store, signal.SIGKILL)

    def is_ready() -> bool:
        return is_gone(store) and ask(server).status_code == 200

    await eventually_async(lambda: asyncio.to_thread(is_ready))


def _listening_process(path: Path) -> int:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little")


class SlowRequest:
    """A registration whose body comes later: on return the server waits for it."""

    _BODY = b'{"email": "a@example.com", "password": "long enough", "display_name": "Ana"}'

    def __init__(self, server: Served) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port_of(server)), LIMIT)
        self.port = self._socket.getsockname()[1]
        head = (
            "POST /api/auth/register HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Expect: 100-continue\r\nContent-Length: {len(self._BODY)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + self._BODY[:10])
        # Sent when the application asks for the body.
        assert self._socket.recv(100).startswith(b"HTTP/1.1 100")

    def finish(self) -> bytes:
        """The beginning of the answer."""
        self._socket.sendall(self._BODY[10:])
        return self._socket.recv(100)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()


def test_a_request_under_way_is_answered_at_the_end(served: MakeServed) -> None:
    server = served(shutdown_seconds=60)
    with SlowRequest(server) as slow:
        server.send(signal.SIGTERM)
        eventually(lambda: refuses(server), message="new connections are refused")
        assert slow.finish().startswith(b"HTTP/1.1 201")
    assert server.wait() == 0


def test_shutdown_waits_neither_for_an_unfinished_request_nor_for_a_hanging_worker(
    served: MakeServed,
) -> None:
    server = served("--workers", "2", shutdown_seconds=0.5)
    with SlowRequest(server) as slow:
        (hanging,) = set(server.workers()) - {server.worker_of(slow.port)}
        os.kill(hanging, signal.SIGSTOP)
        server.send(signal.SIGTERM)
        assert server.wait() == 0
    assert is_gone(hanging)
    assert f"killing worker {hanging}" in server.log()


def test_a_second_signal_does_not_wait(served: MakeServed) -> None:
    server = served(shutdown_seconds=1000)
    with SlowRequest(server):
        worker = server.workers()[0]
        server.send(signal.SIGTERM)
        eventually(lambda: refuses(server), message="new connections are refused")
        server.send(signal.SIGINT)
        assert server.wait() == 0
        assert is_gone(worker)


def test_a_worker_that_dies_is_replaced_and_a_signal_ends_them_all(served: MakeServed) -> None:
    server = served("--workers", "2")
    first, second = server.workers()
    assert server.complaints() == []
    server.kill_worker(first)
    assert ask(server).status_code == 200
    eventually(lambda: len(server.workers()) == 2, message="there are two workers again")
    workers = server.workers()
    assert second in workers
    assert first not in workers
    assert "ended with -9; starting another one" in server.log()
    # The new worker serves too: with the old one stopped no other could respond.
    with stopped(second):
        eventually(lambda: _answers(server), START, message="the new worker answers")
    server.send(signal.SIGHUP)  # the others: tests/cli
    assert server.wait() == 0
    assert all(is_gone(pid) for pid in workers)
    assert len(server.complaints()) == 1


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _answers(server: Served) -> bool:
    try:
        # Long enough for a response, and short enough to retry if a stopped worker accepted the connection.
        return httpx.get(server.base_url + "/healthz", timeout=10).status_code == 200
    except httpx.TransportError:
        return False


def test_connections_wait_while_there_is_no_worker_and_workers_end_with_their_parent(
    served: MakeServed,
) -> None:
    server = served()
    for how in (signal.SIGKILL, signal.SIGTERM):
        worker = server.kill_worker(how=how)
        eventually(lambda worker=worker: is_gone(worker), message="the worker is gone")
        assert ask(server, "/healthz").status_code == 200
        assert server.workers() != [worker]
    workers = server.workers()
    os.kill(server.pid, signal.SIGKILL)
    eventually(lambda: all(is_gone(pid) for pid in workers), message="the workers are gone")


def test_a_worker_that_starts_without_the_store_or_the_database_serves_when_it_is_back(
    served: MakeServed, own_server: Callable[..., Server], tmp_path: Path
) -> None:
    store, database = own_server("valkey9"), tmp_path / "elsewhere"
    database.mkdir()
    server = served(store_url=store.url, database_url=f"sqlite:///{database}/documents.sqlite")
    store.kill()
    server.kill_worker()
    answer = eventually(lambda: _not_ready(server), START)
    assert (answer["database"], answer["store"]) == ("ok", "unavailable")
    assert server.is_running
    store.start()
    eventually(lambda: ask(server).status_code == 200, message="it is ready again")

    # Without the store it starts; without the database it cannot, and the supervisor retries.
    before = server.log().count("starting another one")
    hidden = database.rename(tmp_path / "hidden")
    server.kill_worker()
    eventually(
        lambda: server.log().count("starting another one") >= before + 2, START, message="it is tried again"
    )
    assert server.is_running
    hidden.rename(database)
    eventually(lambda: _answers(server), START, message="it serves again")


def _not_ready(server: Served) -> Any:
    answer = ask(server)
    return answer.json() if answer.status_code == 503 else None


async def test_workers_share_accounts_and_keys(service: Served) -> None:
    await _share_accounts(service)


async def test_workers_share_accounts_on_postgresql(
    served: MakeServed, postgres_databases: PostgresDatabases
) -> None:
    with postgres_databases.make(migrated=False) as url:
        await _share_accounts(served("--workers", "2", database_url=url))


async def _share_accounts(server: Served) -> None:
    async with server.client() as client, Api(client) as api:
        ana = await api.register("Ana")
        tokens = {"Authorization": f"Bearer {ana.token}"}
        for worker in server.workers():
            with stopped(worker):  # so that the other worker must respond

                async def is_known() -> bool:
                    try:
                        async with server.client() as fresh:
                            answer = await fresh.get("/api/auth/me", headers=tokens, timeout=10)
                    except httpx.TransportError:
                        return False  # accepted by the one that is stopped
                    return answer.status_code == 200 and answer.json()["id"] == ana.id

                await eventually_async(is_known)


def test_a_port_that_is_in_use_is_explained(tmp_path: Path, valkey: Server) -> None:
    with reserve_port() as taken:
        taken.listen()
        port = taken.getsockname()[1]
        code, error = _run(tmp_path, valkey, "--port", str(port))
    assert code == 2
    assert f"127.0.0.1:{port} is in use by another program" in error


def test_an_address_of_no_local_interface_is_explained(tmp_path: Path, valkey: Server) -> None:
    code, error = _run(tmp_path, valkey, "--host", "203.0.113.1")
    assert code == 2
    assert "cannot listen on 203.0.113.1:8000" in error


def test_a_database_that_does_not_answer_ends_it_at_once(tmp_path: Path, valkey: Server) -> None:
    with reserve_port() as unused_port:
        url = f"postgresql://me:canary@127.0.0.1:{unused_port.getsockname()[1]}/x"
        code, error = _run(tmp_path, valkey, "--port", "0", "--workers", "2", "--database-url", url)
    assert code == 5
    assert "database" in error
    assert "canary" not in error
    assert "Traceback" not in error


def test_a_store_that_does_not_answer_ends_it_at_once(tmp_path: Path, valkey: Server) -> None:
    with reserve_port() as unused_port:
        url = f"redis://:canary@127.0.0.1:{unused_port.getsockname()[1]}"
        code, error = _run(tmp_path, valkey, "--port", "0", "--store-url", url)
    assert code == 5
    assert "canary" not in error
    assert "Traceback" not in error


def test_workers_that_die_before_they_serve_end_it(tmp_path: Path, valkey: Server) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "uvloop.py").write_text("import os; os._exit(9)")
    code, error = _run(tmp_path, valkey, "--port", "0", PYTHONPATH=str(broken))
    assert code == 1
    assert "cannot start a worker: 3 ended with 9 before any of them served" in error


def test_an_unexpected_failure_is_explained(tmp_path: Path, valkey: Server) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "httptools.py").write_text("raise RuntimeError('not today')")
    code, error = _run(tmp_path, valkey, "--port", "0", PYTHONPATH=str(broken))
    assert code == 1
    assert "a worker cannot start: RuntimeError: not today" in error


def _run(tmp_path: Path, valkey: Server, *arguments: str, **environ: str) -> tuple[int, str]:
    """Runs a `leasehold serve` that must end without a signal."""
    usual = QUICK | {"data_dir": tmp_path / "data", "store_url": valkey.url}
    ended = subprocess.run(
        [*SERVE, *arguments],
        env=environ_of(usual) | environ,
        capture_output=True,
        text=True,
        timeout=START,
        check=False,
    )
    return ended.returncode, ended.stderr
