"""The ACL rights that docs/service.md lists are enough."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.support.eventually import eventually_async

import leasehold

ROOT = Path(__file__).parents[2]


async def test_the_rights_that_the_page_lists_are_enough(own_server) -> None:
    page = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
    sentence = re.search(r"`\+@connection .*?`&leasehold:\*`", page, re.DOTALL)
    assert sentence is not None
    rights = re.findall(r"`(\+@connection [^`]+|~lock:\*|~idempotency:\*|&leasehold:\*)`", sentence[0])
    assert len(rights) == 4
    server = own_server(
        "valkey9", user=["default off", f"locker on >secret resetchannels -@all {' '.join(rights)}"]
    )
    async with leasehold.connect(server.url_for(username="locker", password="secret")) as locks:
        async with locks.lock("deal:42", ttl=5) as lease:
            await lease.renew()
            assert await locks.try_acquire("deal:42") is None
        taken = await locks.take("deal:42")
        assert (await locks.inspect("deal:42")).fence == taken.fence
        await taken.release()
        async with locks.lock("deal:44", mode="shared"), locks.lock("deal:44", mode="shared"):
            waiting = asyncio.create_task(locks.acquire("deal:44", wait=20, ttl=5))

            async def is_waited_for():
                return (await locks.inspect("deal:44")).waiters

            await eventually_async(is_waited_for)
        await (await waiting).release()
        async with locks.lock_all(["deal:45", "deal:46"]):
            assert [info.name async for info in locks.list("deal:45")] == ["deal:45"]
        assert [await locks.once("payout:42", lambda: 1), await locks.once("payout:42", lambda: 2)] == [1, 1]
        assert [await locks.first_time("deposit", 7), await locks.first_time("deposit", 7)] == [True, False]
        lost = await locks.acquire("deal:43", ttl=5)
        await (await locks.take("deal:43")).release()
        with pytest.raises(leasehold.LeaseLost, match="taken"):
            await lost.release()
