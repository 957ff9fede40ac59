"""Runs one load test: starts the processes, sends traffic, injects faults, waits until all is done, and judges."""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import httpx
from examples.escrow import notifications
from examples.escrow.database import create_tables, drop_tables, has_tables, open_accounts, open_engine
from examples.escrow.load.chaos import Chaos
from examples.escrow.load.child_main import run_api, run_worker
from examples.escrow.load.processes import Child, WorkerPool, child_environ
from examples.escrow.load.store import embedded
from examples.escrow.load.tally import Tally
from examples.escrow.load.traffic import OPENINGS, Traffic
from examples.escrow.load.verdict import Verdict, judge
from examples.escrow.messages import Queue, open_queue
from examples.escrow.service import Escrow, open_escrow
from examples.escrow.settings import Settings
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from leasehold.operations import STANDARD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from rich.console import Console

TTL = 1.5
"""The ttl of every lease in seconds, instead of the 10 to 300 of the standard purposes."""

STALL_SHARE = 0.15
"""The share of the writes at which a worker stops; most of these continue at once."""

SETTLE_SECONDS = 120.0
"""Seconds after the load in which all messages must be processed; less if there is no progress."""

IDLE_SECONDS = 30.0

MAX_SECONDS = 180.0
"""The load ends after this many seconds at most, or twice the requested time, if that is more."""


class NotEmptyError(Exception):
    """The database has an escrow service's tables already."""


@dataclass(frozen=True, slots=True)
class Options:
    seconds: float
    workers: int
    seed: int
    database_url: str | None
    store_url: str | None


async def run(options: Options, guards: str, console: Console) -> Verdict:
    """Run the test with ``guards`` on or off. All processes have ended on return."""
    async with AsyncExitStack() as stack:
        directory = Path(
            stack.enter_context(TemporaryDirectory(prefix="escrow-", ignore_cleanup_errors=True))
        )
        store_url = options.store_url or await asyncio.to_thread(embedded, directory / "store")
        database_url = options.database_url or f"sqlite+aiosqlite:///{directory}/escrow.db"
        environ = child_environ(
            {
                "ESCROW_DATABASE_URL": database_url,
                "ESCROW_STORE_URL": store_url,
                "ESCROW_NAMESPACE": f"escrow-{secrets.token_hex(4)}",
                "ESCROW_GUARDS": guards,
            },
            TTL,
            list(STANDARD),
        )
        settings = Settings.from_environ(environ)
        escrow = await stack.enter_async_context(open_escrow(settings))
        await stack.enter_async_context(_fresh_tables(database_url))
        queue = await stack.enter_async_context(open_queue(store_url, settings.namespace))
        stack.push_async_callback(queue.remove)
        scene = LoadTest(options, environ, escrow, queue)
        stack.push_async_callback(scene.close)
        return await scene.run(guards, console)


class LoadTest:
    def __init__(self, options: Options, environ: dict[str, str], escrow: Escrow, queue: Queue) -> None:
        self._options = options
        self._environ = environ
        self._escrow = escrow
        self._queue = queue
        self._tally = Tally()
        self._api = Child(run_api, environ, name="api", on_event=self._on_message)
        self._pool = WorkerPool(self._start_worker, options.workers)
        self._chaos = Chaos(self._pool, self._tally, Random(f"chaos {options.seed}"), ttl=TTL)  # noqa: S311 - a seed is wanted

    async def run(self, guards: str, console: Console) -> Verdict:
        url = (await self._api.wait_ready())["url"]
        for child in self._pool.children:
            await child.wait_ready()
        with Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[figures]}"),
            console=console,
        ) as progress:
            async with httpx.AsyncClient(base_url=url, timeout=40) as http:
                chance = Random(f"traffic {self._options.seed}")  # noqa: S311 - a seed is wanted
                traffic = Traffic(http, self._queue, chance, max_backlog=6 * self._options.workers)
                await self._load(traffic, progress, guards)
                left = await self._settle(traffic, progress)
        await self._pool.end()
        aside = await self._queue.count_aside()
        return await judge(self._escrow, traffic, self._tally, guards=guards, left=left, aside=aside)

    async def close(self) -> None:
        await self._chaos.stop()
        await self._pool.end()
        await self._api.end()

    async def _load(self, traffic: Traffic, progress: Progress, guards: str) -> None:
        """Run for the requested time; longer if no worker was paused or killed, or no stale write was refused."""
        bar = progress.add_task("load", total=self._options.seconds, figures="")
        began_at = time.monotonic()
        longest = max(2 * self._options.seconds, MAX_SECONDS)
        self._chaos.begin()
        stop = asyncio.Event()
        coming = asyncio.ensure_future(traffic.generate(stop))
        try:
            while (passed := time.monotonic() - began_at) < self._options.seconds or (
                guards == "on" and not self._tally.shows_something and passed < longest
            ):
                if coming.done():
                    coming.result()
                await self._pool.replace_ended()
                progress.update(bar, completed=passed, figures=self._figures())
                await asyncio.sleep(0.1)
        finally:
            stop.set()
            await self._chaos.stop()
            await self._pool.replace_ended()
        await coming
        progress.update(bar, completed=self._options.seconds, figures=self._figures())

    async def _settle(self, traffic: Traffic, progress: Progress) -> int:
        """Wait until all messages are processed; the number of messages left if that takes too long."""
        bar = progress.add_task("settle", total=None, figures="")
        began_at = self._tally.last_done_at = time.monotonic()
        while True:
            new = await traffic.decide() + await traffic.send(50)
            left = await self._queue.backlog()
            if not new and not left and not await notifications.count_unsent(self._escrow):
                break
            now = time.monotonic()
            if now - began_at > SETTLE_SECONDS or now - self._tally.last_done_at > IDLE_SECONDS:
                break
            progress.update(bar, figures=f"{left} messages left")
            await asyncio.sleep(0.1)
        progress.update(bar, total=1, completed=1, figures=f"{left} messages left")
        return left

    def _start_worker(self, number: int, life: int) -> Child:
        name = f"worker-{number}-{life}"
        seed = f"{name} {self._options.seed}"
        return Child(run_worker, self._environ, name, seed, STALL_SHARE, name=name, on_event=self._on_message)

    def _on_message(self, child: Child, event: Any) -> None:
        self._tally.count(event)
        if event["event"] == "between":
            self._chaos.between(child, event["accounts"])
        elif event["event"] == "ended" and child.is_wanted:
            self._tally.crashed += 1

    def _figures(self) -> str:
        tally = self._tally
        return (
            f"{tally.done.total()} done · {tally.refused} stale writes refused · {tally.killed} killed · "
            f"{tally.paused + tally.paused_between} paused"
        )


@asynccontextmanager
async def _fresh_tables(url: str) -> AsyncIterator[None]:
    """Create the tables, which must not exist, and drop them on exit."""
    async with open_engine(url) as engine:
        if await has_tables(engine):
            raise NotEmptyError("the database has escrow tables already; give the load test an empty one")
        await create_tables(engine)
        try:
            await open_accounts(engine, OPENINGS)
            yield
        finally:
            await drop_tables(engine)
