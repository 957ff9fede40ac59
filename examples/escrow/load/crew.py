"""The processes of the load test, as seen by the driver: started, heard, paused, killed, replaced."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

# Forked from a process that has imported everything: a killed worker is replaced at once and for little.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["examples.escrow.load.nursery", "examples.escrow.load.child", "examples.escrow.api"]
)

TO_START = 60.0
TO_END = 10.0


class NotStartedError(Exception):
    """A process did not come up. What it complained of is on stderr."""


class Child:
    """One process and the line to it."""

    def __init__(
        self, run: Callable[..., None], *args: Any, name: str, on_event: Callable[[Child, Any], None]
    ) -> None:
        self.name = name
        self.link, theirs = FORKS.Pipe()
        environ, *rest = args
        self.process: ForkServerProcess = FORKS.Process(
            target=run, args=(environ, theirs, *rest), name=name, daemon=True
        )
        self.process.start()
        theirs.close()
        self.ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.paused_at: float | None = None
        self.is_wanted = True
        self._on_event = on_event
        asyncio.get_running_loop().add_reader(self.link.fileno(), self._hear)

    @property
    def is_running(self) -> bool:
        return self.process.is_alive() and self.paused_at is None

    async def wait_ready(self) -> Any:
        """What it says when it is ready."""
        await asyncio.wait([self.ready], timeout=TO_START)
        if not self.ready.done() or self.ready.cancelled():
            raise NotStartedError(f"{self.name} did not come up")
        return self.ready.result()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.paused_at = time.monotonic()

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.paused_at = None

    def say_go(self) -> None:
        """To a worker that stands between reading and writing."""
        with suppress(OSError):
            self.link.send("go")

    async def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """On return it has ended."""
        self.is_wanted = False
        self._signal(how)
        if self.paused_at is not None:
            self.resume()
        deadline = time.monotonic() + TO_END
        while self.process.is_alive():
            if time.monotonic() > deadline:
                self._signal(signal.SIGKILL)
            await asyncio.sleep(0.01)
        self._hang_up()

    def _signal(self, number: signal.Signals) -> None:
        if self.process.pid is not None and self.process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def _hear(self) -> None:
        try:
            while self.link.poll():
                event = self.link.recv()
                if event["event"] == "ready" and not self.ready.done():
                    self.ready.set_result(event)
                self._on_event(self, event)
        except (EOFError, OSError):
            self._hang_up()
            self._on_event(self, {"event": "ended"})

    def _hang_up(self) -> None:
        link: Connection = self.link
        if not link.closed:
            asyncio.get_running_loop().remove_reader(link.fileno())
            link.close()
        if not self.ready.done():
            self.ready.cancel()


class Crew:
    """A fixed number of workers: one that has ended is replaced."""

    def __init__(self, start: Callable[[int, int], Child], size: int) -> None:
        self._start = start
        self._lives = [0] * size
        self.members = [start(number, 0) for number in range(size)]

    async def mend(self) -> None:
        """Replace those that have ended."""
        for member in self.members:
            if not member.process.is_alive():
                await self.replace(member)

    async def replace(self, member: Child) -> None:
        """Kill it, and start another in its place."""
        await member.end()
        if member in self.members:
            number = self.members.index(member)
            self._lives[number] += 1
            self.members[number] = self._start(number, self._lives[number])

    def running(self) -> list[Child]:
        return [member for member in self.members if member.is_running]

    async def end(self) -> None:
        """All of them, politely: what they are at is finished."""
        await asyncio.gather(*(member.end(signal.SIGTERM) for member in self.members))


def child_environ(settings: Mapping[str, str], ttl: float, purposes: list[str]) -> dict[str, str]:
    """The environment of the service, with leases so short that a load test can outlast them."""
    times = {f"LEASEHOLD_PURPOSE_{purpose.upper()}_TTL": f"{ttl:g}s" for purpose in purposes}
    return {**settings, **times}
