"""File locks: which accesses exclude each other, and the errors for those that are refused."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import LIMIT, eventually_async

import leasehold
from leasehold.files import FileSettings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.files.conftest import Shop


async def refused(work: Any) -> leasehold.FileBusy:
    with pytest.raises(leasehold.FileBusy) as refusal:
        await work
    return refusal.value


async def has_waiter(files: Any, path: str) -> bool:
    return bool((await files.inspect(path)).waiters)


@pytest.mark.every_way_in
async def test_readers_share_a_file(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    async with one.read("a.txt") as first, other.read("a.txt", wait=0) as second:
        assert (first.mode, second.mode) == ("read", "read")
        info = await (await shop.files()).inspect("a.txt")
        assert info.mode == "read"
        assert {held.session for held in info.holds} == {"one", "other"}


@pytest.mark.every_way_in
async def test_a_writer_excludes_readers_and_writers(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    async with one.write("a.txt"):
        for acquire in (other.acquire_read, other.acquire_write):
            assert (await refused(acquire("a.txt", wait=0))).reason == "lock_contended"
    assert (await other.acquire_write("a.txt", wait=0)).mode == "write"


async def test_a_reader_excludes_writers(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    async with one.read("a.txt"):
        busy = await refused(other.acquire_write("a.txt", wait=0))
        assert (busy.mode, busy.holder["session"]) == ("shared", "one")


async def test_all_spellings_of_a_file_are_one_lock(valkey_shop: Shop) -> None:
    (valkey_shop.root / "link.txt").symlink_to("a.txt")
    (valkey_shop.root / "sub").mkdir()
    one, other = await valkey_shop.session("one"), await valkey_shop.session("other")
    async with one.write("a.txt"):
        for spelling in ("./a.txt", "sub/../a.txt", ".//a.txt", str(valkey_shop.root / "a.txt"), "link.txt"):
            await refused(other.acquire_write(spelling, wait=0))
    async with one.write("link.txt") as lease:
        assert lease.path == str(valkey_shop.root / "a.txt")


async def test_the_key_is_the_digest_of_the_absolute_path_and_the_record_has_the_readable_one(
    shop: Shop,
) -> None:
    path = str(shop.root / "sub dir" / "ä.txt")
    session = await shop.session("one", purpose="a better name")
    async with session.write("sub dir/ä.txt"):
        key = f"file:{{{hashlib.sha256(path.encode()).hexdigest()}}}"
        with shop.server.admin() as admin:
            record = admin.get(key).decode()
    shown = json.loads(record[record.index("{") :])
    assert (shown["path"], shown["session"], shown["mode"]) == (path, "one", "write")
    assert shown["purpose"] == "a better name"


async def test_in_a_project_machines_with_other_mounts_share_a_lock(own_shop: Shop, tmp_path: Path) -> None:
    from leasehold.files import FileLocks

    elsewhere = tmp_path / "mounted" / "elsewhere"
    elsewhere.mkdir(parents=True)
    client = await own_shop.client()
    here = FileLocks(client, root=own_shop.root, project="site")
    there = FileLocks(client, root=elsewhere, project="site")
    other_project = FileLocks(client, root=elsewhere, project="shop")
    one, two, three = [
        await files.session(name) for files, name in ((here, "a"), (there, "b"), (other_project, "c"))
    ]
    async with one.write("docs/index.md") as lease:
        assert lease.path == "docs/index.md"
        busy = await refused(two.acquire_write("docs/index.md", wait=0))
        assert busy.path == "docs/index.md"
        await three.acquire_write("docs/index.md", wait=0)


async def test_hard_links_to_one_file_are_locked_together(shop: Shop) -> None:
    (shop.root / "a.txt").write_text("x")
    os.link(shop.root / "a.txt", shop.root / "b.txt")
    one, other = await shop.session("one"), await shop.session("other")
    async with one.write("a.txt"):
        busy = await refused(other.acquire_write("b.txt", wait=0))
        assert busy.path == str(shop.root / "b.txt")
        await refused(other.acquire_read("b.txt", wait=0))
        listed = await (await shop.files()).everything()
        assert [info.path for info in listed] == [str(shop.root / "a.txt")]
    async with one.read("a.txt"), other.read("b.txt", wait=0):
        pass
    assert (await other.acquire_write("b.txt", wait=0)).mode == "write"


async def test_links_to_one_file_can_be_locked_together_by_one_session(shop: Shop) -> None:
    (shop.root / "a.txt").write_text("x")
    os.link(shop.root / "a.txt", shop.root / "b.txt")
    one, other = await shop.session("one"), await shop.session("other")
    async with one.write_all(["a.txt", "b.txt"]) as leases:
        assert set(leases.files) == {str(shop.root / "a.txt"), str(shop.root / "b.txt")}
        await refused(other.acquire_write("b.txt", wait=0))
    async with other.write_all(["a.txt", "b.txt"], wait=0):
        pass


async def test_fences_grow_with_every_grant(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    fences = []
    for session in (one, other, one):
        async with session.write("a.txt") as lease:
            fences.append(lease.fence)
    assert fences == sorted(set(fences))


@pytest.mark.every_way_in
async def test_several_files_are_held_together_or_not_at_all(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    async with one.write("b.txt"):
        busy = await refused(other.acquire_all(["a.txt", "b.txt", "c.txt"], wait=0))
        assert busy.path == str(shop.root / "b.txt")
        files = await shop.files()
        assert not (await files.inspect("a.txt")).is_held
        assert not (await files.inspect("c.txt")).is_held
        assert await other.history() == []
    async with other.write_all(["a.txt", "./b.txt", "c.txt", "sub/../a.txt"], wait=0) as leases:
        assert leases["./b.txt"].path == str(shop.root / "b.txt")
        assert leases["a.txt"].fence == leases[str(shop.root / "a.txt")].fence
        assert len(leases.fences) == len(await other.history()) == 3
        busy = await refused(one.acquire_read("a.txt", wait=0))
        assert busy.holder["path"] == str(shop.root / "a.txt")
        leases.check()
    assert await other.history() == []
    assert [info async for info in _everything(shop)] == []


async def _everything(shop: Shop) -> Any:
    for info in await (await shop.files()).everything():
        yield info


@pytest.mark.every_way_in
async def test_several_files_are_waited_for(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    lease = await one.acquire_write("b.txt")
    waiting = asyncio.ensure_future(other.acquire_all(["a.txt", "b.txt"]))
    files = await shop.files()
    await eventually_async(lambda: has_waiter(files, "b.txt"))
    await lease.release()
    leases = await waiting
    assert len(leases.fences) == 2
    await leases.release()
    assert await other.history() == []


async def test_files_held_together_count_as_lost_when_one_is(own_shop: Shop) -> None:
    session = await own_shop.session("one")
    leases = await session.acquire_all(["a.txt", "b.txt"])
    one = leases["a.txt"]
    with own_shop.server.admin() as admin:
        admin.delete(f"file:{{{one.entry.names[0]}}}")
    with pytest.raises(leasehold.LeaseLost):
        await leases.renew()
    assert leases.is_lost
    assert one.is_lost
    assert leases["b.txt"].is_lost
    with pytest.raises(leasehold.LeaseLost):
        await leases.release()
    assert await session.history() == []


async def test_losing_a_file_stops_the_body(own_shop: Shop) -> None:
    session = await own_shop.session("one", settings=FileSettings(ttl=2, wait=LIMIT))

    async def work() -> None:
        async with session.write("a.txt") as lease:
            with own_shop.server.admin() as admin:
                admin.delete(f"file:{{{lease.entry.names[0]}}}")
            await asyncio.sleep(60)

    with pytest.raises(leasehold.LeaseLost):
        await work()
    assert await session.history() == []


async def test_a_ttl_above_the_cap_is_trimmed_and_said_so(
    valkey_shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    session = await valkey_shop.session("one", settings=FileSettings())
    with caplog.at_level(logging.WARNING, "leasehold.files"):
        lease = await session.acquire_write("a.txt", ttl=10**12)
    assert lease.trimmed
    assert lease.ttl == 300
    assert caplog.messages == ["session one: the ttl was trimmed to 300 s, the most allowed"]
    with valkey_shop.server.admin() as admin:
        assert 290_000 < admin.pttl(f"file:{{{lease.entry.names[0]}}}") <= 300_000
    await lease.renew(10_000)
    assert lease.ttl == 300


async def test_a_ttl_within_the_cap_is_not_touched(valkey_shop: Shop) -> None:
    session = await valkey_shop.session("one", settings=FileSettings())
    lease = await session.acquire_write("a.txt")
    assert (lease.ttl, lease.trimmed) == (30, False)
    lease = await session.acquire_write("b.txt", ttl=300)
    assert (lease.ttl, lease.trimmed) == (300, False)


async def test_a_lease_that_is_not_renewed_ends_and_one_inside_a_body_does_not(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    lease = await one.acquire_write("a.txt", ttl=1)
    async with one.write("b.txt", ttl=9) as kept:
        valid_until = min(each.valid_until for each in kept)
        assert (await other.acquire_write("a.txt", wait=LIMIT)).mode == "write"
        assert lease.is_lost
        await eventually_async(lambda: min(each.valid_until for each in kept) > valid_until)
        assert (await refused(other.acquire_write("b.txt", wait=0))).holder["session"] == "one"


WRONG_PATHS = {
    "outside": "../other.txt",
    "absolute": "/etc/passwd",
    "directory": "sub",
    "root": ".",
    "nul": "a\0b",
    "empty": "",
    "number": 7,
    "link": "out",
}


@pytest.mark.parametrize("name", WRONG_PATHS)
async def test_a_path_that_is_not_a_file_below_the_root_is_refused_and_nothing_is_changed(
    own_shop: Shop, name: str
) -> None:
    (own_shop.root / "sub").mkdir()
    (own_shop.root / "out").symlink_to("/etc/passwd")
    session = await own_shop.session("one")
    before = own_shop.stored()
    path = WRONG_PATHS[name]
    for work in (
        lambda: session.acquire_write(path),
        lambda: session.acquire_read(path),
        lambda: session.acquire_all(["fine.txt", path]),
        lambda: session.release(path),
        lambda: session.read_file(path),
        lambda: session.write_file(path, b"x"),
    ):
        with pytest.raises(leasehold.InvalidRequest):
            await work()
    assert own_shop.stored() == before
    assert await session.history() == []


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), "30", True, -1e12], ids=str)
async def test_a_ttl_that_cannot_be_is_refused_at_once(own_shop: Shop, ttl: Any) -> None:
    session = await own_shop.session("one")
    with pytest.raises(leasehold.InvalidRequest) as wrong:
        session.write("a.txt", ttl=ttl)
    assert str(wrong.value) == f"ttl must be a number of seconds from 0.01, not {ttl!r}"


@pytest.mark.parametrize(
    "options",
    [{"wait": -1}, {"wait": "5"}, {"purpose": "x" * 201}, {"purpose": "a\nb"}, {"purpose": 7}],
    ids=str,
)
async def test_other_arguments_that_cannot_be_are_refused_at_once(own_shop: Shop, options: Any) -> None:
    session = await own_shop.session("one")
    with pytest.raises(leasehold.InvalidRequest):
        session.read("a.txt", **options)
    with pytest.raises(leasehold.InvalidRequest):
        await session.acquire_write("a.txt", **options)
    assert await session.history() == []


@pytest.mark.parametrize("paths", [[], "a.txt", ["x"] * 101], ids=["none", "text", "many"])
async def test_together_means_several_and_not_too_many(own_shop: Shop, paths: Any) -> None:
    session = await own_shop.session("one")
    with pytest.raises(leasehold.InvalidRequest):
        await session.acquire_all(paths)


@pytest.mark.every_way_in
async def test_a_busy_error_names_holder_time_purpose_and_the_next_step(shop: Shop) -> None:
    one, other = await shop.session("one", purpose="renaming things"), await shop.session("other")
    async with one.write("a.txt"):
        busy = await refused(other.acquire_write("a.txt", wait=0))
    assert type(busy) is leasehold.FileBusy
    assert (busy.reason, busy.path, busy.mode) == ("lock_contended", str(shop.root / "a.txt"), "exclusive")
    assert busy.holder["session"] == "one"
    assert busy.held_since is not None
    assert 0 < (busy.retry_after or 0) <= 60
    message = str(busy)
    for part in ("session 'one'", " since ", "'renaming things'", "free in", "wait for it (wait=seconds)"):
        assert part in message


@pytest.mark.every_way_in
async def test_a_wait_for_a_held_file_ends_in_a_timeout(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    async with one.write("a.txt"):
        busy = await refused(other.acquire_write("a.txt", wait=0.2))
    assert type(busy) is leasehold.FileTimeout
    assert isinstance(busy, TimeoutError)
    assert busy.reason == "lock_timeout"
    assert busy.waited == 0.2
    assert "try again later" in str(busy)
    assert await other.history() == []


async def test_a_session_that_blocks_itself_gets_an_error_that_says_so(valkey_shop: Shop) -> None:
    session = await valkey_shop.session("one")
    async with session.read("a.txt"):
        busy = await refused(session.acquire_write("a.txt", wait=0))
    assert "that is this very session" in str(busy)


@pytest.mark.parametrize("wait", [0, 0.2])
@pytest.mark.every_way_in
async def test_a_room_of_people_has_a_reason_of_its_own(shop: Shop, wait: float) -> None:
    editor, session = await shop.files(), await shop.session("one")
    async with editor.room("a.txt", holder="Ana and Bob") as room:
        assert room.mode == "write"
        for acquire in (session.acquire_read, session.acquire_write):
            busy = await refused(acquire("a.txt", wait=wait))
            assert busy.reason == "room_busy"
            assert "the room of Ana and Bob" in str(busy)
            assert "work on another file" in str(busy)
        info = await editor.inspect("a.txt")
        assert info.holds[0].is_room
        assert info.holds[0].session is None
    assert (await session.acquire_write("a.txt", wait=0)).mode == "write"


async def test_a_room_does_not_open_while_a_session_has_the_file(shop: Shop) -> None:
    editor, session = await shop.files(), await shop.session("one")
    async with session.read("a.txt"):
        busy = await refused(editor.room("a.txt", holder="Ana").__aenter__())
        assert busy.reason == "lock_contended"


async def test_a_room_needs_a_holder(own_shop: Shop) -> None:
    files = await own_shop.files()
    for holder in ("", "a\nb", None, "x" * 201):
        with pytest.raises(leasehold.InvalidRequest):
            files.room("a.txt", holder=holder)


async def test_release_by_path_releases_the_latest_and_twice_is_harmless(shop: Shop) -> None:
    session = await shop.session("one")
    lease = await session.acquire_write("a.txt")
    assert await session.release("./a.txt") is True
    assert lease.is_lost
    assert await session.release("a.txt") is False
    await lease.release()
    assert await session.history() == []
    assert not (await (await shop.files()).inspect("a.txt")).is_held


async def test_another_process_of_the_session_can_release_what_the_first_holds(shop: Shop) -> None:
    session = await shop.session("one")
    await session.acquire_write("a.txt")
    again = await shop.session("one", secret=session.secret)
    assert await again.release("a.txt") is True
    assert await again.history() == []
    assert not (await (await shop.files()).inspect("a.txt")).is_held


async def test_another_process_of_the_session_can_release_both_locks_of_a_file_with_links(shop: Shop) -> None:
    (shop.root / "a.txt").write_text("x")
    os.link(shop.root / "a.txt", shop.root / "b.txt")
    session, other = await shop.session("one"), await shop.session("other")
    await session.acquire_write("a.txt")
    again = await shop.session("one", secret=session.secret)
    assert await again.release("a.txt") is True
    assert (await other.acquire_write("b.txt", wait=0)).mode == "write"


@pytest.mark.every_way_in
async def test_release_session_locks_clears_everything_of_the_session_and_nothing_else(shop: Shop) -> None:
    session, other = await shop.session("one"), await shop.session("other")
    await session.acquire_write("a.txt")
    await session.acquire_read("b.txt")
    await other.acquire_read("b.txt")
    again = await shop.session("one", secret=session.secret)
    await again.acquire_all(["c.txt", "d.txt"])
    freed = await again.release_session_locks()
    assert sorted(freed) == [str(shop.root / name) for name in ("a.txt", "b.txt", "c.txt", "d.txt")]
    assert await again.history() == []
    listed = await (await shop.files()).everything()
    assert [(info.path, info.holds[0].session) for info in listed] == [(str(shop.root / "b.txt"), "other")]
    assert (await again.acquire_write("a.txt", wait=0)).mode == "write"


@pytest.mark.every_way_in
async def test_the_first_in_the_queue_gets_a_file_that_is_released(shop: Shop) -> None:
    one, other = await shop.session("one"), await shop.session("other")
    lease = await one.acquire_write("a.txt")
    waiting = asyncio.ensure_future(other.acquire_write("a.txt"))
    files = await shop.files()
    await eventually_async(lambda: has_waiter(files, "a.txt"))
    await lease.release()
    assert (await waiting).fence > lease.fence


async def test_a_very_long_path_is_shown_by_its_end(own_shop: Shop) -> None:
    deep = "/".join("ä" * 60 for _ in range(20)) + "/end.txt"
    one, other = await own_shop.session("one"), await own_shop.session("other")
    async with one.write(deep):
        busy = await refused(other.acquire_write(deep, wait=0))
        assert busy.path == str(own_shop.root / deep)
        assert busy.holder["path"].endswith("/end.txt")
        (entry,) = await one.history()
        assert entry.path == str(own_shop.root / deep)


async def test_the_wrong_kind_of_client_is_named(own_shop: Shop) -> None:
    from leasehold.files import FileLocks, blocking

    with pytest.raises(
        leasehold.InvalidRequest, match=r"leasehold\.files.blocking.FileLocks is for blocking"
    ):
        FileLocks(leasehold.blocking.connect(own_shop.server.url), root=own_shop.root)  # type: ignore[arg-type] - on purpose
    with pytest.raises(leasehold.InvalidRequest, match=r"leasehold\.files.FileLocks is for asyncio"):
        blocking.FileLocks(await own_shop.client(), root=own_shop.root)
