"""``leasehold serve``: one process that listens and watches over those that answer."""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import leasehold
from leasehold.server.auth.signing_keys import load_keys
from leasehold.server.demo_team import TEAM, Person
from leasehold.server.http.logs import configure_logs
from leasehold.server.process.listener import address_of, listen
from leasehold.server.process.metrics_port import metrics_directory, metrics_served
from leasehold.server.process.supervisor import Workers
from leasehold.valkey.embedded import ensure_running
from leasehold.valkey.transport.endpoint import parse

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from pathlib import Path

    from leasehold.server.settings import Settings


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers. ``store`` is without its password; ``team`` is empty without the demo.

    ``metrics`` is where they are if they have a port of their own.
    """

    address: str
    store: str
    data_dir: Path
    workers: list[int]
    team: tuple[Person, ...]
    metrics: str | None = None


async def run(settings: Settings, on_running: Callable[[Running], None]) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP, and call ``on_running`` as soon as every worker answers.

    Raises `leasehold.LeaseholdError` if it cannot begin: `InvalidRequest` for what can be mended by other settings,
    `StoreError` for a store or a database that does not answer. Afterwards only a signal ends it; a second one
    does not wait for anybody.
    """
    configure_logs(settings)
    await asyncio.to_thread(load_keys, _revealed(settings), settings.data_dir)
    with (
        listen(settings) as listener,
        metrics_directory(settings) as directory,
        metrics_served(settings, directory) as metrics,
    ):
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        workers = Workers(settings, listener, metrics_directory=directory)
        async with _store(settings) as store, _signals(workers) as stop:
            keeping = asyncio.create_task(workers.keep())
            try:
                await _first(keeping, workers.all_serve, stop)
                if workers.all_serve.is_set():
                    address = address_of(listener, settings)
                    team = TEAM if settings.demo else ()
                    on_running(Running(address, store, settings.data_dir, workers.pids, team, metrics))
                await _first(keeping, stop)
            finally:
                listener.close()  # whoever comes now is refused, instead of waiting for nobody
                await workers.stop()
                await keeping


async def _first(task: asyncio.Task[None], *events: asyncio.Event) -> None:
    """Wait until one of these has happened; what the task raises comes out here."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait([task, *waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
    if task.done():
        task.result()


@asynccontextmanager
async def _store(settings: Settings) -> AsyncGenerator[str]:
    """The store of locks: it must answer when the server begins. The embedded one is kept by this connection."""
    if settings.store_url is None:
        async with leasehold.connect(data_dir=settings.data_dir, timeout=settings.store_timeout):
            path = await asyncio.to_thread(ensure_running, settings.data_dir)
            yield f"unix://{quote(str(path))}"
    else:
        async with leasehold.connect(
            settings.store_url, timeout=settings.store_timeout, allow_eviction=settings.allow_eviction
        ):
            pass
        endpoint = parse(settings.store_url)
        yield str(endpoint) if endpoint.path else f"redis://{endpoint}"


@asynccontextmanager
async def _signals(workers: Workers) -> AsyncGenerator[asyncio.Event]:
    """An event that is set by the signals that end us."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def heard() -> None:
        if stop.is_set():
            workers.kill()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, heard)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


def _revealed(settings: Settings) -> str | None:
    return settings.secret_key.get_secret_value() if settings.secret_key else None
