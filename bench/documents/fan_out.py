"""Fan-out of one change to 2,000 sockets of one worker."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle
from time import monotonic, perf_counter
from typing import Any

from bench.documents import service
from bench.documents.processes import resident_bytes, serving
from bench.hand_over.holds import percentile
from bench.work import Sample

SOCKETS = 2000
FEWEST_CHANGES = 4
GATHER_SECONDS = 60
ANSWER_SECONDS = 15
LINE_BYTES = 1 << 22
SETTLE_SECONDS = 1.0

# As long as the document service's event for an acquired lock.
TEXT = "x" * 560

Change = Callable[[], Awaitable[Any]]


class MissedDelivery(Exception):
    """Some sockets got no event, or got it twice."""


class Listeners:
    """A process with 2,000 listening sockets."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def tell(self, order: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def answer(self, within: float) -> Any:
        assert self._process.stdout is not None
        async with asyncio.timeout(within):
            line = await self._process.stdout.readline()
        if not line:
            raise MissedDelivery("the sockets are gone")
        return json.loads(line)

    async def hear(self, change: Change) -> list[float]:
        """Seconds from the request of ``change`` to the arrival at each socket."""
        await self.tell(SOCKETS)
        await self.answer(ANSWER_SECONDS)
        asked_at = monotonic()
        await change()
        arrivals = (await self.answer(ANSWER_SECONDS))["arrivals"]
        if len(arrivals) != SOCKETS:
            raise MissedDelivery(f"{len(arrivals)} arrivals at {SOCKETS} sockets")
        return [arrived_at - asked_at for arrived_at in arrivals]


@dataclass(frozen=True, slots=True)
class FanOutServer:
    """A server with its listeners, ready for the next change."""

    listeners: Listeners
    change: Change
    bytes_each: float


@dataclass(frozen=True, slots=True)
class FanOut(Sample):
    """``delays`` in seconds, in order."""

    delays: tuple[float, ...] = ()
    bytes_each: float = 0.0

    @property
    def facts(self) -> dict[str, float]:
        ms = {f"p{100 * share:g} ms": 1000 * percentile(self.delays, share) for share in (0.5, 0.99)}
        return {"first ms": 1000 * self.delays[0], **ms, "KiB each": self.bytes_each / 1024}


async def measure(server: FanOutServer, _sockets: int, seconds: float) -> FanOut:
    delays: list[float] = []
    changes = 0
    began_at = perf_counter()
    while changes < FEWEST_CHANGES or perf_counter() - began_at < seconds:
        delays += await server.listeners.hear(server.change)
        changes += 1
    took = perf_counter() - began_at
    return FanOut(changes, took, delays=tuple(sorted(delays)), bytes_each=server.bytes_each)


@asynccontextmanager
async def leasehold_service(store_url: str) -> AsyncIterator[FanOutServer]:
    async with service.running(store_url) as served:
        owner = await served.register("Ana")
        viewers = [await served.register(name) for name in ("Ben", "Cleo", "Dora", "Emil")]
        (document,) = await served.create_documents(owner, 1, viewers=viewers)
        path = f"/api/documents/{document}/lock"
        steps = cycle((owner.request("POST", path, {}), owner.request("DELETE", path)))
        scripts = [
            [
                _message("authenticate", token=viewer.token, tab=f"tab {viewer.email}"),
                _message("join", document_id=document),
            ]
            for viewer in viewers
        ]
        async with _listeners(served.port, served.pid, "/ws", scripts) as (listeners, bytes_each):
            yield FanOutServer(listeners, lambda: served.caller.ask(next(steps)), bytes_each)


@asynccontextmanager
async def bare_broadcast(_store_url: str) -> AsyncIterator[FanOutServer]:
    from websockets.asyncio.client import connect  # noqa: PLC0415 - only this needs it

    async with (
        serving("-m", "bench.documents.bare_broadcast") as told,
        connect(f"ws://127.0.0.1:{told['port']}/say", compression=None) as speaker,
        _listeners(told["port"], told["pid"], "/listen", [[]]) as (listeners, bytes_each),
    ):
        yield FanOutServer(listeners, lambda: speaker.send(TEXT), bytes_each)


@asynccontextmanager
async def _listeners(
    port: int, pid: int, path: str, scripts: list[list[str]]
) -> AsyncIterator[tuple[Listeners, float]]:
    """The sockets, and how many bytes of the server's memory each of them takes."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "bench.documents.clients_process",
        stdin=PIPE,
        stdout=PIPE,
        limit=LINE_BYTES,
        start_new_session=True,  # Ctrl-C must not reach it: it ends with its stdin
    )
    try:
        listeners = Listeners(process)
        before = resident_bytes(pid)
        await listeners.tell({"port": port, "path": path, "count": SOCKETS, "scripts": scripts})
        await listeners.answer(GATHER_SECONDS)
        await asyncio.sleep(SETTLE_SECONDS)
        yield listeners, (resident_bytes(pid) - before) / SOCKETS
    finally:
        process.kill()
        await process.wait()


def _message(kind: str, **data: str) -> str:
    return json.dumps({"type": kind, "data": data})
