"""A subscription is tried until it succeeds; without pub/sub its subscriber polls."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.eventually import eventually_async

from leasehold.errors import StoreUnavailable
from leasehold.runtime import subscription
from leasehold.runtime.subscription import keep_subscribed


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(subscription, "_RETRY_EVERY", 0.0)


async def test_it_is_retried_until_it_succeeds_and_then_resumed_once(caplog):
    outcomes = iter([StoreUnavailable("away"), StoreUnavailable("away"), OSError(), True])
    resumed = []

    async def subscribe():
        match next(outcomes):
            case Exception() as error:
                raise error
            case is_heard:
                return is_heard

    await keep_subscribed(subscribe, lambda: resumed.append(True), deaf_every=0.0, to="news")
    assert resumed == [True]
    # Logged once per cause, not per try.
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["no subscription to news yet: away", "no subscription to news yet: OSError"]


async def test_without_pub_sub_it_polls_until_it_is_cancelled():
    resumed = []

    async def subscribe():
        return False

    task = asyncio.ensure_future(
        keep_subscribed(subscribe, lambda: resumed.append(True), deaf_every=0.001, to="news")
    )
    await eventually_async(lambda: len(resumed) >= 3)
    task.cancel()
    await asyncio.wait({task})
