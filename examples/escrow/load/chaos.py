"""Injects faults: kills and pauses workers at random, and pauses them between reading and writing."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from random import Random

    from examples.escrow.load.processes import Child, WorkerPool
    from examples.escrow.load.tally import Tally


class Chaos:
    def __init__(self, pool: WorkerPool, tally: Tally, chance: Random, *, ttl: float) -> None:
        self._pool = pool
        self._tally = tally
        self._chance = chance
        self._ttl = ttl
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_calm = False
        # Of each kind. Enough workers must be left to overtake those that are paused.
        self._most_paused = max(1, len(pool.children) // 4)
        self._paused: set[Child] = set()
        self._overtaken: set[Child] = set()
        self._waiting: set[Child] = set()

    def begin(self) -> None:
        self._run(self._kill_repeatedly())
        self._run(self._pause_repeatedly())

    def between(self, child: Child, accounts: list[int]) -> None:
        """Called when a worker has read and waits for permission to write."""
        if self._is_calm or len(self._overtaken) >= self._most_paused or child in self._paused:
            child.resume_write()
        else:
            self._waiting.add(child)
            self._run(self._overtake(child, accounts))

    async def stop(self) -> None:
        """Stop injecting faults, and resume all workers."""
        self._is_calm = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for child in self._waiting:  # for those whose task was cancelled before it began
            child.resume_write()
        self._waiting.clear()

    async def _overtake(self, child: Child, accounts: list[int]) -> None:
        """Pause it until its leases have ended and another worker has written to the same accounts."""
        self._tally.paused_between += 1
        self._overtaken.add(child)
        child.pause()
        began_at = time.monotonic()
        try:
            await asyncio.sleep(self._ttl * self._chance.uniform(1.2, 1.6))
            give_up_at = began_at + 4 * self._ttl
            while not self._tally.was_written_since(accounts, began_at) and time.monotonic() < give_up_at:  # noqa: ASYNC110 - has a deadline
                await asyncio.sleep(0.02)
        finally:
            self._overtaken.discard(child)
            child.resume()
            if child in self._waiting:
                self._waiting.discard(child)
                child.resume_write()

    async def _pause_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._ttl * self._chance.uniform(0.5, 2))
            running = self._pool.running()
            if running and len(self._paused) < self._most_paused:
                self._run(self._pause(self._chance.choice(running)))

    async def _pause(self, child: Child) -> None:
        self._tally.paused += 1
        self._paused.add(child)
        child.pause()
        try:
            await asyncio.sleep(self._ttl * self._chance.uniform(1.2, 2))
        finally:
            self._paused.discard(child)
            child.resume()

    async def _kill_repeatedly(self) -> None:
        while True:
            await asyncio.sleep(self._ttl * self._chance.uniform(0.8, 2.5))
            if running := self._pool.running():
                self._tally.killed += 1
                await self._pool.replace(self._chance.choice(running))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
