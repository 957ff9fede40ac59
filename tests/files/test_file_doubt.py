"""Lost replies, and two processes that change one entry: the history shows every held file."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually_async

import leasehold
from leasehold.files import FileLocks, FileSettings
from leasehold.files.lock_store import FileLockStore
from leasehold.files.sessions.restore import Restorer
from leasehold.files.sessions.session_store import SessionStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.files.conftest import Shop
    from tests.support.proxy import FaultProxy
    from tests.support.servers import Server


async def test_a_lock_that_was_granted_without_a_reply_is_in_the_history_until_it_is_released(
    own_shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All answers about the lock are lost and those about the history are not: in a cluster they are two servers'.

    The process may be killed before it has taken back what it does not know that it has.
    """
    session, files = await own_shop.session("one"), await own_shop.files()
    acquire = FileLockStore.acquire

    async def without_answer(*args: Any, **options: Any) -> None:
        await acquire(*args, **options)
        raise leasehold.StoreUnavailable("no answer")

    async def without_sending(*_: Any, **__: Any) -> None:
        raise leasehold.StoreUnavailable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(FileLockStore, "acquire", without_answer)
        patch.setattr(FileLockStore, "release", without_sending)
        with pytest.raises(leasehold.StoreUnavailable):
            await session.acquire_write("a.txt", wait=0)
        assert (await files.inspect("a.txt")).is_held  # it was done
        again = await own_shop.session("one", secret=session.secret)
        (entry,) = await again.history()
        assert (entry.state, entry.path) == ("asked", str(own_shop.root / "a.txt"))
        (report,) = await again.restore()
        assert report.outcome == "restored"
    await again.release_session_locks()
    assert not (await files.inspect("a.txt")).is_held
    assert await again.history() == []


async def test_an_entry_in_doubt_is_removed_when_no_lease_can_be_left(
    own_shop: Shop, proxy: Callable[..., FaultProxy]
) -> None:
    between = proxy(own_shop.server)
    session = await own_shop.session("one", url=between.url)
    await (await session.acquire_write("b.txt")).release()
    name = (await (await own_shop.files()).inspect("a.txt")).sha256
    cut = between.cut_after_request(f"file:{{{name}}}".encode())
    between.refuse()
    with pytest.raises(leasehold.StoreUnavailable):
        await session.acquire_write("a.txt", wait=0, ttl=0.5)
    assert cut.wait(LIMIT)
    between.refuse(False)
    assert [entry.state for entry in await session.history()] == ["asked"]

    async def is_forgotten() -> bool:
        await (await session.acquire_write("b.txt")).release()
        return await session.history() == []

    await eventually_async(is_forgotten)


async def test_a_store_that_is_away_is_waited_for_once(
    own_server: Callable[..., Server], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = own_server("valkey9")
    async with leasehold.connect(server.url, timeout=3) as client:
        session = await FileLocks(client, root=root, settings=FileSettings(wait=0)).session("one")
        await (await session.acquire_write("a.txt")).release()
        server.kill()
        asked: list[str] = []
        for kind, verb in ((SessionStore, "_ask"), (FileLockStore, "acquire"), (FileLockStore, "release")):
            monkeypatch.setattr(kind, verb, noting(asked, getattr(kind, verb)))
        with pytest.raises(leasehold.StoreUnavailable):
            await session.acquire_write("a.txt")
        assert asked == ["_ask"]


def noting(asked: list[str], verb: Callable[..., Any]) -> Callable[..., Any]:
    async def ask(*args: Any, **options: Any) -> Any:
        asked.append(verb.__name__)
        return await verb(*args, **options)

    return ask


async def test_releasing_a_file_that_was_restored_elsewhere_leaves_the_history_as_it_is(
    shop: Shop,
) -> None:
    first = await shop.session("one")
    lease = await first.acquire_write("a.txt")
    again = await shop.session("one", secret=first.secret)
    (report,) = await again.restore()
    with pytest.raises(leasehold.LeaseLost):
        await lease.release()
    (entry,) = await again.history()
    assert entry.fence == report.fence
    assert await again.release("a.txt")
    assert await again.history() == []


def change_history(shop: Shop, session_id: str, change: Callable[[dict[str, Any]], str]) -> None:
    """Rewrite each entry, as another version of the library would."""
    with shop.server.admin() as admin:
        for key in admin.scan_iter(f"*{session_id}*"):
            if admin.type(key) != b"hash":
                continue
            for field, text in admin.hgetall(key).items():
                if text.startswith(b"{"):
                    admin.hset(key, field, change(json.loads(text)))


def as_a_later_version(entry: dict[str, Any]) -> str:
    return json.dumps({"colour": "green", **dict(reversed(entry.items())), "nested": {"more": [1, None]}})


async def test_an_entry_of_a_later_version_is_restored_upgraded_and_released(shop: Shop) -> None:
    first = await shop.session("one-of-many")
    lease = await first.acquire_read("a.txt")
    change_history(shop, "one-of-many", as_a_later_version)
    again = await shop.session("one-of-many", secret=first.secret)
    (report,) = await again.restore()
    assert (report.outcome, report.fence) == ("restored", lease.fence)
    (entry,) = await again.history()
    assert entry.unknown == {"colour": "green", "nested": {"more": [1, None]}}
    (held,) = again.held
    if shop.side == "async":
        await held.upgrade(wait=0)
    else:
        await asyncio.to_thread(held.upgrade, wait=0)
    (entry,) = await again.history()
    assert (entry.mode, entry.unknown["colour"]) == ("write", "green")
    assert await again.release("a.txt")
    assert await again.history() == []


async def test_an_entry_that_changes_while_it_is_restored_is_reported(own_shop: Shop) -> None:
    first = await own_shop.session("one")
    await first.acquire_write("a.txt")
    second = await own_shop.session("one", secret=first.secret)
    (entry,) = await second.history()
    third = await own_shop.session("one", secret=first.secret)
    (report,) = await third.restore()
    assert report.outcome == "restored"
    with pytest.raises(leasehold.LeaseLost, match=r"a\.txt.*another process of its session"):
        await Restorer(second.thing._core, timeout=1, renew=True)._restore(entry)
