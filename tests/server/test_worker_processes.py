"""`leasehold serve`: one process that listens, workers that answer, and what happens when any of them dies."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.server.api import Api
from tests.server.conftest import QUICK, MakeServed
from tests.server.serving import SERVE, Served, environ_of
from tests.support.servers import reserve_port
from tests.support.waiting import eventually, eventually_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.postgres import Postgres
    from tests.support.servers import Server


LONG = 150.0
"""Starting a process takes a second or two, but not on a machine that has better things to do."""

pytestmark = pytest.mark.timeout(600)


def ask(served: Served, path: str = "/readyz") -> httpx.Response:
    """On a connection of its own, which any worker may accept."""
    return httpx.get(served.base_url + path, timeout=LONG)


def refuses(served: Served) -> bool:
    """Whether nobody listens any more."""
    try:
        socket.create_connection(("127.0.0.1", port_of(served)), 10).close()
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


def test_it_serves_with_everything_embedded(served: MakeServed, tmp_path: Path) -> None:
    server = served(store_url=None, secret_key="canary-" * 8)
    assert ask(server).json() == {"status": "ready", "database": "ok", "store": "ok"}
    assert server.told["store_url"].startswith("unix:///")
    assert server.told["data_dir"] == str(tmp_path / "data")
    assert server.told["workers"] == server.workers()
    assert server.told["demo"] == []
    assert server.complaints() == []
    # Arguments can be read by everybody on the machine.
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (server.pid, *server.workers())]
    assert not any(b"canary" in command for command in commands)


def test_a_signal_ends_it_and_its_workers(served: MakeServed) -> None:
    server = served("--workers", "2")
    workers = server.workers()
    assert len(workers) == 2
    server.send(signal.SIGHUP)  # the others: tests/cli
    assert server.wait() == 0
    assert all(is_gone(pid) for pid in workers)
    assert server.complaints() == []


def test_a_request_under_way_is_answered_at_the_end(served: MakeServed) -> None:
    server = served(shutdown_seconds=60)
    body = b'{"email": "a@example.com", "password": "long enough", "display_name": "Ana"}'
    head = f"POST /api/auth/register HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port_of(server)), 10) as slow:
        slow.settimeout(LONG)
        slow.sendall(head.encode() + body[:10])
        ask(server)  # by then the request above has been read as well
        server.send(signal.SIGTERM)
        eventually(lambda: refuses(server), LONG, message="nobody new is let in")
        slow.sendall(body[10:])
        assert slow.recv(100).startswith(b"HTTP/1.1 201")
    assert server.wait() == 0


def test_whoever_does_not_finish_is_not_waited_for(served: MakeServed) -> None:
    server = served(shutdown_seconds=0.5)
    with socket.create_connection(("127.0.0.1", port_of(server)), 10) as slow:
        slow.sendall(b"POST /api/auth/register HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        ask(server)
        server.send(signal.SIGTERM)
        assert server.wait() == 0


def test_a_second_signal_does_not_wait(served: MakeServed) -> None:
    server = served(shutdown_seconds=100)
    with socket.create_connection(("127.0.0.1", port_of(server)), 10) as slow:
        slow.sendall(b"POST /api/auth/register HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        ask(server)
        worker = server.workers()[0]
        server.send(signal.SIGTERM)
        eventually(lambda: refuses(server), LONG, message="nobody new is let in")
        server.send(signal.SIGINT)
        assert server.wait() == 0
        assert is_gone(worker)


def test_a_worker_that_hangs_is_killed_at_the_end(served: MakeServed) -> None:
    server = served(shutdown_seconds=0.5)
    worker = server.workers()[0]
    os.kill(worker, signal.SIGSTOP)
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    assert is_gone(worker)
    assert "is killed" in server.log()


def test_a_worker_that_dies_is_replaced_and_the_others_serve_on(served: MakeServed) -> None:
    server = served("--workers", "2")
    first, second = server.workers()
    server.kill_worker(first)
    assert ask(server).status_code == 200
    eventually(lambda: len(server.workers()) == 2, LONG, message="there are two again")
    assert second in server.workers()
    assert first not in server.workers()
    assert "ended with -9; another one is started" in server.log()
    # The new one serves too: with the old one stopped nobody else would answer.
    os.kill(second, signal.SIGSTOP)
    try:
        eventually(lambda: _answers_quickly(server), LONG, message="the new worker answers")
    finally:
        os.kill(second, signal.SIGCONT)


def _answers_quickly(server: Served) -> bool:
    try:
        return httpx.get(server.base_url + "/healthz", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_connections_wait_while_there_is_no_worker(served: MakeServed, how: signal.Signals) -> None:
    server = served()
    worker = server.kill_worker(how=how)
    eventually(lambda: is_gone(worker), LONG, message="the worker is gone")
    assert ask(server, "/healthz").status_code == 200
    assert server.workers() != [worker]


def test_workers_end_when_their_parent_is_killed(served: MakeServed) -> None:
    server = served("--workers", "2")
    workers = server.workers()
    os.kill(server.pid, signal.SIGKILL)
    eventually(lambda: all(is_gone(pid) for pid in workers), LONG, message="the workers are gone")


def test_a_worker_that_starts_while_the_store_is_away_serves_when_it_is_back(
    served: MakeServed, own_server: Callable[..., Server]
) -> None:
    store = own_server("valkey9")
    server = served(store_url=store.url)
    store.kill()
    server.kill_worker()
    answer = eventually(lambda: _not_ready(server), LONG)
    assert (answer["database"], answer["store"]) == ("ok", "unavailable")
    assert server.is_running
    store.start()
    eventually(lambda: ask(server).status_code == 200, LONG, message="it is ready again")


def _not_ready(server: Served) -> Any:
    answer = ask(server)
    return answer.json() if answer.status_code == 503 else None


def test_a_worker_that_starts_while_the_database_is_away_is_tried_again(
    served: MakeServed, tmp_path: Path
) -> None:
    database = tmp_path / "elsewhere"
    database.mkdir()
    server = served(database_url=f"sqlite:///{database}/documents.sqlite")
    hidden = database.rename(tmp_path / "hidden")
    server.kill_worker()
    eventually(lambda: server.log().count("another one is started") >= 2, LONG, message="it is tried again")
    assert server.is_running
    hidden.rename(database)
    eventually(lambda: _answers_quickly(server), LONG, message="it serves again")


async def test_the_embedded_store_comes_back_when_it_was_killed(served: MakeServed, tmp_path: Path) -> None:
    server = served(store_url=None)
    store = _listening_process(tmp_path / "data" / "server.sock")
    os.kill(store, signal.SIGKILL)

    def is_ready() -> bool:
        return is_gone(store) and ask(server).status_code == 200

    await eventually_async(lambda: asyncio.to_thread(is_ready), LONG)


def _listening_process(path: Path) -> int:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(path))
        credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(credentials[:4], "little")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_workers_share_accounts_and_keys(
    served: MakeServed, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    settings: dict[str, Any] = {"secret_key": None}
    if kind == "postgresql":
        postgres: Postgres = request.getfixturevalue("postgres")
        with postgres.connect() as connection:
            connection.execute("DROP DATABASE IF EXISTS shared_by_workers WITH (FORCE)")
            connection.execute("CREATE DATABASE shared_by_workers TEMPLATE template0")
        settings["database_url"] = f"postgresql://postgres@127.0.0.1:{postgres.port}/shared_by_workers"
    server = served("--workers", "2", **settings)
    async with server.client() as client, Api(client) as api:
        ana = await api.register("Ana")
        tokens = {"Authorization": f"Bearer {ana.token}"}
        # Each worker alone: the other one is stopped meanwhile.
        for worker in server.workers():
            os.kill(worker, signal.SIGSTOP)
            try:

                async def is_known() -> bool:
                    try:
                        async with server.client() as fresh:
                            answer = await fresh.get("/api/auth/me", headers=tokens, timeout=2)
                    except httpx.TransportError:
                        return False  # accepted by the one that is stopped
                    return answer.status_code == 200 and answer.json()["id"] == ana.id

                await eventually_async(is_known, LONG)
            finally:
                os.kill(worker, signal.SIGCONT)


def test_a_port_that_is_in_use_is_explained(tmp_path: Path, valkey: Server) -> None:
    with reserve_port() as taken:
        taken.listen()
        port = taken.getsockname()[1]
        code, error = _run(tmp_path, valkey, "--port", str(port))
    assert code == 2
    assert f"127.0.0.1:{port} is in use by another program" in error


def test_an_address_that_is_nobodys_is_explained(tmp_path: Path, valkey: Server) -> None:
    code, error = _run(tmp_path, valkey, "--host", "203.0.113.1")
    assert code == 2
    assert "203.0.113.1:8000 cannot be listened on" in error


def test_a_database_that_does_not_answer_ends_it_at_once(tmp_path: Path, valkey: Server) -> None:
    with reserve_port() as nobody:
        url = f"postgresql://me:canary@127.0.0.1:{nobody.getsockname()[1]}/x"
        code, error = _run(tmp_path, valkey, "--port", "0", "--workers", "2", "--database-url", url)
    assert code == 5
    assert "database" in error
    assert "canary" not in error
    assert "Traceback" not in error


def test_a_store_that_does_not_answer_ends_it_at_once(tmp_path: Path, valkey: Server) -> None:
    with reserve_port() as nobody:
        url = f"redis://:canary@127.0.0.1:{nobody.getsockname()[1]}"
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
    assert "no worker can be started: 3 ended with 9 before they served anything" in error


def test_a_failure_that_nobody_foresaw_is_explained(tmp_path: Path, valkey: Server) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "httptools.py").write_text("raise RuntimeError('not today')")
    code, error = _run(tmp_path, valkey, "--port", "0", PYTHONPATH=str(broken))
    assert code == 1
    assert "a worker cannot start: RuntimeError: not today" in error


def _run(tmp_path: Path, valkey: Server, *arguments: str, **environ: str) -> tuple[int, str]:
    """`leasehold serve` that is expected to end by itself."""
    usual = QUICK | {"data_dir": tmp_path / "data", "store_url": valkey.url}
    ended = subprocess.run(
        [*SERVE, *arguments],
        env=environ_of(usual) | environ,
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    return ended.returncode, ended.stderr
