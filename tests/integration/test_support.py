"""The tools of tests/support work: a fault that does not occur proves nothing."""

# (parameters of a test may be booleans; a child's function brings its own imports)

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import hiredis
import pytest
import redis
from tests.support.eventually import LIMIT, eventually, eventually_async
from tests.support.processes import Child
from tests.support.proxy import FaultProxy
from tests.support.servers import FLAVOURS, SERVERS, Server, ServerFailedError
from tests.support.tls import Certificates, TlsFront, make_certificates

Proxy = Callable[[Server | int], FaultProxy]


class RawConnection:
    """A bare connection: nothing retried, nothing hidden."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
        self.reader = hiredis.Reader()

    def send(self, *commands: str) -> None:
        self.socket.sendall(b"".join(hiredis.pack_command(tuple(c.split())) for c in commands))

    def receive(self, timeout: float = LIMIT) -> Any:
        self.socket.settimeout(timeout)
        while (reply := self.reader.gets()) is False:
            data = self.socket.recv(65536)
            if not data:
                raise EOFError
            self.reader.feed(data)
        return reply

    def ask(self, command: str, timeout: float = LIMIT) -> Any:
        self.send(command)
        return self.receive(timeout)


@contextmanager
def raw_connection(port: int) -> Iterator[RawConnection]:
    bare = RawConnection(port)
    with bare.socket:
        yield bare


# Servers


def test_the_flavours_are_what_they_say() -> None:
    assert set(SERVERS) <= set(FLAVOURS)
    assert FLAVOURS["valkey9"].version[0] == 9
    assert FLAVOURS["redis62"].version[:2] == (6, 2)
    if "redis7" in FLAVOURS:
        assert FLAVOURS["redis7"].version >= (7,)


def test_a_server_answers_on_tcp_and_on_its_unix_socket(any_server: Server) -> None:
    any_server.call("SET", "a", "1")
    with redis.Redis.from_url(any_server.unix_url) as client:
        assert client.get("a") == b"1"
    with redis.Redis.from_url(any_server.url) as client:
        assert client.get("a") == b"1"


def test_what_is_in_the_session_server_is_gone_for_the_next_test(valkey: Server) -> None:
    assert valkey.call("DBSIZE") == 0
    valkey.call("SET", "left", "over")


@pytest.mark.parametrize("appendonly", [False, True])
@pytest.mark.parametrize("flavour", SERVERS)
def test_a_killed_server_comes_back_on_its_port_with_what_was_on_disk(
    own_server: Callable[..., Server], flavour: str, appendonly: bool
) -> None:
    server = own_server(flavour, appendonly=appendonly, appendfsync="always")
    port, pid = server.port, server.pid
    server.call("SET", "a", "1")
    server.kill()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    server.start()
    assert (server.port, server.pid != pid) == (port, True)
    assert server.call("GET", "a") == (b"1" if appendonly else None)
    server.call("SET", "a", "1")
    server.restart(keep_data=False)
    assert server.call("GET", "a") is None


@pytest.mark.parametrize("appendonly", [False, True])
@pytest.mark.parametrize("flavour", SERVERS)
def test_a_server_rolled_back_to_a_snapshot_loses_later_writes(
    own_server: Callable[..., Server], flavour: str, appendonly: bool
) -> None:
    server = own_server(flavour, appendonly=appendonly)
    server.call("SET", "a", "old")
    snapshot = server.save_snapshot()
    server.call("SET", "a", "new")
    server.restart_from_snapshot(snapshot)
    assert server.call("GET", "a") == b"old"
    server.restart(gently=True)
    assert server.call("GET", "a") == (b"old" if appendonly else None)


@pytest.mark.parametrize("flavour", SERVERS)
def test_a_stale_replica_is_promoted_without_what_it_missed(
    own_server: Callable[..., Server], proxy: Proxy, flavour: str
) -> None:
    primary, replica = own_server(flavour, requirepass="secret"), own_server(flavour)
    link = proxy(primary)
    replica.replicate_from(primary, via=link.port)
    primary.call("SET", "a", "old")
    replica.wait_until_synced()
    link.refuse()
    link.cut()
    primary.call("SET", "a", "new")
    primary.kill()
    replica.promote()
    assert replica.call("GET", "a") == b"old"
    assert replica.call("SET", "a", "mine") in (b"OK", True)


def test_a_paused_server_is_silent_and_then_answers(own_server: Callable[..., Server]) -> None:
    server = own_server()
    with raw_connection(server.port) as one:
        server.pause()
        with pytest.raises(TimeoutError):
            one.ask("PING", timeout=0.1)
        server.resume()
        assert one.receive() == b"PONG"
    server.pause()
    server.stop()  # also while paused
    assert not server.is_running


def test_a_server_with_users_lets_only_them_in_and_the_test_too(own_server: Callable[..., Server]) -> None:
    server = own_server(user=["default off", "alice on >pw ~* &* +@all"])
    with redis.Redis.from_url(server.url) as without_password, pytest.raises(redis.AuthenticationError):
        without_password.ping()
    with redis.Redis.from_url(server.url_for(username="alice", password="pw")) as alice:
        assert alice.ping()
    assert server.call("ACL", "WHOAMI") == b"test-admin"


def test_a_server_that_cannot_start_says_why() -> None:
    server = Server("valkey9", no_such_option="1")
    with pytest.raises(ServerFailedError, match="no-such-option"):
        server.start()
    server.close()


def test_a_killed_test_run_leaves_no_server_and_no_child() -> None:
    code = """
        import os
        from tests.support.processes import Child
        from tests.support.servers import Server
        server = Server("valkey9").start()
        report(server=server.pid, child=Child.spawn("parent.receive()").pid, directory=str(server.directory))
        parent.receive()
    """
    with Child.spawn(code) as run:
        told = run.read()
        run.kill()
    for pid in (told["server"], told["child"]):
        eventually(lambda pid=pid: not _is_alive(pid))
    subprocess.run(["rm", "-r", told["directory"]], check=True)


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - read in one go, often
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_server_outlives_the_thread_that_started_it() -> None:
    made: list[Server] = []
    starter = threading.Thread(target=lambda: made.append(Server("valkey9").start()))
    starter.start()
    starter.join()
    with made[0] as server:
        assert server.call("PING") in (b"PONG", True)


# Proxy


def test_the_proxy_passes_large_values_both_ways(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    with redis.Redis.from_url(through.url) as client:
        client.set("big", b"\r\n>x" * 1_000_000)
        assert client.get("big") == b"\r\n>x" * 1_000_000
    assert through.connections == 1
    assert min(through.bytes.values()) > 4_000_000
    eventually(lambda: through.open_connections == 0)


def test_a_delay_adds_latency_and_does_not_add_up(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    with raw_connection(through.port) as one:
        through.delay(0.2, "replies")
        started_at = time.monotonic()
        for _ in range(60):
            one.send("PING")
            time.sleep(0.01)  # sixty chunks, not one
        assert [one.receive() for _ in range(60)] == [b"PONG"] * 60
        assert 0.2 <= time.monotonic() - started_at < 10
        through.delay(60)
        through.delay(0)
        started_at = time.monotonic()
        one.ask("PING")
        assert time.monotonic() - started_at < 20


def test_a_stall_of_replies_lets_the_command_happen(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    with raw_connection(through.port) as one:
        through.stall("replies")
        one.send("SET a 1")
        eventually(lambda: valkey.call("GET", "a") == b"1")
        with pytest.raises(TimeoutError):
            one.receive(0.05)
        through.flow()
        assert one.receive() == b"OK"


def test_a_stall_of_requests_delivers_them_late(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    with raw_connection(through.port) as one:
        through.stall("requests")
        with pytest.raises(TimeoutError):
            one.ask("SET a 1", timeout=0.05)
        assert valkey.call("GET", "a") is None
        through.flow()
        assert one.receive() == b"OK"


def test_a_cut_resets_every_connection_and_new_ones_work(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    with raw_connection(through.port) as one, raw_connection(through.port) as two:
        one.ask("PING")
        two.ask("PING")
        through.cut()
        assert through.open_connections == 0
        for each in (one, two):
            with pytest.raises(ConnectionResetError):
                each.receive()
    with raw_connection(through.port) as three:
        assert three.ask("PING") == b"PONG"


def test_refused_connections_fail_and_old_ones_live_on(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    with raw_connection(through.port) as old:
        old.ask("PING")
        through.refuse()
        with pytest.raises(ConnectionRefusedError):
            RawConnection(through.port)
        through.refuse(accept_first=True)
        with pytest.raises(ConnectionResetError), raw_connection(through.port) as new:
            new.receive()
        through.refuse(False)
        with raw_connection(through.port) as new:
            assert new.ask("PING") == b"PONG"
        assert old.ask("PING") == b"PONG"


@pytest.mark.parametrize("flavour", SERVERS)
def test_cut_after_request_loses_the_reply_of_a_command_that_took_effect(
    servers: Any, proxy: Proxy, flavour: str, count: Any
) -> None:
    server = servers.empty(flavour)
    through = proxy(server)
    for n in range(count(full=500, quick=25)):
        with raw_connection(through.port) as one:
            happened = through.cut_after_request(b"$3\r\nyes")
            one.send(f"SET before:{n} 1", f"SET yes {n}", f"SET behind:{n} 1")
            replies = []
            with suppress(ConnectionResetError):
                replies += iter(one.receive, None)
            assert replies in ([], [b"OK"])  # only the request before may have been answered
            # At once, not eventually: the cut is seen only after the command took effect.
            assert server.call("MGET", f"before:{n}", "yes", f"behind:{n}") == [b"1", str(n).encode(), None]
            assert happened.wait(LIMIT)


def test_cut_before_request_loses_the_request(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    with raw_connection(through.port) as one, raw_connection(through.port) as other:
        happened = through.cut_before_request(b"victim")
        assert one.ask("SET other 1") == b"OK"
        one.send("SET victim 1")
        with pytest.raises(ConnectionResetError):
            one.receive()
        assert happened.wait(LIMIT)
        assert valkey.call("EXISTS", "victim") == 0
        assert other.ask("SET victim 1") == b"OK"  # once, and only that connection


def test_a_request_in_pieces_is_still_recognised(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    request = hiredis.pack_command(("SET", "victim", "1"))
    with raw_connection(through.port) as one:
        one.socket.sendall(request[:10])
        eventually(lambda: through.bytes["requests"] == 10)
        through.cut_before_request(b"victim")
        one.socket.sendall(request[10:25])
        time.sleep(0.02)
        one.socket.sendall(request[25:])
        with pytest.raises(ConnectionResetError):
            one.receive()
    assert valkey.call("EXISTS", "victim") == 0


@pytest.mark.parametrize("flavour", SERVERS)
def test_dropped_pushes_never_arrive_and_everything_else_does(
    servers: Any, proxy: Proxy, flavour: str
) -> None:
    server = servers.empty(flavour)
    through = proxy(server)
    with raw_connection(through.port) as one:
        assert one.ask("HELLO 3")
        assert one.ask("SUBSCRIBE news") == [b"subscribe", b"news", 1]
        server.call("PUBLISH", "news", "first")
        assert one.receive() == [b"message", b"news", b"first"]
        through.drop_pushes()
        for n in range(20):
            server.call("PUBLISH", "news", f"lost {n}" * 100)
            assert one.ask(f"ECHO {n}") == str(n).encode()
        assert through.pushes_dropped == 20
        through.drop_pushes(False)
        server.call("PUBLISH", "news", "last")
        assert one.receive() == [b"message", b"news", b"last"]


def test_the_death_of_a_server_behind_the_proxy_closes_connections(
    own_server: Callable[..., Server], proxy: Proxy
) -> None:
    server = own_server()
    through = proxy(server)
    with raw_connection(through.port) as one:
        one.ask("PING")
        server.kill()
        with pytest.raises((EOFError, ConnectionResetError)):
            one.receive()
    with pytest.raises((EOFError, ConnectionResetError)), raw_connection(through.port) as two:
        two.receive()


async def test_the_proxy_can_be_controlled_from_an_async_test(valkey: Server, proxy: Proxy) -> None:
    through = proxy(valkey)
    reader, writer = await asyncio.open_connection("127.0.0.1", through.port)
    writer.write(b"PING\r\n")
    assert await reader.readline() == b"+PONG\r\n"
    through.stall()
    writer.write(b"PING\r\n")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.readline(), 0.05)
    through.cut()
    with pytest.raises(ConnectionResetError):
        await reader.readline()
    writer.close()
    await eventually_async(lambda: through.open_connections == 0)


# TLS


@pytest.mark.parametrize("behind_a_proxy", [False, True])
def test_the_tls_front_is_trusted_with_its_own_ca_only(
    valkey: Server,
    proxy: Proxy,
    tls_front: Callable[..., TlsFront],
    certificates: Certificates,
    tmp_path: Any,
    behind_a_proxy: bool,
) -> None:
    front = tls_front(proxy(valkey) if behind_a_proxy else valkey)
    with redis.Redis.from_url(front.url, ssl_ca_certs=str(certificates.ca_file)) as client:
        client.set("a", b"x" * 300_000)
        assert client.get("a") == b"x" * 300_000
    other = make_certificates(tmp_path / "other")
    with (
        socket.create_connection(("127.0.0.1", front.port)) as raw,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        other.client_context().wrap_socket(raw, server_hostname="localhost")


def test_the_tls_front_can_ask_for_a_client_certificate(
    valkey: Server, tls_front: Callable[..., TlsFront], certificates: Certificates
) -> None:
    front = tls_front(valkey, require_client=True)
    for has_certificate in (True, False):
        context = certificates.client_context(with_certificate=has_certificate)
        with (
            socket.create_connection(("127.0.0.1", front.port), timeout=LIMIT) as raw,
            context.wrap_socket(raw, server_hostname="localhost") as secure,
        ):
            if has_certificate:
                secure.sendall(b"PING\r\n")
                assert secure.recv(100) == b"+PONG\r\n"
            else:
                answer = b""
                with suppress(OSError):
                    secure.sendall(b"PING\r\n")
                    answer = secure.recv(100)
                assert answer == b""


def test_a_server_with_tls_of_its_own(own_server: Callable[..., Server], certificates: Certificates) -> None:
    able = [flavour for flavour in SERVERS if FLAVOURS[flavour].supports_tls]
    if not able:
        pytest.skip("none of this run's servers has TLS of its own; Redis 7 has, see make test-all")
    server = own_server(able[0], tls=certificates)
    with redis.Redis.from_url(server.tls_url, ssl_ca_certs=str(certificates.ca_file)) as client:
        assert client.ping()


# Processes and waiting


def test_a_child_reports_listens_pauses_and_dies(spawn: Callable[..., Child]) -> None:
    def work(parent: Any, start: int) -> None:
        from os import getpid

        n = start
        while True:
            parent.send(pid=getpid(), n=n)
            n += parent.receive()

    child = spawn(work, 40)
    assert child.read() == {"pid": child.pid, "n": 40}
    child.send(2)
    assert child.read()["n"] == 42
    child.pause()
    child.send(1)
    with pytest.raises(AssertionError, match="sent nothing"):
        child.read(timeout=0.05)
    child.resume()
    assert child.read()["n"] == 43
    assert child.kill() == -signal.SIGKILL


async def test_an_async_child_and_one_that_fails(spawn: Callable[..., Child]) -> None:
    async def work(parent: Any) -> None:
        import asyncio

        await asyncio.sleep(0)
        parent.send(done=True)

    child = spawn(work)
    assert await child.aread() == {"done": True}
    assert child.wait() == 0
    broken = spawn("report(args=args); raise RuntimeError('as planned')", 1, "two")
    assert await broken.aread() == {"args": [1, "two"]}
    with pytest.raises(AssertionError, match="as planned"):
        await broken.aread()


async def test_a_failed_wait_names_its_condition() -> None:
    with pytest.raises(AssertionError, match="1 == 2"):
        eventually(lambda: 1 == 2, within=0.02)
    with pytest.raises(AssertionError, match="the moon"):
        await eventually_async(lambda: None, within=0.02, message="the moon")
    assert eventually(lambda: 7) == 7
