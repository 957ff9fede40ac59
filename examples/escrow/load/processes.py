"""The driver's handles on the processes of the load test: start, pause, kill, replace."""

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

# Forked from a process that has imported everything, so that replacing a killed worker is fast and cheap.
FORKSERVER = multiprocessing.get_context("forkserver")
FORKSERVER.set_forkserver_preload(
    ["examples.escrow.load.forkserver_preload", "examples.escrow.load.child_main", "examples.escrow.api"]
)

START_SECONDS = 60.0
END_SECONDS = 10.0


class NotStartedError(Exception):
    """A process did not start. Its error is on stderr."""


class Child:
    """One process and the connection to it."""

    def __init__(
        self, run: Callable[..., None], *args: Any, name: str, on_event: Callable[[Child, Any], None]
    ) -> None:
        self.name = name
        self.link, theirs = FORKSERVER.Pipe()
        environ, *rest = args
        self.process: ForkServerProcess = FORKSERVER.Process(
            target=run, args=(environ, theirs, *rest), name=name, daemon=True
        )
        self.process.start()
        theirs.close()
        self.ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.paused_at: float | None = None
        self.is_wanted = True
        self._on_event = on_event
        asyncio.get_running_loop().add_reader(self.link.fileno(), self._on_message)

    @property
    def is_running(self) -> bool:
        return self.process.is_alive() and self.paused_at is None

    async def wait_ready(self) -> Any:
        """Wait for its ready message and return it."""
        await asyncio.wait([self.ready], timeout=START_SECONDS)
        if not self.ready.done() or self.ready.cancelled():
            raise NotStartedError(f"{self.name} did not start")
        return self.ready.result()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)
        self.paused_at = time.monotonic()

    def resume(self) -> None:
        self._signal(signal.SIGCONT)
        self.paused_at = None

    def resume_write(self) -> None:
        """Let a worker continue that has stopped between reading and writing."""
        with suppress(OSError):
            self.link.send("go")

    async def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End the process; on return it has ended."""
        self.is_wanted = False
        self._signal(how)
        if self.paused_at is not None:
            self.resume()
        deadline = time.monotonic() + END_SECONDS
        while self.process.is_alive():
            if time.monotonic() > deadline:
                self._signal(signal.SIGKILL)
            await asyncio.sleep(0.01)
        self._close_link()

    def _signal(self, number: signal.Signals) -> None:
        if self.process.pid is not None and self.process.is_alive():
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)

    def _on_message(self) -> None:
        try:
            while self.link.poll():
                event = self.link.recv()
                if event["event"] == "ready" and not self.ready.done():
                    self.ready.set_result(event)
                self._on_event(self, event)
        except (EOFError, OSError):
            self._close_link()
            self._on_event(self, {"event": "ended"})

    def _close_link(self) -> None:
        link: Connection = self.link
        if not link.closed:
            asyncio.get_running_loop().remove_reader(link.fileno())
            link.close()
        if not self.ready.done():
            self.ready.cancel()


class WorkerPool:
    """A fixed number of workers, in which ended workers are replaced."""

    def __init__(self, start: Callable[[int, int], Child], size: int) -> None:
        self._start = start
        self._lives = [0] * size
        self.children = [start(number, 0) for number in range(size)]

    async def replace_ended(self) -> None:
        """Replace the workers that have ended."""
        for child in self.children:
            if not child.process.is_alive():
                await self.replace(child)

    async def replace(self, child: Child) -> None:
        """Kill a worker, and start another in its place."""
        await child.end()
        if child in self.children:
            number = self.children.index(child)
            self._lives[number] += 1
            self.children[number] = self._start(number, self._lives[number])

    def running(self) -> list[Child]:
        return [child for child in self.children if child.is_running]

    async def end(self) -> None:
        """End all workers with SIGTERM, so that they finish their current message."""
        await asyncio.gather(*(child.end(signal.SIGTERM) for child in self.children))


def child_environ(settings: Mapping[str, str], ttl: float, purposes: list[str]) -> dict[str, str]:
    """The environment of the service, with leases so short that a load test can outlast them."""
    times = {f"LEASEHOLD_PURPOSE_{purpose.upper()}_TTL": f"{ttl:g}s" for purpose in purposes}
    return {**settings, **times}
