"""The hash of a lock that is never idle does not keep a field for every client that ever asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import leasehold
from leasehold.valkey.store import ValkeyStore

if TYPE_CHECKING:
    from tests.conftest import Count
    from tests.support.servers import Server


@pytest.mark.parametrize("mode", ["exclusive", "shared"])
async def test_clients_that_are_gone_leave_no_field_for_each_of_them(
    any_server: Server, count: Count, mode: str
) -> None:
    clients = count(full=2_000, quick=250)
    async with leasehold.connect(any_server.url) as locks:
        transport = locks.store_access.transport
        store = ValkeyStore(transport, namespace="lock", live=0.001)
        # The lock is always held, and always has a waiter.
        assert (await locks.acquire("deal", ttl=600, mode="shared")).fence
        await store.acquire("deal", "f" * 32, 1, 600, 0, '"first"', "exclusive", 600)
        for number in range(clients):
            transport.channel = f"{number:016x}"
            await store.acquire("deal", f"{number:032x}", 1, 600, 0, '"x"', mode, 600)
            await store.release("deal", f"{number:032x}", 0, None)
        with any_server.admin() as admin:
            fields = admin.hkeys("lock:{deal}:people")
        assert len([field for field in fields if len(field) == 16]) < clients / 4
