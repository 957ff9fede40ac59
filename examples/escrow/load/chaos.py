"""What is done to the workers: killed anywhere, paused anywhere, and paused between reading and writing."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from random import Random

    from examples.escrow.load.crew import Child, Crew
    from examples.escrow.load.tally import Tally


class Chaos:
    def __init__(self, crew: Crew, tally: Tally, chance: Random, *, ttl: float) -> None:
        self._crew = crew
        self._tally = tally
        self._chance = chance
        self._ttl = ttl
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_calm = False
        # Of each kind. Enough workers must be left to overtake those that are paused.
        self._most_paused = max(1, len(crew.members) // 4)
        self._paused: set[Child] = set()
        self._overtaken: set[Child] = set()
        self._waiting: set[Child] = set()

    def begin(self) -> None:
        self._run(self._kill_now_and_then())
        self._run(self._pause_now_and_then())

    def between(self, member: Child, accounts: list[int]) -> None:
        """A worker has read and waits for our word to write."""
        if self._is_calm or len(self._overtaken) >= self._most_paused or member in self._paused:
            member.say_go()
        else:
            self._waiting.add(member)
            self._run(self._overtake(member, accounts))

    async def calm_down(self) -> None:
        """Let everybody go on, and do no more harm."""
        self._is_calm = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for member in self._waiting:  # for those whose task was cancelled before it began
            member.say_go()
        self._waiting.clear()

    async def _overtake(self, member: Child, accounts: list[int]) -> None:
        """Keep it until its leases have ended and somebody else has written to the same accounts."""
        self._tally.paused_between += 1
        self._overtaken.add(member)
        member.pause()
        began_at = time.monotonic()
        try:
            await asyncio.sleep(self._ttl * self._chance.uniform(1.2, 1.6))
            give_up_at = began_at + 4 * self._ttl
            while not self._tally.was_written_since(accounts, began_at) and time.monotonic() < give_up_at:  # noqa: ASYNC110 - has a deadline
                await asyncio.sleep(0.02)
        finally:
            self._overtaken.discard(member)
            member.resume()
            if member in self._waiting:
                self._waiting.discard(member)
                member.say_go()

    async def _pause_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._ttl * self._chance.uniform(0.5, 2))
            running = self._crew.running()
            if running and len(self._paused) < self._most_paused:
                self._run(self._pause(self._chance.choice(running)))

    async def _pause(self, member: Child) -> None:
        self._tally.paused += 1
        self._paused.add(member)
        member.pause()
        try:
            await asyncio.sleep(self._ttl * self._chance.uniform(1.2, 2))
        finally:
            self._paused.discard(member)
            member.resume()

    async def _kill_now_and_then(self) -> None:
        while True:
            await asyncio.sleep(self._ttl * self._chance.uniform(0.8, 2.5))
            if running := self._crew.running():
                self._tally.killed += 1
                await self._crew.replace(self._chance.choice(running))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
