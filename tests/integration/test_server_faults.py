"""Servers that die, refuse, lose their scripts or are no servers: the right error, in time, without a hang."""

from __future__ import annotations

import asyncio
import builtins
import itertools
import re
import socket
import threading
import types
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hiredis
import pytest
import redis
import redis.asyncio
from tests.support.eventually import LIMIT, eventually_async
from tests.support.servers import SERVERS
from tests.support.threads import InThread

import leasehold
from leasehold import (
    LeaseholdError,
    LeaseLost,
    LockBusy,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    blocking,
)
from leasehold.runtime import clock
from leasehold.valkey.transport import handshake

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.conftest import Count
    from tests.support.servers import Server

KINDS = ["async", "blocking"]
LOCK = "lock:{deal}"
SERVICE_PAGE = Path(__file__).parents[2] / "docs/service.md"
SILENCE = 3.0
"""The timeout of a client that is met by silence: long enough to connect on a busy machine."""
PATIENT = 20.0
"""The timeout of a client that gets an answer, also on a busy machine."""


@asynccontextmanager
async def client(kind: str, url: str, *, enter: bool = True, **options: Any) -> AsyncIterator[Any]:
    """A client of the kind; with `enter=False` nothing is sent before its first use."""
    options = {"timeout": PATIENT, **options}
    if kind == "async":
        locks = leasehold.connect(url, **options)
        try:
            yield await locks.__aenter__() if enter else locks
        finally:
            await locks.close()
    else:
        locks = blocking.connect(url, **options)
        try:
            if enter:
                await asyncio.to_thread(locks.__enter__)
            yield InThread(locks)
        finally:
            await asyncio.to_thread(locks.close)


def causes(error: BaseException) -> list[BaseException]:
    """The causes of an error, nearest first."""
    chain: list[BaseException] = []
    while error.__cause__ is not None:
        error = error.__cause__
        chain.append(error)
    return chain


async def failure(
    kind: str, url: str, expected: type[StoreError], came_from: type[BaseException]
) -> StoreError:
    """The error of opening a client, and of using one unopened: the same, with its origin.

    A refusal is raised at once, and silence after the timeout.
    """
    timeout = SILENCE if expected is StoreUnavailable else 2 * LIMIT

    async def fail(*, enter: bool) -> StoreError:
        with pytest.raises(expected) as raised:
            async with asyncio.timeout(LIMIT), client(kind, url, enter=enter, timeout=timeout) as locks:
                await locks.acquire("deal", ttl=5, wait=0)
        assert type(raised.value) is expected
        assert any(isinstance(cause, came_from) for cause in causes(raised.value)), causes(raised.value)
        return raised.value

    return (await asyncio.gather(fail(enter=True), fail(enter=False)))[0]


# Killed and restarted in the middle of traffic


class Holds:
    """Hold windows as reported by the clients, and a checker for them."""

    def __init__(self) -> None:
        self.windows: dict[str, list[tuple[float, float, int]]] = {}
        self.others: list[BaseException] = []
        self.unknown = 0

    def note(self, lease: Any, since: float) -> None:
        """To be called before the release is asked for: the hold ends now, or ended at its deadline."""
        until = min(clock.now(), lease.valid_until)
        self.windows.setdefault(lease.name, []).append((since, until, lease.fence))

    def check(self) -> int:
        for name, windows in self.windows.items():
            windows.sort()
            for (_, until, fence), (since, _, next_fence) in itertools.pairwise(windows):
                assert until <= since, f"{name}: two holders at once, by {until - since} s"
                assert fence < next_fence, f"{name}: fences do not grow"
        return sum(map(len, self.windows.values()))


async def use(locks: Any, names: list[str], holds: Holds, is_over: threading.Event) -> None:
    """One user of the locks, with the three outcomes and no other."""
    n = 0
    while not is_over.is_set():
        name = names[n % len(names)]
        n += 1
        try:
            lease = await locks.acquire(name, ttl=3, wait=0.2)
        except LockBusy:
            continue
        except StoreUnavailable:
            holds.unknown += 1
            continue
        except Exception as other:  # noqa: BLE001 - every error is an outcome to be judged
            holds.others.append(other)
            return
        since = clock.now()
        await asyncio.sleep(0.002)
        holds.note(lease, since)
        try:
            await lease.release()
        except (StoreUnavailable, LeaseLost):
            holds.unknown += 1
        except Exception as other:  # noqa: BLE001 - every error is an outcome to be judged
            holds.others.append(other)
            return


@pytest.mark.parametrize("flavour", SERVERS)
async def test_a_server_killed_and_restarted_in_the_middle_of_traffic_stays_exclusive(
    own_server: Callable[..., Server], flavour: str, count: Count
) -> None:
    server = own_server(flavour, appendonly=True, appendfsync="always")
    holds, is_over = Holds(), threading.Event()
    async with (
        client("async", server.url, timeout=1) as tasks,
        client("blocking", server.url, timeout=1) as threads,
    ):
        names = [f"deal {n}" for n in range(4)]
        users = [asyncio.create_task(use(tasks, names[n % 4 :], holds, is_over)) for n in range(30)]
        users += [asyncio.create_task(use(threads, names[n % 4 :], holds, is_over)) for n in range(4)]
        for _ in range(count(full=10, quick=2)):
            await asyncio.sleep(0.3)
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(0.1)
            await asyncio.to_thread(server.start)
            before = sum(map(len, holds.windows.values()))
            # On its own, and in time: nothing but the holds of before the crash is in the way.
            await eventually_async(lambda b=before: sum(map(len, holds.windows.values())) > b + 20)
        is_over.set()
        await asyncio.gather(*users)
        assert holds.others == []
        assert holds.check() > 40
        print(f"{holds.check()} holds, {holds.unknown} unknown outcomes")


def test_the_checker_catches_two_holders_at_once_and_a_fence_that_falls() -> None:
    for windows in ([(1.0, 2.0, 1), (1.9, 3.0, 2)], [(1.0, 2.0, 7), (2.0, 3.0, 7)]):
        holds = Holds()
        holds.windows["deal"] = windows
        with pytest.raises(AssertionError, match=r"two holders|do not grow"):
            holds.check()


@pytest.mark.parametrize("kind", KINDS)
async def test_an_idle_client_finds_the_restarted_server_by_itself(
    own_server: Callable[..., Server], kind: str
) -> None:
    server = own_server()
    async with client(kind, server.url, timeout=SILENCE) as locks:
        first = await locks.acquire("deal", ttl=5)
        await asyncio.to_thread(server.kill)
        with pytest.raises(StoreUnavailable):
            await locks.acquire("deal", wait=0)
        await asyncio.to_thread(server.start)
        second = await locks.acquire("deal", ttl=5, wait=LIMIT)
        assert second.fence > first.fence


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_dies_in_the_middle_of_a_call_leaves_the_outcome_unknown(
    own_server: Callable[..., Server], kind: str
) -> None:
    server = own_server()
    async with client(kind, server.url, timeout=SILENCE) as locks:
        lease = await locks.acquire("held", ttl=20)
        server.pause()
        calls = [
            asyncio.create_task(call)
            for call in (
                locks.acquire("deal", wait=0),
                locks.try_acquire("other"),
                lease.renew(),
                locks.inspect("deal"),
                locks.take("deal"),
            )
        ]
        await asyncio.sleep(0.1)
        await asyncio.to_thread(server.kill)
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end) for end in ends] == [StoreUnavailable] * len(calls)
        assert all(isinstance(cause, OSError | EOFError) for end in ends for cause in causes(end)[-1:])


# Forgotten scripts (trap 9)


@pytest.mark.parametrize("kind", [*KINDS, "redis-py"])
async def test_scripts_flushed_in_the_middle_of_traffic_are_not_noticed(
    any_server: Server, kind: str, count: Count
) -> None:
    is_over = threading.Event()
    rounds = count(full=300, quick=25)

    def flush_for_ever() -> None:
        with any_server.admin() as admin:
            while not is_over.is_set():
                admin.script_flush()

    async def work(locks: Any, name: str) -> None:
        for _ in range(rounds):
            lease = await locks.acquire(name, ttl=20, wait=0)
            await lease.renew()
            assert (await locks.inspect(name)).fence == lease.fence
            taken = await locks.take(name, ttl=20)
            assert taken.fence > lease.fence
            await taken.release()

    flushing = asyncio.create_task(asyncio.to_thread(flush_for_ever))
    try:
        if kind == "redis-py":
            async with (
                redis.asyncio.Redis.from_url(any_server.url) as existing,
                leasehold.from_client(existing) as locks,
            ):
                await asyncio.gather(*[work(locks, f"deal {n}") for n in range(4)])
        else:
            async with client(kind, any_server.url) as locks:
                await asyncio.gather(*[work(locks, f"deal {n}") for n in range(4)])
    finally:
        is_over.set()
        await flushing


@pytest.mark.parametrize("kind", KINDS)
async def test_scripts_flushed_before_a_batch_of_renewals_lose_no_lease(valkey: Server, kind: str) -> None:
    async with client(kind, valkey.url) as locks:
        leases = [await locks.acquire(f"deal {n}", ttl=9, renew=True) for n in range(150)]
        valid_until = max(lease.valid_until for lease in leases)
        while min(lease.valid_until for lease in leases) <= valid_until:
            valkey.call("SCRIPT", "FLUSH")
            assert not any(lease.is_lost for lease in leases)
            await asyncio.sleep(0.02)
        for lease in leases:
            await lease.release()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_busy_with_a_script_is_unavailable_until_it_is_done(
    own_server: Callable[..., Server], kind: str
) -> None:
    server = own_server(lua_time_limit=20)
    async with client(kind, server.url, timeout=SILENCE) as locks:
        with server.admin() as busy, server.admin() as admin:
            endless = asyncio.create_task(asyncio.to_thread(busy.eval, "while true do end", 0))

            def is_busy() -> bool:
                try:
                    admin.ping()
                except redis.ResponseError as error:
                    return "BUSY" in str(error)
                return False

            await eventually_async(is_busy)
            with pytest.raises(StoreUnavailable):
                await locks.acquire("deal", wait=0)
            admin.script_kill()
            with pytest.raises(redis.ResponseError):
                await endless
        await (await locks.acquire("deal", wait=20)).release()


# Servers that cannot be reached


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_is_down_at_connect_is_unavailable(
    own_server: Callable[..., Server], kind: str
) -> None:
    server = own_server()
    server.kill()
    error = await failure(kind, server.url, StoreUnavailable, ConnectionRefusedError)
    assert str(server.port) in str(error) or "no connection" in str(error)
    await failure(kind, "unix:///nowhere/at/all.sock", StoreUnavailable, FileNotFoundError)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_host_that_does_not_exist_is_unavailable(kind: str) -> None:
    await failure(kind, "redis://no-such-host.invalid:6379", StoreUnavailable, OSError)


@contextmanager
def listener(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Something that listens and is no Redis: its URL."""
    kept: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                kept.append(connection)
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in kept:
                connection.close()


def speak_http(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    connection.close()


def say_nothing(connection: socket.socket) -> None:
    connection.recv(65536)


def close_at_once(connection: socket.socket) -> None:
    connection.close()


def close_after_a_word(connection: socket.socket) -> None:
    connection.recv(10)
    connection.close()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_web_server_is_refused_as_not_being_redis(kind: str) -> None:
    with listener(speak_http) as url:
        error = await failure(kind, url, StoreRefused, hiredis.ProtocolError)
    assert "does not speak the Redis protocol" in str(error)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_silent_server_is_unavailable(kind: str) -> None:
    with listener(say_nothing) as url:
        await failure(kind, url, StoreUnavailable, OSError)  # a TimeoutError is one


@pytest.mark.parametrize("behaviour", [close_at_once, close_after_a_word])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_hangs_up_is_unavailable_and_not_refusing(kind: str, behaviour: Any) -> None:
    """It may be dying, or starting: nothing was said that could be taken for a no."""
    with listener(behaviour) as url:
        error = await failure(kind, url, StoreUnavailable, Exception)
    assert any(isinstance(cause, OSError | EOFError) for cause in causes(error))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tls_connection_to_a_plain_server_fails_in_time(valkey: Server, kind: str) -> None:
    with pytest.raises(StoreError) as raised:
        async with (
            asyncio.timeout(LIMIT),
            client(kind, valkey.url.replace("redis://", "rediss://"), timeout=SILENCE),
        ):
            pass
    assert any(isinstance(cause, OSError) for cause in causes(raised.value))


# Servers that say no


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flavour", SERVERS)
async def test_a_server_out_of_memory_grants_nothing_but_lets_holders_renew_and_release(
    own_server: Callable[..., Server], flavour: str, kind: str
) -> None:
    server = own_server(flavour)
    async with client(kind, server.url) as locks:
        lease = await locks.acquire("held", ttl=20)
        server.call("CONFIG", "SET", "maxmemory", "1000")
        for granting in (locks.acquire("deal", wait=0), locks.try_acquire("deal"), locks.take("deal")):
            with pytest.raises(StoreRefused, match="OOM") as refused:
                await granting
            assert isinstance(refused.value.__cause__, hiredis.ReplyError)
        assert not server.call("EXISTS", LOCK, LOCK + ":fence")
        await lease.renew()
        assert (await locks.inspect("held")).is_held
        await lease.release()
        assert not (await locks.inspect("held")).is_held
    error = await failure(kind, server.url, StoreRefused, hiredis.ReplyError)
    assert "memory" in str(error)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flavour", SERVERS)
async def test_a_read_only_replica_refuses_and_can_be_inspected(
    own_server: Callable[..., Server], flavour: str, kind: str
) -> None:
    primary, replica = own_server(flavour), own_server(flavour)
    replica.replicate_from(primary)
    async with client(kind, primary.url) as locks:
        await locks.acquire("held", ttl=20, holder="me")
        replica.wait_until_synced()
    error = await failure(kind, replica.url, StoreRefused, hiredis.ReplyError)
    assert "read-only replica" in str(error) or "read only replica" in str(error)
    async with client(kind, replica.url) as locks:
        assert (await locks.inspect("held")).holder == "me"


def test_the_errors_of_a_socket_class_of_another_package_are_the_systems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Packages such as gevent replace the class, and raise in modules of their own."""

    def refuse(_socket: socket.socket, _address: Any) -> None:
        raise ConnectionRefusedError("refused")

    in_package = {"__name__": "green.connecting", "__builtins__": builtins}
    namespace = {"connect": types.FunctionType(refuse.__code__, in_package), "__module__": "green.sockets"}
    monkeypatch.setattr(socket, "socket", type("socket", (socket.socket,), namespace))
    locks = blocking.connect("redis://127.0.0.1:1", timeout=SILENCE)
    with pytest.raises(StoreUnavailable, match="refused"):
        locks.acquire("deal")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_wrong_or_missing_password_is_refused_and_never_shown(
    own_server: Callable[..., Server], kind: str
) -> None:
    server = own_server(requirepass="right", user=["alice on >wonderland ~* &* +@all"])
    for url in (
        server.url_for(password="canary-1"),
        server.url_for(username="alice", password="canary-2"),
        server.url_for(username="nobody", password="canary-3"),
        server.url,
    ):
        error = await failure(kind, url, StoreRefused, hiredis.ReplyError)
        assert "password" in str(error)
        assert not any("canary" in str(each) for each in (error, *causes(error)))
    for url in (server.url_for(password="right"), server.url_for(username="alice", password="wonderland")):
        async with client(kind, url) as locks:
            await (await locks.acquire("deal")).release()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rights", ["~* -@all", "~* +@all -evalsha -eval", "~other:* +@all"])
async def test_a_user_without_the_rights_that_locks_need_is_refused(
    own_server: Callable[..., Server], kind: str, rights: str
) -> None:
    server = own_server(user=[f"bob on >pw {rights}"])
    error = await failure(
        kind, server.url_for(username="bob", password="pw"), StoreRefused, hiredis.ReplyError
    )
    assert "permission" in str(error).lower() or "may not" in str(error)


def documented_rights(flavour: str) -> str:
    found = re.search(r"^  - locks: `([^`]+)`$", SERVICE_PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return found[1] if flavour == "valkey9" else found[1].replace(" +delifeq", "")


@pytest.mark.parametrize("flavour", SERVERS)
@pytest.mark.parametrize("rights", ["as documented", "for an earlier version"])
async def test_a_user_with_the_documented_rights_may_do_everything(
    own_server: Callable[..., Server], flavour: str, rights: str
) -> None:
    allowed = documented_rights(flavour)
    if rights == "for an earlier version":
        allowed = allowed.replace(" +getex", "").replace(" +hrandfield", "")
    server = own_server(flavour, user=[f"bob on >pw ~idempotency:* resetchannels {allowed}"])
    url = server.url_for(username="bob", password="pw")
    async with client("async", url) as locks, client("async", url) as rival, client("blocking", url) as other:
        for mode in ("exclusive", "shared"):
            lease = await locks.acquire("deal", mode=mode, ttl=30)
            waiting = [asyncio.create_task(rival.acquire("deal", wait=LIMIT, ttl=30)) for _ in range(2)]
            await eventually_async(lambda: server.call("ZCARD", f"{LOCK}:queue") == 2)
            await lease.renew(60)
            await lease.renew(10)
            await lease.release()
            for _ in waiting:
                done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                waiting = list(still)
                await (await done.pop()).release()
        await locks.acquire("deal")
        await (await rival.take("deal")).release()
        async with locks.lock_all(["a", "b"]):
            assert {info.name async for info in locks.list()} == {"a", "b"}
        assert await other.once("pay", lambda: 42) == 42
        assert await locks.once("pay", lambda: 43) == 42
        assert await locks.first_time("pay", "1")
        assert not (await locks.inspect("deal")).is_held


@pytest.mark.parametrize("flavour", SERVERS)
async def test_a_user_that_may_not_run_getex_renews_all_the_same(
    own_server: Callable[..., Server], flavour: str
) -> None:
    """The rights of a user who was set up for an earlier version."""
    server = own_server(flavour, user=["bob on >pw ~* &* +@all -getex"])
    async with client("async", server.url_for(username="bob", password="pw")) as locks:
        lease = await locks.acquire("deal", ttl=5)
        await lease.renew(ttl=60)
        assert server.call("PTTL", "lock:{deal}") > 30_000
        assert server.call("TTL", "lock:{deal}:fence") > 100_000
        await lease.release()


# Servers that may throw locks away (trap 11)


@pytest.fixture
def fresh_warnings() -> None:
    """Each warning is given once for each server, and ports are used again."""
    handshake._warn.cache_clear()


@pytest.mark.usefixtures("fresh_warnings")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("flavour", SERVERS)
async def test_a_server_that_evicts_keys_is_refused_unless_allowed(
    own_server: Callable[..., Server], flavour: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server(flavour, maxmemory="100mb", maxmemory_policy="allkeys-lru")
    with pytest.raises(StoreRefused, match="maxmemory-policy allkeys-lru"):
        async with client(kind, server.url):
            pass
    caplog.clear()
    async with client(kind, server.url, allow_eviction=True) as locks:
        await (await locks.acquire("deal")).release()
    assert "evicts keys (allkeys-lru)" in caplog.text
    server.call("CONFIG", "SET", "maxmemory", "0")  # then nothing is ever evicted
    async with client(kind, server.url) as locks:
        await (await locks.acquire("deal")).release()


@pytest.mark.usefixtures("fresh_warnings")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_does_not_show_its_policy_is_used_with_a_warning(
    own_server: Callable[..., Server], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = own_server(user=["bob on >pw ~* &* +@all -info -config"])
    async with client(kind, server.url_for(username="bob", password="pw")) as locks:
        await (await locks.acquire("deal")).release()
    assert "does not show its eviction policy" in caplog.text


@pytest.mark.usefixtures("fresh_warnings")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_without_persistence_is_used_with_a_warning(
    own_server: Callable[..., Server], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client(kind, own_server().url):
        pass
    assert "no append-only file" in caplog.text
    caplog.clear()
    async with client(kind, own_server(appendonly=True).url):
        pass
    assert caplog.text == ""


async def test_every_failure_is_an_error_of_the_tree(own_server: Callable[..., Server]) -> None:
    """A borrowed client's errors are translated too."""
    server = own_server(requirepass="right")
    for url, expected in (
        (server.url, StoreRefused),
        (server.url_for(password="wrong"), StoreRefused),
        ("redis://127.0.0.1:1", StoreUnavailable),
    ):
        with redis.Redis.from_url(url) as existing, pytest.raises(expected) as raised:
            leasehold.from_client(existing, timeout=0.3).acquire("deal", wait=0)
        assert isinstance(raised.value, LeaseholdError)
        assert any(isinstance(cause, redis.RedisError) for cause in causes(raised.value))
        async with redis.asyncio.Redis.from_url(url) as existing:
            locks = leasehold.from_client(existing, timeout=0.3)
            with pytest.raises(expected) as raised:
                await locks.acquire("deal", wait=0)
            await locks.close()
        assert any(isinstance(cause, redis.RedisError) for cause in causes(raised.value))
