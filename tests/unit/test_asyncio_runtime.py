"""Ending tasks."""

from __future__ import annotations

import asyncio

import pytest

from leasehold.runtime.asyncio_runtime import AsyncioConcurrency, end_tasks


async def try_for_ever(losses: int) -> None:
    """As a loop over a driver that raises its own failure when it is cancelled in a bad moment."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if not losses:
                raise
            losses -= 1


@pytest.mark.parametrize("losses", [0, 1, 2])
async def test_a_task_that_loses_a_cancellation_is_ended_all_the_same(losses: int) -> None:
    task = asyncio.create_task(try_for_ever(losses))
    await asyncio.sleep(0)
    await asyncio.wait_for(end_tasks({task}), 20)
    assert task.cancelled()


async def test_closing_ends_all_of_them() -> None:
    tasks = AsyncioConcurrency()
    for losses in (0, 1):
        tasks.spawn(try_for_ever(losses))
    await asyncio.sleep(0)
    await asyncio.wait_for(tasks.close(), 20)
    assert len(asyncio.all_tasks()) == 1
