"""Validation of arguments: a wrong one raises an error that names the allowed values, and nothing is sent."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.virtual_world import asking, granted, taking

import leasehold
from leasehold.core import validation
from leasehold.core.sync_runner import run_sync
from leasehold.errors import InvalidRequest

NOT_DURATIONS = [
    float("nan"),
    float("inf"),
    -float("inf"),
    -1,
    -0.001,
    True,
    False,
    "30",
    b"30",
    [30],
    {},
    1j,
]
TOO_LARGE = 10**400
"""An int that no float can hold."""

BAD_TTLS = [*NOT_DURATIONS, None, 0, 0.0, 0.009, 86_400.001, 10**12, TOO_LARGE]
BAD_WAITS = [*NOT_DURATIONS, 1e300, TOO_LARGE]
BAD_MAX_HOLDS = [*NOT_DURATIONS, 0, 0.0, TOO_LARGE]
BAD_FENCES = [-1, 1.0, "1", True, 2**53, TOO_LARGE, float("nan")]
BAD_NAMES = [
    "",
    "x" * 513,
    "é" * 257,
    "😀" * 129,
    "a\0b",
    "\0",
    "\ud800",
    "a\udfffb",
    b"name",
    None,
    7,
    ["a"],
]
BAD_HOLDERS = [
    7,
    True,
    b"me",
    ["me"],
    {"user": ["nested"]},
    {"user": {"id": 1}},
    {1: "x"},
    {"x": float("nan")},
    {"x": float("inf")},
    {"x": b"bytes"},
    "x" * 2_047,
    {"x": "é" * 400},
    {"x": 10**5_000},
]
BAD_MODES = ["Shared", "", None, "EXCLUSIVE", 1]

ALLOWED = {  # what the message must contain
    "ttl": r"ttl must be a number of seconds from 0\.01 to 86400 \(24 hours\)",
    "wait": r"wait must be a number of seconds from 0 \(ask once\) .*or None \(no limit\)",
    "max_hold": r"max_hold must be a number of seconds above 0",
    "floor": r"floor must be a whole number from 0 to ",
    "expect_fence": r"expect_fence must be a whole number from 0 to ",
    "mode": r"mode must be 'exclusive'",
    "holder": r"a holder (must be|may take 2048 bytes)",
    "name": r"a lock's name (must|may take 512 bytes)",
}

WRONG = [
    *[("ttl", value) for value in BAD_TTLS],
    *[("wait", value) for value in BAD_WAITS],
    *[("max_hold", value) for value in BAD_MAX_HOLDS],
    *[("floor", value) for value in BAD_FENCES],
    *[("expect_fence", value) for value in BAD_FENCES],
    *[("mode", value) for value in BAD_MODES],
    *[("holder", value) for value in BAD_HOLDERS],
    *[("name", value) for value in BAD_NAMES],
]


def short(value):
    """A test's id: the wrong value, abbreviated."""
    try:
        return ascii(value)[:25]
    except ValueError:  # an int with more digits than Python writes
        return f"huge {type(value).__name__}"


def label(case):
    what, value = case
    return f"{what}-{short(value)}"


def ask(engine, verb, what, value):
    arguments = {"name": "a", **(taking() if verb == "take" else asking()), what: value}
    return getattr(engine, verb)(arguments.pop("name"), **arguments)


@pytest.mark.parametrize("case", [case for case in WRONG if case[0] != "expect_fence"], ids=label)
def test_a_wrong_acquire_says_what_is_allowed_and_sends_nothing(world, store, engine, case):
    with pytest.raises(InvalidRequest, match=ALLOWED[case[0]]):
        world.run(ask(engine, "acquire", *case))
    world.advance(60)
    assert store.calls == []


@pytest.mark.parametrize("case", [case for case in WRONG if case[0] != "wait"], ids=label)
def test_a_wrong_take_says_what_is_allowed_and_sends_nothing(world, store, engine, case):
    with pytest.raises(InvalidRequest, match=ALLOWED[case[0]]):
        world.run(ask(engine, "take", *case))
    world.advance(60)
    assert store.calls == []


@pytest.mark.parametrize("ttl", [ttl for ttl in BAD_TTLS if ttl is not None], ids=short)
def test_a_wrong_renewal_says_what_is_allowed_and_sends_nothing(world, store, engine, ttl):
    store.answer("acquire", granted(7, 30))
    lease = world.run(engine.acquire("a", **asking()))
    with pytest.raises(InvalidRequest, match=ALLOWED["ttl"]):
        world.run(engine.renew(lease, ttl))
    assert [call.verb for call in store.calls] == ["acquire"]
    lease.check()


@pytest.mark.parametrize("name", BAD_NAMES, ids=short)
def test_a_wrong_inspection_says_what_is_allowed_and_sends_nothing(world, store, engine, name):
    with pytest.raises(InvalidRequest, match=ALLOWED["name"]):
        world.run(engine.inspect(name))
    assert store.calls == []


GOOD = [
    *[("ttl", value) for value in (0.01, 1, 0.5, 86_400, 86_400.0)],
    *[("wait", value) for value in (0, 0.0, 0.001, 10**9, None)],
    *[("max_hold", value) for value in (0.001, 1, 10**9, None)],
    *[("floor", value) for value in (0, 1, 2**52, None)],
    *[("holder", value) for value in ("", "x" * 2_000, {}, {"a": None, "b": 1.5, "c": True}, None)],
    *[("name", value) for value in ("x", "x" * 512, "é" * 256, "😀" * 128, "{}", "%", " ", "\n", "\x7f")],
]


@pytest.mark.parametrize("case", GOOD, ids=label)
def test_allowed_arguments_reach_the_store(world, store, engine, case):
    store.answer("acquire", lambda asked: granted(7, asked["ttl"]))
    world.run(ask(engine, "acquire", *case))
    assert len(store.calls) == 1


def test_messages_about_a_name_say_how_long_it_is():
    with pytest.raises(InvalidRequest, match="512 bytes in UTF-8, this one takes 514"):
        validation.check_name("é" * 257)


@pytest.mark.parametrize("on_loss", ["", "raise", None, "CANCEL", 1])
@pytest.mark.parametrize("side", [leasehold, leasehold.blocking])
def test_an_unknown_on_loss_is_refused_before_anything_is_sent(side, on_loss):
    locks = side.connect(
        "redis://127.0.0.1:1"
    )  # no server listens there, so anything sent would be another error
    with pytest.raises(InvalidRequest, match="on_loss must be 'cancel' or 'signal'"):
        locks.lock("a", on_loss=on_loss)


@pytest.mark.parametrize("holder", BAD_HOLDERS, ids=short)
@pytest.mark.parametrize("connect", [leasehold.connect, leasehold.blocking.connect])
def test_a_wrong_default_holder_is_refused_when_connecting(connect, holder):
    with pytest.raises(InvalidRequest, match=ALLOWED["holder"]):
        connect("redis://127.0.0.1:1", holder=holder)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "2", None], ids=short)
@pytest.mark.parametrize("connect", [leasehold.connect, leasehold.blocking.connect])
def test_a_wrong_timeout_is_refused_when_connecting(connect, timeout):
    with pytest.raises(InvalidRequest, match="timeout must be a number of seconds above 0"):
        connect("redis://127.0.0.1:1", timeout=timeout)


@pytest.mark.parametrize("interval", [0, -0.1, float("nan"), float("inf"), "1", None], ids=short)
@pytest.mark.parametrize("connect", [leasehold.connect, leasehold.blocking.connect])
def test_a_wrong_retry_interval_is_refused_when_connecting(connect, interval):
    """Zero would ask the store as fast as it answers."""
    with pytest.raises(InvalidRequest, match="retry_interval"):
        connect("redis://127.0.0.1:1", retry_interval=interval)


@pytest.mark.parametrize("namespace", ["", "a b", "a{b", "a}b", "é", "x" * 65, "a\n"], ids=short)
@pytest.mark.parametrize("connect", [leasehold.connect, leasehold.blocking.connect])
def test_a_wrong_namespace_is_refused_when_connecting(connect, namespace):
    with pytest.raises(InvalidRequest, match="a namespace is"):
        connect("redis://127.0.0.1:1", namespace=namespace)


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "é"], ids=short)
def test_a_wrong_client_name_is_refused_when_connecting(name):
    with pytest.raises(InvalidRequest, match="a client name is"):
        leasehold.connect("redis://127.0.0.1:1", client_name=name)


@pytest.mark.parametrize("limit", [0, -1], ids=short)
def test_a_wrong_number_of_connections_is_refused_when_connecting(limit):
    with pytest.raises(InvalidRequest, match="max_connections"):
        leasehold.blocking.connect("redis://127.0.0.1:1", max_connections=limit)


def test_a_data_directory_belongs_to_the_embedded_server_only():
    with pytest.raises(InvalidRequest, match="data_dir"):
        leasehold.connect("redis://127.0.0.1:1", data_dir="/tmp/x")


class NotRedis:
    """An application's own client."""


@pytest.mark.parametrize(
    "existing", [None, "redis://localhost", NotRedis()], ids=lambda value: type(value).__name__
)
def test_from_client_says_which_clients_it_takes(existing):
    with pytest.raises(InvalidRequest, match=r"redis\.asyncio\.Redis or a redis\.Redis"):
        leasehold.from_client(existing)


@pytest.mark.parametrize(
    "changed",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"retry_interval": 0},
        {"namespace": "a b"},
        {"holder": 7},
    ],
    ids=short,
)
def test_from_client_checks_its_arguments_too(changed):
    import redis

    with redis.Redis(port=1) as existing, pytest.raises(InvalidRequest):
        leasehold.from_client(existing, **changed)


def test_a_coroutine_that_suspends_is_an_error_in_a_thread():
    async def suspends():
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="suspended"):
        run_sync(suspends())


def test_a_coroutine_that_never_suspends_gives_its_result_in_a_thread():
    async def answers():
        return 42

    assert run_sync(answers()) == 42
