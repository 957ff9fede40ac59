"""The main functions of the load test's processes: a worker that can be paused at the worst moment, and the API."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sys
from typing import TYPE_CHECKING, Any

from examples.escrow.load.parent_death import end_with_parent
from examples.escrow.messages import open_queue
from examples.escrow.service import WriteObserver, open_escrow
from examples.escrow.settings import Settings
from examples.escrow.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from multiprocessing.connection import Connection

    from leasehold import StaleFence

PATIENCE = 60.0
"""Seconds to wait for the driver's reply, which takes a few; after that the driver must have ended."""


class PausingObserver(WriteObserver):
    """Stops at some of the moments between reading and writing, until the driver lets it continue.

    It blocks the whole process on purpose, as a long garbage collection or a frozen machine does: a running event
    loop would notice the end of the lease, and most late writers would stop themselves, but not all.
    """

    def __init__(self, link: Connection, chance: random.Random, share: float) -> None:
        self._link = link
        self._chance = chance
        self._share = share

    def between_read_and_write(self, accounts: Iterable[int]) -> None:
        if self._chance.random() >= self._share:
            return
        self._link.send({"event": "between", "accounts": list(accounts)})
        if not self._link.poll(PATIENCE):
            sys.exit("the driver has ended")
        self._link.recv()

    def written(self, accounts: Iterable[int]) -> None:
        self._link.send({"event": "written", "accounts": list(accounts)})

    def refused(self, error: StaleFence) -> None:
        self._link.send({"event": "refused", "seen": error.seen, "given": error.given})


def run_worker(environ: Mapping[str, str], link: Connection, name: str, seed: str, share: float) -> None:
    _prepare_process()

    def tell(**event: Any) -> None:
        link.send(event)

    async def work() -> None:
        settings = Settings.from_environ(environ)
        assert settings.store_url is not None
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        chance = random.Random(seed)  # noqa: S311 - picks moments, hides nothing
        async with (
            open_escrow(settings, PausingObserver(link, chance, share)) as escrow,
            open_queue(settings.store_url, settings.namespace) as queue,
        ):
            tell(event="ready")
            await Worker(escrow, queue, name, tell).run(stop)

    asyncio.run(work())


def run_api(environ: Mapping[str, str], link: Connection) -> None:
    _prepare_process()
    from examples.escrow.api import serve  # noqa: PLC0415 - FastAPI takes a second, and the driver does without

    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        asyncio.run(
            serve(
                Settings.from_environ(environ), listening, lambda: link.send({"event": "ready", "url": url})
            )
        )


def _prepare_process() -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
