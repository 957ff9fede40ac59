"""Grants and renewals that count only once replicas have acknowledged them (S9)."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.documents.host import DictStore
from tests.files.both_sides import file_locks
from tests.integration.test_cancellation import Traffic, left_over
from tests.support.clients import both, client
from tests.support.eventually import LIMIT, eventually_async
from tests.support.replicas import ReplicatedServer

import leasehold
from leasehold import StoreRefused, StoreUnavailable
from leasehold.core.replies import NotAfter, Renewal, Request
from leasehold.documents import DocumentLocks, Editor
from leasehold.documents.store import scripts as document_scripts
from leasehold.documents.store.lock_store import DocumentLockStore
from leasehold.documents.timings import Times
from leasehold.files import FileSettings
from leasehold.files import scripts as file_scripts
from leasehold.files.lock_store import FileLockStore
from leasehold.runtime import clock
from leasehold.valkey import scripts
from leasehold.valkey.once_store import ValkeyOnceStore
from leasehold.valkey.store import ValkeyStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from tests.conftest import Count
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server


TIMEOUT = 2.0
"""Of clients that are to give up; each WAIT takes a quarter of it. Others have `LIMIT`, so that they do not."""

TTL = 600
"""Nothing expires during a test."""

ANA, BOB = Editor("user-ana", "Ana", "tab-1"), Editor("user-bob", "Bob", "tab-1")


@pytest.fixture(scope="module")
def shared() -> Iterator[ReplicatedServer]:
    with ReplicatedServer() as made:
        yield made


@pytest.fixture
def group(shared: ReplicatedServer) -> ReplicatedServer:
    """On Valkey 9, empty, and the replica has all of it."""
    shared.primary.call("FLUSHALL")
    shared.replica.wait_until_synced()
    return shared


async def is_gone(server: Server, *keys: str) -> None:
    await eventually_async(lambda: server.call("EXISTS", *keys) == 0, message=f"{keys} are given back")


# The grant


@pytest.mark.parametrize(
    ("flavour", "kind"), [("valkey9", "async"), ("valkey9", "blocking"), ("redis62", "async")]
)
async def test_an_unacknowledged_grant_is_unknown_leaves_no_record_and_hangs_no_other_client(
    group: ReplicatedServer, flavour: str, kind: str
) -> None:
    """Redisson #4706, #4822: the record stayed, and every other node waited for it."""
    async with AsyncExitStack() as opened:
        servers = group if flavour == "valkey9" else opened.enter_context(ReplicatedServer(flavour))
        locks = await opened.enter_async_context(client(kind, servers.url, timeout=TIMEOUT))
        other = await opened.enter_async_context(leasehold.connect(servers.primary.url))
        before = await locks.acquire("before", ttl=TTL)
        with servers.replica_away():
            asked = [locks.acquire(name, ttl=TTL, wait=wait) for name, wait in (("deal", 0), ("hut", 5))]
            outcomes = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(each) for each in outcomes if not isinstance(each, StoreUnavailable)] == []
            await is_gone(servers.primary, "lock:{deal}", "lock:{hut}")
            lease = await other.acquire("deal", ttl=TTL, wait=0)
            await lease.release()
            # What was acknowledged before is held all the time, and "no" is still an answer.
            assert not before.is_lost
            assert await locks.try_acquire("before", ttl=TTL) is None
        after = await locks.acquire("deal", ttl=TTL, wait=0)
        assert after.fence > lease.fence
        assert servers.replica.call("EXISTS", "lock:{deal}")


async def test_more_replicas_than_there_are_fail_and_leave_no_record(group: ReplicatedServer) -> None:
    url = group.url_for(3)
    async with client("async", url, timeout=TIMEOUT) as one, client("blocking", url, timeout=TIMEOUT) as two:
        outcomes = await asyncio.gather(one.acquire("one"), two.acquire("two"), return_exceptions=True)
        assert [isinstance(each, StoreUnavailable) for each in outcomes] == [True, True]
        await is_gone(group.primary, "lock:{one}", "lock:{two}")


@both
async def test_a_user_who_may_not_wait_is_refused_at_once(
    own_server: Callable[..., Server], kind: str
) -> None:
    server = own_server(user=["limited on >secret ~* &* +@all -wait"])
    url = server.url_for(username="limited", password="secret")
    with pytest.raises(StoreRefused, match=r"may not run the commands that locks need.*wait"):
        async with client(kind, f"{url}?min_replicas=1"):
            pass
    async with client(kind, f"{url}?min_replicas=0") as locks:
        await locks.acquire("deal", ttl=TTL)


@both
async def test_a_grant_that_is_handed_over_counts_only_once_its_claim_is_acknowledged(
    group: ReplicatedServer, kind: str
) -> None:
    async with (
        client(kind, group.url, timeout=LIMIT) as locks,
        leasehold.connect(group.primary.url, timeout=LIMIT) as other,
    ):
        for number in range(2):
            # A lease without renewal is claimed by `acquire`, one with renewal by its first renewal.
            held = await other.acquire("deal", ttl=TTL)
            waiting = asyncio.ensure_future(locks.acquire("deal", ttl=TTL, wait=LIMIT, renew=bool(number)))
            await eventually_async(lambda: group.primary.call("ZCARD", "lock:{deal}:queue") == 1)
            with group.replica_away():
                await held.release()
                # It has the lock, and waits for the replica.
                await eventually_async(lambda: group.blocked_clients() == 1)
                assert not waiting.done()
                assert (await other.inspect("deal")).fence > held.fence
            lease = await waiting
            assert lease.remaining() > TTL / 2
            await lease.release()


@both
async def test_a_grant_that_is_handed_over_while_the_replica_is_away_is_given_back(
    group: ReplicatedServer, kind: str
) -> None:
    async with (
        client(kind, group.url, timeout=TIMEOUT) as locks,
        leasehold.connect(group.primary.url) as other,
    ):
        held = await other.acquire("deal", ttl=TTL)
        waiting = asyncio.ensure_future(locks.acquire("deal", ttl=TTL, wait=None, renew=True))
        await eventually_async(lambda: group.primary.call("ZCARD", "lock:{deal}:queue") == 1)
        with group.replica_away():
            await held.release()
            with pytest.raises(StoreUnavailable):
                await waiting
            await eventually_async(lambda: is_free(other, "deal"))


async def is_free(locks: leasehold.Client, name: str) -> bool:
    return not (await locks.inspect(name)).is_held


# Renewals


@both
async def test_an_unacknowledged_renewal_leaves_the_old_deadline_in_force(
    group: ReplicatedServer, kind: str
) -> None:
    async with client(kind, group.url, timeout=TIMEOUT) as locks:
        lease = await locks.acquire("by hand", ttl=TTL)
        short = await locks.acquire("shorter", ttl=TTL)
        renewed = await locks.acquire("renewed", ttl=3, renew=True)
        until = lease.valid_until
        with group.replica_away():
            with pytest.raises(StoreUnavailable):
                await lease.renew(2 * TTL)
            assert lease.valid_until == until
            assert not lease.is_lost
            # A renewal to a shorter ttl is trusted from the moment it is asked for.
            with pytest.raises(StoreUnavailable):
                await short.renew(TTL / 2)
            assert short.valid_until < until
            assert await renewed.lost(LIMIT) == "expired"
        await lease.renew(2 * TTL)
        assert lease.valid_until > until + TTL / 2
        await lease.release()


# Every verb


class Verbs:
    """Every verb that grants, and what it would leave in the store. Begun while the replica replies."""

    def __init__(self, locks: Any, other: leasehold.Client, root: Path, kind: str) -> None:
        self.locks = locks
        self._other = other
        self._root = root
        self._kind = kind
        self._sessions: list[Any] = []

    async def begin(self) -> dict[str, Callable[[], Coroutine[Any, Any, Any]]]:
        self._client = self.locks if self._kind == "async" else self.locks._thing
        files = file_locks(self._client, self._root, settings=FileSettings(ttl=300, wait=0))
        one, two = [await files.session(name) for name in ("one", "two")]
        self._sessions = [one, two]
        self.reader = await one.acquire_read("upgraded.txt")
        await self._other.acquire("taken", ttl=TTL)
        locks = self.locks
        verbs: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
            "acquire": lambda: locks.acquire("acquired", ttl=TTL),
            "acquire shared": lambda: locks.acquire("shared", ttl=TTL, mode="shared"),
            "try_acquire": lambda: locks.try_acquire("tried", ttl=TTL),
            "take": lambda: locks.take("taken", ttl=TTL),
            "lock": self._lock,
            "lock_all": self._lock_all,
            "once": lambda: locks.once("once", lambda: "done"),
            "first_time": lambda: locks.first_time("first", "1", ttl=TTL),
            "acquire_read": lambda: two.acquire_read("read.txt"),
            "acquire_write": lambda: two.acquire_write("written.txt"),
            "acquire_all": lambda: two.acquire_all([self._root / "a.txt", self._root / "b.txt"]),
            "upgrade": lambda: self.reader.upgrade(wait=0),
        }
        if self._kind == "async":
            verbs |= await self._begin_documents()
        return verbs

    async def _begin_documents(self) -> dict[str, Callable[[], Coroutine[Any, Any, Any]]]:
        names = ("heard", "asked for", "opened", "forced")
        documents = DocumentLocks(self.locks, DictStore(*names), times=Times(ttl=TTL, heartbeat=100))
        await documents.acquire("heard", ANA)
        return {
            "document acquire": lambda: documents.acquire("opened", ANA),
            "document take": lambda: documents.force_take("forced", BOB),
            "document heartbeat": lambda: documents.heartbeat("heard", ANA),
        }

    async def _lock(self) -> None:
        await _enter(self._client.lock("locked", ttl=TTL))

    async def _lock_all(self) -> None:
        await _enter(self._client.lock_all(["several 1", "several 2"], ttl=TTL))


async def _enter(context: Any) -> None:
    if hasattr(context, "__aenter__"):
        async with context:
            pass
    else:
        await asyncio.to_thread(context.__enter__)
        await asyncio.to_thread(context.__exit__, None, None, None)


def records(server: Server) -> list[str]:
    """The keys of locks that are held, of marks and of results."""
    with server.admin(decode_responses=True) as admin:
        keys = admin.scan_iter(count=10_000)
        return sorted(key for key in keys if key.endswith(("}", "}:lock")) and "session" not in key)


@both
@pytest.mark.parametrize("is_away", [True, False], ids=["away", "there"])
async def test_every_verb_is_unknown_while_the_replica_is_away_and_leaves_nothing(
    group: ReplicatedServer, kind: str, is_away: bool, tmp_path: Path
) -> None:
    async with (
        client(kind, group.url, timeout=TIMEOUT) as locks,
        leasehold.connect(group.primary.url) as other,
    ):
        verbs = await Verbs(locks, other, tmp_path, kind).begin()
        if not is_away:
            for name, verb in verbs.items():
                assert await verb() is not False, name
            return
        with group.replica_away():
            outcomes = await asyncio.gather(*[verb() for verb in verbs.values()], return_exceptions=True)
            told = dict(zip(verbs, outcomes, strict=True))
            assert {
                name: type(each) for name, each in told.items() if not isinstance(each, StoreUnavailable)
            } == {}
            # The heartbeat was for a hold that had been granted before, and goes on.
            kept = ["doc_lock:{heard}"] if kind == "async" else []
            await eventually_async(lambda: records(group.primary) == kept)
        # At once, by anybody.
        assert await locks.try_acquire("acquired", ttl=TTL)
        assert await locks.first_time("first", "1", ttl=TTL)


@both
async def test_a_result_that_is_not_replicated_is_unknown_and_kept(
    group: ReplicatedServer, kind: str
) -> None:
    async with client(kind, group.url, timeout=TIMEOUT) as locks:
        try:
            with pytest.raises(StoreUnavailable):
                await locks.once("payout", group.replica.pause, lease_ttl=3)
        finally:
            group.replica.resume()
        assert await locks.once("payout", lambda: "again") is None


# Repetitions over another connection


class Stores:
    """The stores over one connection."""

    def __init__(self, client: leasehold.Client) -> None:
        transport = client.store_access.transport
        self.locks = ValkeyStore(transport, namespace="lock", live=3)
        self.once = ValkeyOnceStore(transport, namespace="lock", live=3)
        self.files = FileLockStore(transport, namespace="file", live=3)
        self.documents = DocumentLockStore(transport, Times(ttl=TTL, heartbeat=100))


TOKEN, OTHER_TOKEN = "t" * 32, "o" * 32


async def begin_requests(stores: Stores) -> dict[str, Callable[[Stores], Coroutine[Any, Any, Any]]]:
    """A request for each script that grants, by the names of the scripts."""
    renewed, _, _ = await acquire(stores.locks, "renewed")
    shortened, _, _ = await acquire(stores.locks, "shortened")
    await acquire(stores.once.leases, "finished")
    await acquire(stores.files, "resumed", OTHER_TOKEN)
    await acquire(stores.files, "upgraded", OTHER_TOKEN, "shared")
    for name in ("beaten", "claimed"):
        await stores.documents.acquire(name, ANA, ask="before", floor=0, move=False)
    await stores.documents.take("claimed", BOB, ask="bob", floor=0, expect_fence=None)
    await stores.documents.release("claimed", ANA, reason="released")
    several = [Request(f"several {n}", TOKEN, n, TTL, 0, '"me"') for n in (1, 2)]
    return {
        "acquire": lambda over: acquire(over.locks, "acquired"),
        "acquire_all": lambda over: over.locks.acquire_all(several, soon()),
        "renew": lambda over: renew(over.locks, Renewal("renewed", TOKEN, renewed, TTL)),
        "shorten": lambda over: over.locks.shorten(Renewal("shortened", TOKEN, shortened, TTL / 2), soon()),
        "take": lambda over: over.locks.take("taken", TOKEN, 1, TTL, 0, '"me"', "exclusive", None, soon()),
        "finish": lambda over: over.once.keep("finished", TOKEN, '"done"', TTL),
        "first_time": lambda over: over.once.mark("marked", "m" * 8, TTL),
        "files resume": lambda over: over.files.resume("resumed", TOKEN, 1, TTL, [OTHER_TOKEN]),
        "files upgrade": lambda over: over.files.upgrade(
            "upgraded", OTHER_TOKEN, TOKEN, 1, TTL, '"me"', 0, soon()
        ),
        "documents acquire": lambda over: over.documents.acquire(
            "opened", ANA, ask="open", floor=0, move=False
        ),
        "documents heartbeat": lambda over: over.documents.heartbeat("beaten", ANA, idle_for=None),
        "documents take": lambda over: over.documents.take(
            "forced", BOB, ask="take", floor=0, expect_fence=None
        ),
        "documents claim": lambda over: over.documents.claim("claimed", ask="bob"),
    }


async def acquire(store: ValkeyStore, name: str, token: str = TOKEN, mode: Any = "exclusive") -> Any:
    return await store.acquire(name, token, 1, TTL, 0, '"me"', mode, 0)


async def renew(store: ValkeyStore, renewal: Renewal) -> Any:
    (reply,) = await store.renew([renewal])
    if isinstance(reply, BaseException):
        raise reply
    return reply


def soon() -> NotAfter:
    return NotAfter(clock.now() + LIMIT)


async def test_a_grant_that_is_repeated_over_another_connection_is_not_taken_for_acknowledged(
    group: ReplicatedServer,
) -> None:
    """The server counts the replicas that have all that a connection has written.

    Of one that has written nothing it says that all replicas have it. So a repetition has to write.
    """
    async with AsyncExitStack() as opened:

        async def stores() -> Stores:
            return Stores(await opened.enter_async_context(leasehold.connect(group.url, timeout=TIMEOUT)))

        first = await stores()
        requests = await begin_requests(first)
        families = {"": scripts, "files ": file_scripts, "documents ": document_scripts}
        granting = {
            f"{f}{s.name}" for f, family in families.items() for s in family.ALL if s.effect == "grant"
        }
        assert set(requests) == granting, "another script grants: add it here"
        # One for each, because the writes of another request would count as well.
        others = {name: await stores() for name in requests}
        with group.replica_away():
            for over in (dict.fromkeys(requests, first), others):
                works = [request(over[name]) for name, request in requests.items()]
                replies = await asyncio.gather(*works, return_exceptions=True)
                counted = {
                    name: reply
                    for name, reply in zip(requests, replies, strict=True)
                    if not isinstance(reply, StoreUnavailable)
                }
                assert counted == {}
        for name, request in requests.items():
            assert await request(others[name]), name


# The two connections of the asynchronous client


async def test_a_hundred_grants_of_one_turn_wait_for_replicas_once(group: ReplicatedServer) -> None:
    async with leasehold.connect(group.url, timeout=LIMIT) as locks:
        before = group.waits()
        leases = await asyncio.gather(*[locks.acquire(f"deal {n}", ttl=TTL) for n in range(100)])
        assert group.waits() - before == 1
        await asyncio.gather(*[lease.release() for lease in leases])
        assert group.waits() - before == 1


async def test_what_is_asked_for_during_a_wait_for_replicas_waits_once_more_and_no_longer(
    group: ReplicatedServer,
) -> None:
    """Else each turn of the event loop would cost the whole time of a WAIT, one after another."""
    async with leasehold.connect(group.url, timeout=LIMIT) as locks:
        before = group.waits()
        with group.replica_away():
            asked = [asyncio.ensure_future(locks.acquire("deal 0", ttl=TTL))]
            await eventually_async(lambda: group.blocked_clients() == 1)
            for n in range(1, 20):
                asked.append(asyncio.ensure_future(locks.acquire(f"deal {n}", ttl=TTL)))
                await asyncio.sleep(0.001)
            cancelled = asked.pop()
            cancelled.cancel()
        await asyncio.gather(*asked)
        assert group.waits() - before == 2
        assert group.primary.call("EXISTS", "lock:{deal 19}", "lock:{deal 19}:fence") == 0, (
            "it was never sent"
        )


@both
async def test_releases_do_not_queue_behind_a_wait_for_replicas(group: ReplicatedServer, kind: str) -> None:
    async with client(kind, group.url, timeout=LIMIT) as locks:
        leases = [await locks.acquire(f"held {n}", ttl=TTL) for n in range(20)]
        with group.replica_away():
            acquiring = asyncio.ensure_future(locks.acquire("deal", ttl=TTL))
            await eventually_async(lambda: group.blocked_clients() == 1)
            for lease in leases:
                await lease.release()
            assert await locks.inspect("held 0")
            assert group.blocked_clients() == 1, "all that was done during one WAIT"
            assert not acquiring.done()
        await (await acquiring).release()


async def test_a_cancelled_acquire_is_undone_behind_its_request(
    group: ReplicatedServer, proxy: Callable[[Server], FaultProxy]
) -> None:
    """On the connection of the grants: over the other one the release would overtake the request."""
    way = proxy(group.primary)

    async def sent(call: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        before = way.bytes["requests"]
        future = asyncio.ensure_future(call)
        await eventually_async(lambda: way.bytes["requests"] > before)
        return future

    async with leasehold.connect(f"{way.url}?min_replicas=1", timeout=LIMIT) as locks:
        await (await locks.acquire("deal", ttl=TTL)).release()
        group.primary.pause()
        try:
            # The server will read all of the first connection before it reads the second one.
            inspecting = await sent(locks.inspect("other"))
            acquiring = await sent(locks.acquire("deal", ttl=TTL))
            before = way.bytes["requests"]
            acquiring.cancel()
            await asyncio.wait({acquiring})
            await eventually_async(lambda: way.bytes["requests"] > before)
        finally:
            group.primary.resume()
        await inspecting
        await is_gone(group.primary, "lock:{deal}")
        assert await is_free(locks, "deal")


async def test_cancelled_calls_never_shift_replies(group: ReplicatedServer, count: Count) -> None:
    calls = count(full=10_000, quick=500)
    async with leasehold.connect(group.url, timeout=LIMIT) as locks:
        traffic = Traffic(locks)
        await traffic.begin()
        await traffic.run(calls)
        await traffic.check()
        await eventually_async(lambda: not left_over(group.primary), message="no key is left over")
        print(traffic.outcomes)


@pytest.mark.parametrize("which", ["plain", "granting"])
async def test_when_one_of_the_two_connections_breaks_both_are_replaced(
    group: ReplicatedServer, which: str
) -> None:
    def ids() -> list[str]:
        lines = group.primary.call("CLIENT", "LIST").decode().splitlines()
        fields = [dict(part.split("=", 1) for part in line.split()) for line in lines]
        ours = [each for each in fields if each["name"] == "pair"]
        # Only the first one subscribes.
        return [each["id"] for each in sorted(ours, key=lambda each: each["sub"], reverse=True)]

    async with leasehold.connect(group.url, timeout=LIMIT, client_name="pair") as locks:
        lease = await locks.acquire("deal", ttl=TTL)
        before = ids()
        assert len(before) == 2
        group.primary.call("CLIENT", "KILL", "ID", before[which == "granting"])
        await eventually_async(lambda: len(ids()) == 2 and not set(ids()) & set(before))
        await lease.renew()
        await lease.release()
        await (await locks.acquire("deal", ttl=TTL, wait=0)).release()


# Others on the same server


@pytest.mark.timeout(300)
async def test_clients_without_min_replicas_are_not_slowed_down(
    group: ReplicatedServer, count: Count
) -> None:
    size = count(full=1000, quick=200)
    async with (
        leasehold.connect(group.url, timeout=LIMIT) as waiting,
        leasehold.connect(group.primary.url, timeout=LIMIT) as locks,
    ):
        leases = await asyncio.gather(
            *[locks.acquire(f"renewed {n}", ttl=30, renew=True) for n in range(size)]
        )
        quiet = await release_times(locks, size)
        before = min(lease.valid_until for lease in leases)
        with group.replica_away():
            acquiring = asyncio.ensure_future(waiting.acquire("deal", ttl=TTL))
            await eventually_async(lambda: group.blocked_clients() == 1)
            disturbed = await release_times(locks, size)
            await asyncio.gather(*[lease.renew() for lease in leases])
            # All of that was done during one WAIT, so nothing has waited for it.
            assert group.blocked_clients() == 1
            assert not acquiring.done()
        assert not any(lease.is_lost for lease in leases)
        assert min(lease.valid_until for lease in leases) > before
        await acquiring
    print(f"release p99 of {size}: quiet {quiet * 1000:.2f} ms, replica away {disturbed * 1000:.2f} ms")


async def release_times(locks: leasehold.Client, size: int) -> float:
    """The 99th percentile of the seconds of so many releases."""
    times: list[float] = []
    for n in range(size):
        lease = await locks.acquire(f"fleeting {n}", ttl=TTL)
        begun_at = time.perf_counter()
        await lease.release()
        times.append(time.perf_counter() - begun_at)
    return sorted(times)[int(size * 0.99)]
