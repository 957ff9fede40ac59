"""Rate limit of a session, and the verbs that it never limits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.eventually import eventually_async

import leasehold
from leasehold.core.observer import RateLimitChecked
from leasehold.files import FileLocks, FileSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.files.conftest import Shop
    from tests.support.processes import Child
    from tests.support.servers import Server


def limited(**options: Any) -> FileSettings:
    return FileSettings(ttl=60, wait=0, rate_limit=3, rate_window=600, **options)


@pytest.fixture(params=["memory", "store"])
def settings(request: pytest.FixtureRequest, any_server: Server) -> FileSettings:
    return limited(rate_limit_url=None if request.param == "memory" else any_server.url)


@pytest.mark.every_way_in
async def test_a_session_over_its_limit_gets_the_time_until_the_next_attempt(
    shop: Shop, settings: FileSettings
) -> None:
    files = await shop.files(settings=settings)
    session, other = await files.session("one"), await files.session("other")
    for number in range(3):
        await session.acquire_read(f"{number}.txt")
    before = shop.stored("file:*")
    for acquire in (session.acquire_read, session.acquire_write):
        with pytest.raises(leasehold.RateLimited) as refused:
            await acquire("late.txt")
        assert 500 < refused.value.retry_after <= 600
        assert "session 'one'" in str(refused.value)
    assert shop.stored("file:*") == before
    assert len(await session.history()) == 3
    assert (await other.acquire_read("late.txt")).mode == "read"


async def test_refusals_count_and_renewing_and_releasing_do_not(shop: Shop, settings: FileSettings) -> None:
    files = await shop.files(settings=settings)
    session, other = await files.session("one"), await files.session("other")
    await other.acquire_write("busy.txt")
    lease = await session.acquire_write("a.txt")
    for _ in range(5):
        await lease.renew()
    with pytest.raises(leasehold.FileBusy):
        await session.acquire_write("busy.txt")
    reading = await session.acquire_read("b.txt")
    with pytest.raises(leasehold.RateLimited):
        await reading.upgrade()
    reading.check()
    await lease.renew()
    await lease.release()
    assert await session.release("b.txt") is True


async def test_a_restore_is_counted_for_every_file_and_can_be_tried_again(
    shop: Shop, settings: FileSettings
) -> None:
    files = await shop.files(settings=settings)
    session = await files.session("one")
    for number in range(2):
        await session.acquire_write(f"{number}.txt")
    again = await files.session("one", secret=session.secret)
    outcomes = [report.outcome for report in await again.restore()]
    assert sorted(outcomes) == ["failed", "restored"]
    assert len(await again.history()) == 2
    (report,) = await again.restore()
    assert report.outcome == "failed"
    assert isinstance(report.error, leasehold.RateLimited)


async def test_release_session_locks_clears_the_counters(shop: Shop, settings: FileSettings) -> None:
    files = await shop.files(settings=settings)
    session = await files.session("one")
    for _ in range(2):
        for number in range(3):
            await session.acquire_read(f"{number}.txt")
        with pytest.raises(leasehold.RateLimited):
            await session.acquire_read("late.txt")
        assert len(await session.release_session_locks()) == 3


async def test_processes_share_a_limit_that_is_kept_in_a_store_and_only_that(
    own_shop: Shop, valkey: Server
) -> None:
    for url, allowed in ((valkey.url, 3), (None, 6)):
        one = await own_shop.session(f"s{allowed}", settings=limited(rate_limit_url=url))
        two = await own_shop.session(f"s{allowed}", settings=limited(rate_limit_url=url), secret=one.secret)
        granted = 0
        for number in range(5):
            for session in (one, two):
                try:
                    await session.acquire_read(f"{number}.txt")
                except leasehold.RateLimited:
                    continue
                granted += 1
        assert granted == allowed


async def test_the_window_moves(own_shop: Shop) -> None:
    session = await own_shop.session("one", settings=FileSettings(rate_limit=1, rate_window=1, wait=0))
    refused = await eventually_async(lambda: refusal(session))  # where two of them come in one second
    await asyncio.sleep(refused.retry_after + 0.01)
    await session.acquire_read("b.txt")


async def refusal(session: Any) -> leasehold.RateLimited | None:
    try:
        await session.acquire_read("a.txt")
    except leasehold.RateLimited as refused:
        return refused
    return None


async def test_a_limit_that_cannot_be_checked_refuses_and_says_why(
    own_shop: Shop, own_server: Callable[..., Server]
) -> None:
    counting = own_server("valkey9")
    session = await own_shop.session("one", settings=limited(rate_limit_url=counting.url))
    lease = await session.acquire_read("a.txt")
    counting.kill()
    with pytest.raises(leasehold.StoreUnavailable, match="the store of rate limits"):
        await session.acquire_read("b.txt")
    await lease.release()
    counting.start()
    await session.acquire_read("b.txt")


async def test_an_observer_gets_every_check(own_shop: Shop) -> None:
    reported: list[Any] = []

    class Watcher:
        def begin(self, operation: Any) -> Any:
            return lambda result: (
                reported.append((operation.verb, result.outcome)) if operation.is_attempt else None
            )

        def hear(self, event: Any) -> None:
            if isinstance(event, RateLimitChecked):
                reported.append(event)

    client = await own_shop.client()
    client.lookout.add(Watcher())
    files = FileLocks(client, root=own_shop.root, settings=FileSettings(rate_limit=1, wait=0))
    session = await files.session("one")
    lease = await session.acquire_write("a.txt")
    with pytest.raises(leasehold.RateLimited):
        await session.acquire_read("b.txt")
    await lease.release()
    assert reported == [
        RateLimitChecked("write", True),
        ("write", "success"),
        RateLimitChecked("read", False),
        ("read", "rate_limited"),
        ("release", "success"),
    ]


@pytest.mark.parametrize("url", ["http://host", "redis:/host", "nonsense", "file:///x"])
async def test_a_store_of_limits_that_is_none_is_refused_at_once(own_shop: Shop, url: str) -> None:
    client = await own_shop.client()
    with pytest.raises(leasehold.InvalidRequest, match="rate_limit_url begins with one of redis, valkey"):
        FileLocks(client, root=own_shop.root, settings=limited(rate_limit_url=url))


def test_without_the_extra_all_but_a_limit_works_and_a_limit_names_it(
    valkey: Server, root: Any, spawn: Callable[..., Child]
) -> None:
    child = spawn(
        """
        import sys
        sys.modules["limits"] = None
        import leasehold
        from leasehold.files import FileSettings
        from leasehold.files.blocking import FileLocks
        with leasehold.blocking.connect(args[0]) as locks:
            with FileLocks(locks, root=args[1]).session("one").write("a.txt") as lease:
                fence = lease.fence
            try:
                FileLocks(locks, root=args[1], settings=FileSettings(rate_limit=1))
            except ModuleNotFoundError as error:
                report(fence=fence, error=str(error))
        """,
        valkey.url,
        str(root),
    )
    told = child.read()
    assert told["fence"] > 0
    assert told["error"] == "a rate limit needs limits: pip install 'leasehold[files]'"
