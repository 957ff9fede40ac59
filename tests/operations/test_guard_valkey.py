"""Keys refuse a fence that is older than the newest they have seen: Valkey and Redis, redis-py's sync and async clients."""

from __future__ import annotations

import inspect
import re
from contextlib import asynccontextmanager
from importlib import resources
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.support.eventually import LIMIT, eventually_async
from tests.unit import test_lua_headers as headers

import leasehold
from leasehold import InvalidRequest, LeaseLost, StaleFence, StoreRefused, StoreUnavailable
from leasehold.operations.guards import valkey as guards
from leasehold.operations.guards.valkey import guard_key, guarded_get, guarded_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server

DAY_MS = 86_400_000


async def settle(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


class Side:
    """One kind of client on one server."""

    def __init__(self, server: Server, kind: str) -> None:
        self.server = server
        self.is_async = kind == "async"

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Any]:
        module: Any = redis.asyncio if self.is_async else redis
        client = module.Redis.from_url(self.server.url, **options)
        try:
            yield client
        finally:
            await settle(client.aclose() if self.is_async else client.close())


@pytest.fixture(params=["async", "blocking"])
def side(request: pytest.FixtureRequest, any_server: Server) -> Side:
    return Side(any_server, request.param)


async def test_a_newer_fence_writes_and_an_older_one_is_refused(side: Side) -> None:
    async with side.client() as client:
        await settle(guarded_set(client, "balance", "90", 7))
        with pytest.raises(StaleFence) as refused:
            await settle(guarded_set(client, "balance", "1", 6))
        assert (refused.value.seen, refused.value.given) == (7, 6)
        with pytest.raises(StaleFence) as refused:
            await settle(guarded_get(client, "balance", 6))
        assert (refused.value.seen, refused.value.given) == (7, 6)
        await settle(guarded_set(client, "balance", "80", 7))  # the same holder again
        assert await settle(guarded_get(client, "balance", 7)) == b"80"
        assert await settle(client.get("balance")) == b"80"  # a plain string for other programs


async def test_fences_as_large_as_real_ones_are_compared_exactly(side: Side) -> None:
    async with side.client() as client:
        await settle(guarded_set(client, "balance", "90", 2**52 - 1))
        with pytest.raises(StaleFence) as refused:
            await settle(guarded_set(client, "balance", "1", 2**52 - 2))
        assert refused.value.seen == 2**52 - 1
        await settle(guarded_set(client, "as numbers", "1", 9))
        await settle(guarded_set(client, "as numbers", "2", 10))
        for fence in (9, 2):
            with pytest.raises(StaleFence):
                await settle(guarded_set(client, "as numbers", "3", fence))


async def test_an_older_holder_cannot_write_between_a_newer_ones_read_and_write(side: Side) -> None:
    async with side.client() as client:
        await settle(client.set("balance", 100))
        assert await settle(guarded_get(client, "balance", 1)) == b"100"
        assert await settle(guarded_get(client, "balance", 2)) == b"100"
        with pytest.raises(StaleFence):
            await settle(guarded_set(client, "balance", 110, 1))
        await settle(guarded_set(client, "balance", 110, 2))


async def test_a_fence_that_is_compared_only_at_the_write_loses_an_acknowledged_update(side: Side) -> None:
    """The negative control: the same sequence with a plain read."""
    async with side.client() as client:
        await settle(client.set("balance", 100))
        await settle(client.get("balance"))
        await settle(client.get("balance"))
        await settle(guarded_set(client, "balance", 110, 1))
        await settle(guarded_set(client, "balance", 110, 2))
        assert await settle(client.get("balance")) == b"110"  # two acknowledged additions of ten


async def test_values_come_back_as_the_client_gives_them(side: Side) -> None:
    async with side.client() as client:
        assert await settle(guarded_get(client, "nothing", 1)) is None
        for value, stored in [
            (b"\xff\x00", b"\xff\x00"),
            ("héé", "héé".encode()),
            (5, b"5"),
            (0.5, b"0.5"),
            ("", b""),
        ]:
            await settle(guarded_set(client, "value", value, 1))
            assert await settle(guarded_get(client, "value", 1)) == stored
    async with side.client(decode_responses=True) as client:
        await settle(guarded_set(client, "value", "héé", 1))
        assert await settle(guarded_get(client, "value", 1)) == "héé"
        with pytest.raises(StaleFence):
            await settle(guarded_set(client, "value", "x", 0))


async def test_a_lease_presents_its_own_fence_and_shared_ones_are_not_registered(side: Side) -> None:
    async with leasehold.connect(side.server.url, timeout=LIMIT) as locks, side.client() as client:
        async with locks.lock("balance", ttl=60) as lease:
            await settle(guarded_set(client, "balance", "90", lease))
        with pytest.raises(LeaseLost):
            await settle(guarded_set(client, "balance", "1", lease))
        async with locks.lock("balance", ttl=60, mode="shared") as reader:
            assert await settle(guarded_get(client, "balance", reader)) == b"90"
            assert await settle(guarded_get(client, "balance", lease.fence)) == b"90"
            await settle(guarded_set(client, "balance", "91", reader))
            assert await settle(guarded_get(client, "balance", lease.fence)) == b"91"
        await settle(guarded_get(client, "balance", reader.fence + 1))
        with pytest.raises(StaleFence):
            await settle(guarded_get(client, "balance", reader.fence, mode="shared"))


async def test_a_server_that_lost_the_scripts_gets_them_again(side: Side) -> None:
    async with side.client() as client:
        await settle(guarded_set(client, "balance", "90", 7))
        side.server.call("SCRIPT", "FLUSH")
        await settle(guarded_set(client, "balance", "80", 7))
        side.server.call("SCRIPT", "FLUSH")
        assert await settle(guarded_get(client, "balance", 7)) == b"80"


# How long things are kept.


async def test_the_fence_expires_two_days_after_its_last_use_and_the_value_with_its_ttl(side: Side) -> None:
    async with side.client() as client:
        await settle(guarded_set(client, "kept", "1", 7))
        await settle(guarded_set(client, "passing", "1", 7, ttl=60))
        await settle(guarded_set(client, "long", "1", 7, ttl=5 * 86400))
        await settle(guarded_set(client, "short", "1", 7, remember=60))
        await settle(guarded_get(client, "absent", 7))

        def left_ms(key: str | bytes) -> int:
            return side.server.call("PTTL", key)

        assert left_ms("kept") == -1  # as with SET
        assert 0 < left_ms("passing") <= 60_000
        for key in ("kept", "passing", "absent"):
            assert DAY_MS < left_ms(guard_key(key)) <= 2 * DAY_MS
        assert left_ms(guard_key("long")) >= left_ms("long") > 4 * DAY_MS
        assert 0 < left_ms(guard_key("short")) <= 60_000
        # Reading for a shorter time, or with a shorter ttl, never makes the fence shorter-lived than the value.
        await settle(guarded_get(client, "long", 7, remember=1))
        assert left_ms(guard_key("long")) > 4 * DAY_MS
        side.server.call("PEXPIRE", guard_key("kept"), 1_000_000)
        await settle(guarded_get(client, "kept", 7))
        assert left_ms(guard_key("kept")) > DAY_MS


# Slots.


@pytest.mark.parametrize(
    ("key", "beside"),
    [
        ("balance", b"guard:{balance}"),
        ("{balance}", b"{balance}:guard"),
        ("balance:{42}", b"balance:{42}:guard"),
        (b"balance:{42}:usd", b"balance:{42}:usd:guard"),
        ("{a}{b}", b"{a}{b}:guard"),
        ("open{brace", b"guard:{open{brace}"),
        ("a}b{c}", b"a}b{c}:guard"),
        ("héé", "guard:{héé}".encode()),
    ],
)
def test_the_fence_is_stored_in_the_slot_of_the_value(
    valkey: Server, key: str | bytes, beside: bytes
) -> None:
    assert guard_key(key) == beside
    slots = {
        redis.cluster.key_slot(name if isinstance(name, bytes) else name.encode()) for name in (key, beside)
    }
    assert len(slots) == 1


@pytest.mark.parametrize("key", ["", b"", None, 42, "{}", "{}a", "a}b", "}{", "a}"])
def test_a_key_that_cannot_be_guarded_is_refused(valkey: Server, key: Any) -> None:
    with valkey.admin() as client, pytest.raises(InvalidRequest):
        guarded_set(client, key, "1", 7)


async def test_it_works_on_a_cluster(own_server: Callable[..., Server]) -> None:
    server = own_server("valkey9", cluster_enabled=True, user=["default on nopass ~* &* +@all"])
    server.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    await _until_cluster_is_up(server)
    blocking = redis.RedisCluster(host="127.0.0.1", port=server.port)
    asynchronous = redis.asyncio.RedisCluster(host="127.0.0.1", port=server.port)
    try:
        for key in ("balance", "balance:{42}", "open{brace"):
            guarded_set(blocking, key, "90", 7)
            assert await guarded_get(asynchronous, key, 8) == b"90"
            with pytest.raises(StaleFence):
                guarded_set(blocking, key, "1", 7)
    finally:
        blocking.close()
        await asynchronous.aclose()


async def _until_cluster_is_up(server: Server) -> None:
    await eventually_async(lambda: b"cluster_state:ok" in _as_bytes(server.call("CLUSTER", "INFO")))


def _as_bytes(answer: Any) -> bytes:
    return answer if isinstance(answer, bytes) else str(answer).replace("'", "").replace(": ", ":").encode()


# What goes wrong.


@pytest.mark.parametrize("fence", [True, "7", -1, 7.0, None, 2**53])
async def test_an_invalid_fence_is_refused(side: Side, fence: Any) -> None:
    async with side.client() as client:
        with pytest.raises(InvalidRequest, match="a fence is a lease or a whole number"):
            await settle(guarded_set(client, "balance", "1", fence))
        with pytest.raises(InvalidRequest, match="a fence is a lease or a whole number"):
            await settle(guarded_get(client, "balance", fence))
        assert await settle(client.exists("balance")) == 0


async def test_other_bad_arguments_are_refused(side: Side) -> None:
    async with side.client() as client:
        for value in (None, True, [1], {"a": 1}, object()):
            with pytest.raises(InvalidRequest, match="a value is text, bytes or a number"):
                await settle(guarded_set(client, "balance", value, 7))
        for time in (0, -1, "60", True, float("nan"), float("inf")):
            with pytest.raises(InvalidRequest, match="ttl must be a number"):
                await settle(guarded_set(client, "balance", "1", 7, ttl=time))
            with pytest.raises(InvalidRequest, match="remember must be a number"):
                await settle(guarded_get(client, "balance", 7, remember=time))
        with pytest.raises(InvalidRequest, match="mode must be"):
            await settle(guarded_set(client, "balance", "1", 7, mode="sharred"))
        for other in (None, "redis://localhost", client.pipeline()):
            with pytest.raises(InvalidRequest, match="a guard needs a redis"):
                guarded_set(other, "balance", "1", 7)
        assert side.server.call("DBSIZE") == 0


async def test_keys_of_another_type_are_refused_and_nothing_is_changed(side: Side) -> None:
    async with side.client() as client:
        await settle(client.set(guard_key("balance"), "hello"))
        with pytest.raises(StoreRefused, match="LEASEHOLD-GUARD"):
            await settle(guarded_set(client, "balance", "1", 7))
        await settle(client.rpush("list", 1))
        with pytest.raises(StoreRefused, match="WRONGTYPE"):
            await settle(guarded_get(client, "list", 7))
        assert await settle(client.exists("balance", guard_key("list"))) == 0


async def test_a_store_that_does_not_answer_leaves_the_outcome_unknown(
    proxy: Callable[..., FaultProxy], side: Side
) -> None:
    front = proxy(side.server)
    module: Any = redis.asyncio if side.is_async else redis
    client = module.Redis.from_url(front.url, retry=_retry(side, NoBackoff(), 0))
    await settle(client.ping())
    front.cut_after_request(b"EVALSHA")
    with pytest.raises(StoreUnavailable):
        await settle(guarded_set(client, "balance", "90", 7))
    await settle(client.aclose() if side.is_async else client.close())


def _retry(side: Side, backoff: Any, times: int) -> Any:
    from redis.asyncio.retry import Retry as AsyncRetry

    return (AsyncRetry if side.is_async else Retry)(backoff, times)


@pytest.mark.parametrize("reads_first", [True, False])
async def test_a_write_that_the_driver_repeats_after_a_newer_one_is_not_refused(
    proxy: Callable[..., FaultProxy], side: Side, reads_first: bool
) -> None:
    """It was done, and the newer one has read it: to say that it was refused would have it done twice."""
    server = side.server

    class Meanwhile(NoBackoff):
        def compute(self, failures: int) -> float:
            with server.admin() as newer:
                if reads_first:
                    assert guarded_get(newer, "balance", 8) == b"90"
                guarded_set(newer, "balance", "100", 8)
                guarded_set(newer, "balance", "101", 8)
            return 0

    front = proxy(server)
    with server.admin() as admin:  # so that the server knows the scripts
        guarded_set(admin, "other", "", 1)
    module: Any = redis.asyncio if side.is_async else redis
    client = module.Redis.from_url(front.url, retry=_retry(side, Meanwhile(), 1))
    await settle(client.ping())
    front.cut_after_request(b"EVALSHA")
    await settle(guarded_set(client, "balance", "90", 7))
    assert server.call("GET", "balance") == b"101"
    with pytest.raises(StaleFence):  # the next one is
        await settle(guarded_set(client, "balance", "91", 7))
    await settle(client.aclose() if side.is_async else client.close())


# The scripts themselves, as those of the engine.

LUA = resources.files("leasehold.operations.guards") / "lua"
FILES = {
    path.name.removesuffix(".lua"): path.read_text() for path in LUA.iterdir() if path.name.endswith(".lua")
}
SHARED = {path.name.removesuffix(".lua"): path.read_text() for path in (LUA / "shared").iterdir()}


def test_every_script_is_declared() -> None:
    assert {script.name for script in guards.ALL} == set(FILES)


@pytest.mark.parametrize("script", guards.ALL, ids=lambda script: script.name)
def test_the_header_of_a_script_matches_its_declaration(script: Any) -> None:
    text = FILES[script.name]
    assert headers.header(text, "KEYS") == script.keys
    assert headers.header(text, "ARGV") == script.arguments
    for table in ("KEYS", "ARGV"):
        names, values = headers.naming_line(text, table)
        assert names == headers.header(text, table)
        assert values == tuple(f"{table}[{number}]" for number in range(1, len(names) + 1))
    lines = headers.code_of(text).strip().splitlines()
    assert not any(re.search(r"\b(KEYS|ARGV)\b", line) for line in lines[2:])
    assert re.match(r"-- [A-Z].+\.$", text.splitlines()[0])
    assert "-- Returns: " in text
    assert b"--" not in script.source


@pytest.mark.parametrize("name", sorted(FILES | SHARED))
def test_a_script_is_short_and_touches_only_the_keys_it_is_given(name: str) -> None:
    text = (FILES | SHARED)[name]
    assert len(text.splitlines()) < 60
    assert "tostring" not in text
    for call in re.findall(r"redis\.p?call\((.*?)\)", headers.code_of(text)):
        assert re.match(r"(value|guard)\b", call.split(", ")[1]), call
