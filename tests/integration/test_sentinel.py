"""Locks on a primary that sentinels monitor: how it is found, and errors that name what is wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clients import both, client, insist
from tests.support.eventually import LIMIT, eventually, eventually_async
from tests.support.scripted_sentinel import ScriptedSentinel
from tests.support.sentinels import SERVICE, Monitored
from tests.support.servers import SERVERS

import leasehold
from leasehold import StoreError, StoreRefused, StoreUnavailable, blocking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Server
    from tests.support.tls import Certificates, TlsFront

CANARY = "yellow-bird"


@pytest.fixture(scope="module")
def monitored() -> Iterator[Monitored]:
    """Not to be failed over."""
    with Monitored() as group:
        yield group


@pytest.fixture
def scripted() -> Iterator[Callable[[Server], ScriptedSentinel]]:
    """`scripted(server)`: a sentinel that names this server."""
    with ExitStack() as made:
        yield lambda server: made.enter_context(ScriptedSentinel(SERVICE, server.port))


def url_of(*sentinels: Any, scheme: str = "redis+sentinel", options: str = "") -> str:
    hosts = ",".join(f"127.0.0.1:{each.port}" for each in sentinels)
    return f"{scheme}://{hosts}/{SERVICE}{options}"


def is_connected(server: Server, name: str) -> bool:
    return f"name={name} " in server.call("CLIENT", "LIST").decode()


# Found


@both
async def test_a_lock_is_held_on_the_primary(monitored: Monitored, kind: str) -> None:
    async with client(kind, monitored.url) as locks:
        lease = await locks.acquire("deal", ttl=20)
        assert monitored.primary.call("EXISTS", "lock:{deal}")
        await lease.release()


@both
async def test_sentinels_that_do_not_reply_are_passed_over(monitored: Monitored, kind: str) -> None:
    silent, gone, alive = monitored.sentinels
    url = monitored.url_for(silent, gone, alive)
    silent.pause()
    gone.kill()
    try:
        async with client(kind, url, timeout=8) as locks:
            await (await locks.acquire("deal", ttl=20)).release()
    finally:
        silent.resume()
        gone.start()


@both
@pytest.mark.parametrize("lie", ["nothing listens there", "a replica"])
async def test_a_sentinel_that_names_no_primary_is_asked_last(
    monitored: Monitored, scripted: Callable[[Server], ScriptedSentinel], kind: str, lie: str
) -> None:
    liar = scripted(monitored.replicas[0])
    liar.epoch = 0
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        if lie == "nothing listens there":
            liar.primary = closed.getsockname()
        async with client(kind, url_of(liar, *monitored.sentinels), timeout=LIMIT) as locks:
            await (await locks.acquire("deal", ttl=20)).release()


@both
async def test_a_sentinel_that_missed_a_fail_over_is_believed_only_if_no_other_knows_of_it(
    own_server: Callable[..., Server], scripted: Callable[[Server], ScriptedSentinel], kind: str
) -> None:
    former, present = own_server(), own_server()
    stale, current = scripted(former), scripted(present)
    stale.epoch, current.epoch = 4, 5
    async with client(kind, url_of(current, stale), timeout=LIMIT, client_name="one") as locks:
        assert is_connected(present, "one")
        for _ in range(3):
            await eventually_async(lambda: bool(current.subscribers))
            current.drop_subscribers()  # so that the stale one is asked first
            present.call("CLIENT", "KILL", "TYPE", "normal")
            await (await insist(locks, "deal")).release()
            assert not is_connected(former, "one")
        # All sentinels were set up anew.
        stale.epoch = current.epoch = 0
        current.primary = ("127.0.0.1", former.port)
        present.call("CLIENT", "KILL", "TYPE", "normal")

        async def is_moved() -> bool:
            await (await insist(locks, "deal")).release()
            return is_connected(former, "one")

        await eventually_async(is_moved)


@both
async def test_sentinels_that_exist_no_more_are_forgotten(
    valkey: Server, scripted: Callable[[Server], ScriptedSentinel], kind: str
) -> None:
    one = scripted(valkey)
    async with client(kind, url_of(one), client_name="one") as locks:
        for gone in range(1, 40):
            one.others = [gone]
            valkey.call("CLIENT", "KILL", "TYPE", "normal")
            await (await insist(locks, "deal")).release()
        finder = getattr(locks, "_thing", locks).store_access.transport._options.finder
        eventually(lambda: len(finder._sentinels) <= 2)


@both
@pytest.mark.parametrize("host", ["::1", "localhost"])
async def test_sentinels_may_name_hosts_by_ipv6_addresses_and_by_names(host: str, kind: str) -> None:
    with Monitored(replicas=0, sentinels=1, host=host) as group:
        async with client(kind, group.url) as locks:
            await (await locks.acquire("deal", ttl=20)).release()


@both
async def test_sentinels_and_servers_are_reached_over_tls(
    valkey: Server,
    scripted: Callable[[Server], ScriptedSentinel],
    tls_front: Callable[..., TlsFront],
    certificates: Certificates,
    kind: str,
) -> None:
    sentinel = scripted(valkey)
    sentinel.primary = ("127.0.0.1", tls_front(valkey).port)
    url = url_of(tls_front(sentinel.port), scheme="rediss+sentinel")
    async with client(kind, f"{url}?ssl_ca_certs={certificates.ca_file}") as locks:
        await (await locks.acquire("deal", ttl=20)).release()
    with pytest.raises(StoreRefused, match="certificate that cannot be trusted"):
        async with client(kind, url):
            pass


@both
async def test_each_grant_reads_the_clock_though_there_is_no_replica_yet(kind: str) -> None:
    with Monitored(replicas=0, sentinels=1) as group:
        async with client(kind, group.url) as locks:
            fences = []
            for _ in range(3):
                lease = await locks.acquire("deal", ttl=20)
                fences.append(lease.fence)
                await lease.release()
    assert fences[0] + 1 < fences[1]
    assert fences[1] + 1 < fences[2]


# Watched


@both
async def test_a_switch_is_followed_at_once_also_while_connecting_to_the_former_primary(
    own_server: Callable[..., Server], scripted: Callable[[Server], ScriptedSentinel], kind: str
) -> None:
    former, present = own_server(), own_server()
    sentinel = scripted(former)
    async with client(kind, url_of(sentinel), timeout=LIMIT, client_name="one") as locks:
        await eventually_async(lambda: bool(sentinel.subscribers))
        former.pause()
        try:
            if kind == "async":
                # It connects to the silent server, which would take a minute to fail.
                locks.store_access.transport.reset()
                searches = sentinel.searches
                await eventually_async(lambda: sentinel.searches > searches)
            sentinel.primary, sentinel.epoch = ("127.0.0.1", present.port), 2
            sentinel.publish_switch(former.port)
            await (await insist(locks, "deal")).release()
            assert is_connected(present, "one")
        finally:
            former.resume()


@both
async def test_sentinels_that_refuse_subscriptions_are_reported_and_tried_again(
    valkey: Server,
    scripted: Callable[[Server], ScriptedSentinel],
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    sentinel = scripted(valkey)
    sentinel.refuses_subscriptions = True
    with caplog.at_level(logging.WARNING, "leasehold"):
        async with client(kind, url_of(sentinel)) as locks:
            await (await locks.acquire("deal", ttl=20)).release()
            await eventually_async(lambda: "only by the primary's silence" in caplog.text)
            sentinel.refuses_subscriptions = False
            await eventually_async(lambda: bool(sentinel.subscribers))


async def test_a_search_needs_no_thread_and_ends_with_the_client(monitored: Monitored) -> None:
    loop = asyncio.get_running_loop()
    executor = ThreadPoolExecutor(1)
    loop.set_default_executor(executor)
    release = threading.Event()
    busy = loop.run_in_executor(None, release.wait)
    for sentinel in monitored.sentinels:
        sentinel.pause()
    try:
        locks = leasehold.connect(monitored.url, timeout=4 * LIMIT)
        searching = asyncio.create_task(locks.acquire("deal"))
        await eventually_async(lambda: bool(locks.store_access.transport._to_others))  # type: ignore[attr-defined]
        await locks.close()
        with pytest.raises(leasehold.LeaseholdError):
            await searching
    finally:
        for sentinel in monitored.sentinels:
            sentinel.resume()
    try:
        async with leasehold.connect(monitored.url) as locks:
            await (await locks.acquire("deal")).release()
    finally:
        release.set()
        await busy


def peers() -> set[int]:
    """The ports that sockets of this process are connected to."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as copy:
            if copy.family == socket.AF_INET:
                found.add(copy.getpeername()[1])
    return found


@both
async def test_a_forked_child_has_no_connection_to_a_sentinel(
    valkey: Server, scripted: Callable[[Server], ScriptedSentinel], kind: str
) -> None:
    sentinel = scripted(valkey)
    async with client(kind, url_of(sentinel)):
        await eventually_async(lambda: bool(sentinel.subscribers))
        assert sentinel.port in peers()

        def has_none_in_a_child() -> bool:
            child = os.fork()
            if child == 0:
                os._exit(1 if {sentinel.port, valkey.port} & peers() else 0)
            _, status = os.waitpid(child, 0)
            return os.waitstatus_to_exitcode(status) == 0

        # Not always at first: a thread that is just connecting cannot be followed into the child.
        await eventually_async(has_none_in_a_child)


# Refused


@both
async def test_a_service_that_the_sentinels_do_not_know_is_refused_with_those_they_know(
    monitored: Monitored, kind: str
) -> None:
    with pytest.raises(StoreRefused, match=rf"knows no service 'lokcs'; it knows: {SERVICE}"):
        async with client(kind, monitored.url.replace(f"/{SERVICE}", "/lokcs")):
            pass


@both
async def test_a_server_that_is_no_sentinel_is_named(monitored: Monitored, kind: str) -> None:
    with pytest.raises(StoreRefused, match=f"127.0.0.1:{monitored.primary.port} is not a sentinel"):
        async with client(kind, monitored.url_for(monitored.primary)):
            pass


@both
async def test_a_sentinel_in_the_url_of_one_server_is_named(monitored: Monitored, kind: str) -> None:
    with pytest.raises(StoreRefused, match="is a sentinel: name it in"):
        async with client(kind, f"redis://127.0.0.1:{monitored.sentinels[0].port}"):
            pass


@both
async def test_a_primary_that_cannot_be_reached_is_named(
    valkey: Server, scripted: Callable[[Server], ScriptedSentinel], kind: str
) -> None:
    sentinel = scripted(valkey)
    with socket.socket() as full:
        # Nothing accepts, so a connection is neither made nor refused.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        sentinel.primary = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(sentinel.primary)
        with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{sentinel.primary[1]}"):
            async with client(kind, url_of(sentinel), timeout=0.5):
                pass
        for each in waiting:
            each.close()


@both
async def test_the_password_of_sentinels_is_told_apart_from_that_of_the_servers(kind: str) -> None:
    with Monitored(replicas=0, sentinels=1, password="open-sesame") as group:
        async with client(kind, group.url) as locks:
            await (await locks.acquire("deal", ttl=20)).release()
        with pytest.raises(StoreRefused, match=r"sentinel .* does not accept this login"):
            async with client(kind, group.url.replace("open-", "close-")):
                pass
        with pytest.raises(StoreRefused, match="the server does not accept this user name and password"):
            async with client(kind, group.url.replace("://", "://somebody:xyzzy@")):
                pass


@both
async def test_no_password_is_in_a_message_a_cause_or_the_log(
    own_server: Callable[..., Server], caplog: pytest.LogCaptureFixture, kind: str, full: bool
) -> None:
    """Each thing that may be wrong with a URL, with canaries as both passwords."""
    if kind == "blocking" and not full:
        pytest.skip("only with --full")
    repeats_what_it_was_sent = own_server("redis62", rename_command=['AUTH ""', 'HELLO ""'])
    servers, sentinels = f"{CANARY}1", f"sentinel_password={CANARY}2"
    told = []
    with pytest.raises(StoreRefused, match="too old") as wrong:
        async with client(kind, repeats_what_it_was_sent.url_for(password=servers)):
            pass
    told.append("".join(traceback.format_exception(wrong.value)))
    with Monitored(replicas=0, sentinels=1, password="right") as group, caplog.at_level(logging.DEBUG):
        (sentinel,) = group.sentinels
        for address, options in (
            (sentinel, sentinels),
            (sentinel, "sentinel_password=right"),
            (group.primary, sentinels),
            (repeats_what_it_was_sent, sentinels),
        ):
            hosts = f"127.0.0.1:{address.port},127.0.0.1:1,127.0.0.1:{address.port}"
            for service in (SERVICE, "other"):
                url = f"redis+sentinel://user:{servers}@{hosts}/{service}?{options}"
                with pytest.raises(StoreError) as wrong:
                    async with client(kind, url, timeout=0.5):
                        pass
                told.append("".join(traceback.format_exception(wrong.value)))
    assert len(told) == 9
    assert CANARY not in "".join(told) + caplog.text


@both
@pytest.mark.parametrize("flavour", SERVERS)
async def test_a_server_that_is_demoted_and_promoted_again_is_waited_for(
    flavour: str, kind: str, full: bool
) -> None:
    """Redis 6.2 wraps READONLY in another text. It is no refusal here: a primary will be found."""
    if flavour != "redis62" and not full:
        pytest.skip("only with --full")
    with Monitored(flavour, replicas=1, sentinels=1) as group:
        async with client(kind, group.url, timeout=2) as locks:
            before = await locks.acquire("deal", ttl=20)
            (replica,) = group.replicas
            replica.wait_until_synced()
            replica.promote()
            group.primary.replicate_from(replica)
            group.primary.wait_until_synced()
            with pytest.raises(StoreUnavailable):
                await locks.acquire("other", wait=0)
            group.primary.promote()
            after = await insist(locks, "other")
            taken = await locks.take("deal", ttl=20)
            assert taken.fence > before.fence
            await taken.release()
            await after.release()


@both
async def test_a_primary_with_too_few_replicas_is_no_refusal(
    valkey: Server, scripted: Callable[[Server], ScriptedSentinel], kind: str
) -> None:
    async with client(kind, url_of(scripted(valkey)), timeout=0.5) as locks:
        valkey.call("CONFIG", "SET", "min-replicas-to-write", 1)
        try:
            with pytest.raises(StoreUnavailable, match="NOREPLICAS"):
                await locks.acquire("deal", wait=0)
        finally:
            valkey.call("CONFIG", "SET", "min-replicas-to-write", 0)
        await (await insist(locks, "deal")).release()


def test_closing_a_client_whose_threads_search_ends_at_once(monitored: Monitored) -> None:
    locks = blocking.connect(monitored.url, timeout=LIMIT)
    with locks.lock("deal"):
        pass
    locks.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("leasehold")]
