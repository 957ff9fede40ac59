"""Rate limits in a store of their own, which is not that of the locks."""

from __future__ import annotations

import io
import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.files.test_file_rate_limit import refusal
from tests.support.eventually import eventually_async

import leasehold
from leasehold.files import FileLocks, FileSettings
from leasehold.observe import observe
from leasehold.observe.logging import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.servers import Server


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The observer's reports about stores."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lambda: [
        line for line in map(json.loads, stream.getvalue().splitlines()) if line["event"].startswith("store_")
    ]
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


async def test_the_store_of_limits_is_named_when_it_is_away_and_that_of_the_locks_is_not_blamed(
    valkey: Server,
    own_server: Callable[..., Server],
    root: Path,
    caplog: pytest.LogCaptureFixture,
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    counting = own_server("valkey9", requirepass="hunter2")
    settings = FileSettings(wait=0, rate_limit=1000, rate_limit_url=counting.url_for(password="hunter2"))
    where = f"127.0.0.1:{counting.port}"
    async with leasehold.connect(valkey.url) as client:
        observe(client, metrics=False, tracing=False)
        session = await FileLocks(client, root=root, settings=settings).session("one")
        await session.acquire_read("a.txt")
        counting.kill()
        for _ in range(3):
            with pytest.raises(leasehold.StoreUnavailable, match=f"limits at {where} cannot") as away:
                await session.acquire_read("b.txt")
            assert away.value.store == where
            await session.history()  # the store of the locks answers, in between
            await client.inspect("x")
        counting.start()

        async def works() -> bool:
            with suppress(leasehold.StoreUnavailable):
                return (await session.acquire_read("b.txt")).mode == "read"
            return False

        await eventually_async(works)
    told = [record.getMessage() for record in caplog.records if record.name == "leasehold.files"]
    name = f"the store of rate limits at {where}"
    assert [message for message in told if "available" in message] == [
        f"unavailable: {name} cannot be reached (ECONNREFUSED); file locks are refused until it can",
        f"available again: {name}",
    ]
    assert [(line["event"], line["store"]) for line in lines()] == [
        ("store_unavailable", where),
        ("store_is_back", where),
    ]
    assert "hunter2" not in caplog.text


async def test_the_store_of_the_locks_is_named_with_the_code_when_that_is_away(
    valkey: Server,
    own_server: Callable[..., Server],
    root: Path,
    caplog: pytest.LogCaptureFixture,
    lines: Callable[[], list[dict[str, Any]]],
) -> None:
    locking = own_server("valkey9")
    settings = FileSettings(wait=0, rate_limit=1000, rate_limit_url=valkey.url)
    async with leasehold.connect(locking.url, timeout=3) as client:
        observe(client, metrics=False, tracing=False)
        session = await FileLocks(client, root=root, settings=settings).session("one")
        locking.kill()
        for _ in range(2):
            with pytest.raises(leasehold.StoreUnavailable) as away:
                await session.acquire_read("a.txt")
            assert away.value.store == ""
    where = f"127.0.0.1:{locking.port}"
    told = [record.getMessage() for record in caplog.records if record.name == "leasehold.files"]
    assert [message for message in told if "available" in message] == [
        f"unavailable: {where} cannot be reached (ECONNREFUSED); file locks are refused until it can"
    ]
    assert [(line["event"], line["store"], line["code"]) for line in lines()] == [
        ("store_unavailable", where, "ECONNREFUSED")
    ]


@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@host:port",
        "redis://:hunter2@[::1",
        "redis://:hunter2@host:99999",
        "unix://:hunter2@/run/x?db=z",
    ],
)
async def test_an_address_that_makes_no_sense_is_refused_and_not_repeated(
    valkey: Server, root: Path, url: str
) -> None:
    async with leasehold.connect(valkey.url) as client:
        with pytest.raises(leasehold.InvalidRequest) as refused:
            FileLocks(client, root=root, settings=FileSettings(rate_limit=1, rate_limit_url=url))
    assert str(refused.value).startswith("the host, the port or the database in rate_limit_url is not valid")
    assert "hunter2" not in str(refused.value)
    assert refused.value.__suppress_context__


async def test_a_window_of_less_than_a_second_is_one_second(valkey: Server, root: Path) -> None:
    settings = FileSettings(rate_limit=1, rate_window=0.001, wait=0)
    async with leasehold.connect(valkey.url) as client:
        session = await FileLocks(client, root=root, settings=settings).session("one")
        refused = await eventually_async(lambda: refusal(session))
        assert 0.001 < refused.retry_after <= 1
