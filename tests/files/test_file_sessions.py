"""Sessions: ids, secrets, and openings."""

from __future__ import annotations

import hashlib
import pickle
from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.files import FileSettings
from leasehold.files.sessions.credentials import Secret

if TYPE_CHECKING:
    from tests.files.conftest import Shop


def everything_in(shop: Shop) -> bytes:
    """Everything that a reader of the store can find."""
    with shop.server.admin() as admin:
        found = list(admin.scan_iter())
        values = [
            admin.hgetall(key) if admin.type(key) == b"hash" else admin.get(key)
            for key in found
            if admin.type(key) in {b"hash", b"string"}
        ]
    return repr((found, values)).encode()


@pytest.mark.every_way_in
async def test_a_new_session_has_a_secret_that_is_shown_once(shop: Shop) -> None:
    files = await shop.files()
    session = await files.session("agent-7")
    assert len(session.secret) == 64
    again = await files.session("agent-7", secret=session.secret)
    assert again.secret is None
    assert again.id == session.id == "agent-7"
    assert again.epoch > session.epoch


async def test_two_sessions_never_have_the_same_secret(own_shop: Shop) -> None:
    files = await own_shop.files()
    sessions = [await files.session(f"agent-{number}") for number in range(20)]
    assert len({session.secret for session in sessions}) == 20


@pytest.mark.every_way_in
async def test_a_session_is_not_opened_without_its_secret_or_with_another(shop: Shop) -> None:
    files = await shop.files()
    session = await files.session("agent-7")
    wrong = "0" * 64
    for secret in (None, wrong):
        with pytest.raises(leasehold.NotAllowed) as refused:
            await files.session("agent-7", secret=secret)
        assert (
            str(refused.value)
            == "there is a session 'agent-7' already, and only its own secret opens it: pass that as secret=…, or choose another id"
        )
    assert (await files.session("agent-7", secret=session.secret)).id == "agent-7"


async def test_a_session_can_be_made_with_a_secret_that_was_kept_elsewhere(shop: Shop) -> None:
    secret = Secret.new().reveal()
    session = await shop.session("agent-7", secret=secret)
    assert session.secret is None
    with pytest.raises(leasehold.NotAllowed):
        await shop.session("agent-7")
    assert (await shop.session("agent-7", secret=secret)).epoch > session.epoch


@pytest.mark.parametrize(
    "session_id",
    [
        "",
        "agent 7",
        " agent-7",
        "agent-7\n",
        "a" * 129,
        "agent/7",
        "agent:7",
        "{agent}",
        "agënt",
        "a\0b",
        None,
        7,
    ],
    ids=[
        "empty",
        "space",
        "leading",
        "newline",
        "129",
        "slash",
        "colon",
        "braces",
        "accent",
        "nul",
        "none",
        "number",
    ],
)
async def test_a_session_id_that_breaks_the_rule_is_refused_and_nothing_is_sent(
    own_shop: Shop, session_id: object
) -> None:
    files = await own_shop.files()
    with pytest.raises(leasehold.InvalidRequest) as refused:
        await files.session(session_id)
    assert str(refused.value) == "a session id is 1 to 128 of the letters a-z and A-Z, digits, - and _"
    assert own_shop.stored() == []


async def test_a_session_id_may_have_all_that_the_rule_allows(own_shop: Shop) -> None:
    files = await own_shop.files()
    for session_id in ("a", "A-z_0-9", "a" * 128):
        assert (await files.session(session_id)).id == session_id


@pytest.mark.parametrize("secret", ["", "short", "x" * 31, "x" * 257, "x" * 40 + " ", "é" * 40, b"x" * 40])
async def test_a_secret_that_could_be_guessed_is_refused_and_not_repeated(
    own_shop: Shop, secret: object
) -> None:
    files = await own_shop.files()
    with pytest.raises(leasehold.InvalidRequest) as refused:
        await files.session("agent-7", secret=secret)
    assert str(refused.value) == "a session's secret is 32 to 256 printable ASCII characters without spaces"
    assert own_shop.stored() == []


async def test_the_store_has_a_digest_and_never_the_secret(shop: Shop) -> None:
    session = await shop.session("agent-7")
    async with session.write("a.txt"):
        kept = everything_in(shop)
    assert session.secret.encode() not in kept
    assert hashlib.sha256(session.secret.encode()).hexdigest().encode() in kept


def test_a_secret_is_not_shown_and_does_not_travel() -> None:
    secret = Secret.new()
    assert secret.reveal() not in repr([secret, vars(type(secret))])
    with pytest.raises(TypeError):
        pickle.dumps(secret)


async def test_neither_the_session_nor_its_leases_show_the_secret(own_shop: Shop) -> None:
    session = await own_shop.session("agent-7")
    async with session.write("a.txt") as lease:
        shown = repr((session, lease, await session.history(), lease.entry))
    assert session.secret not in shown


def test_tokens_depend_on_the_secret_the_entry_the_turn_and_the_lock() -> None:
    one, other = Secret.new(), Secret.new()
    tokens = {
        secret.token(field, turn, name)
        for secret in (one, other)
        for field in ("a", "b")
        for turn in (0, 1)
        for name in ("x", "y")
    }
    assert len(tokens) == 16
    assert all(len(token) == 32 and int(token, 16) >= 0 for token in tokens)
    assert one.token("a", 0, "x") == one.token("a", 0, "x")


async def test_a_session_that_the_store_has_lost_continues_with_its_files(shop: Shop) -> None:
    session = await shop.session("agent-7")
    lease = await session.acquire_write("a.txt")
    with shop.server.admin() as admin:
        admin.delete(*admin.scan_iter("file_session:*"))
    await session.acquire_read("b.txt")
    assert {entry.path for entry in await session.history()} == {
        str(shop.root / "a.txt"),
        str(shop.root / "b.txt"),
    }
    await lease.release()
    assert [entry.path for entry in await session.history()] == [str(shop.root / "b.txt")]


@pytest.mark.every_way_in
async def test_a_session_whose_id_belongs_to_another_by_now_can_only_release(shop: Shop) -> None:
    session = await shop.session("agent-7")
    lease = await session.acquire_write("a.txt")
    with shop.server.admin() as admin:
        admin.delete(*admin.scan_iter("file_session:*"))
    successor = await shop.session("agent-7")
    assert await successor.history() == []
    with pytest.raises(leasehold.NotAllowed):
        await session.acquire_write("b.txt")
    with pytest.raises(leasehold.NotAllowed):
        await session.history()
    with pytest.raises(leasehold.NotAllowed):
        await session.restore()
    assert (await (await shop.files()).inspect("b.txt")).is_held is False
    await lease.release()
    assert (await (await shop.files()).inspect("a.txt")).is_held is False
    assert await successor.history() == []


async def test_the_history_of_an_earlier_session_is_not_inherited(shop: Shop) -> None:
    session = await shop.session("agent-7")
    await session.acquire_write("a.txt")
    with shop.server.admin() as admin:
        (record,) = [key for key in admin.scan_iter("file_session:*") if not key.endswith(b":history")]
        admin.delete(record)
    successor = await shop.session("agent-7")
    assert await successor.history() == []
    assert await successor.restore() == []


async def test_history_lives_as_long_as_it_is_set_to(shop: Shop) -> None:
    session = await shop.session("agent-7", settings=FileSettings(history_ttl=1000, session_ttl=5000))
    await session.acquire_write("a.txt")
    with shop.server.admin() as admin:
        assert 990_000 < admin.pttl("file_session:{agent-7}:history") <= 1_000_000
        assert 4_990_000 < admin.pttl("file_session:{agent-7}") <= 5_000_000
        admin.pexpire("file_session:{agent-7}", 100_000)
    await session.history()
    with shop.server.admin() as admin:
        assert 4_990_000 < admin.pttl("file_session:{agent-7}") <= 5_000_000


async def test_sessions_in_another_namespace_are_others(own_shop: Shop) -> None:
    from leasehold.files import FileLocks

    one = FileLocks(await own_shop.client(), root=own_shop.root)
    other = FileLocks(await own_shop.client(namespace="test"), root=own_shop.root)
    first, second = await one.session("agent-7"), await other.session("agent-7")
    await first.acquire_write("a.txt", wait=0)
    await second.acquire_write("a.txt", wait=0)
    assert {key.split(b"{")[0] for key in own_shop.stored()} == {
        b"file:",
        b"file_session:",
        b"test:file:",
        b"test:file_session:",
    }
