"""Runs the service without load: the API and some workers, until Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from examples.escrow.database import create_tables, has_tables, open_accounts, open_engine
from examples.escrow.load.child_main import run_api, run_worker
from examples.escrow.load.processes import Child, WorkerPool
from examples.escrow.load.store import embedded
from examples.escrow.load.traffic import OPENINGS

import leasehold

if TYPE_CHECKING:
    from examples.escrow.load.driver import Options
    from rich.console import Console


async def serve_escrow(options: Options, console: Console) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with TemporaryDirectory(prefix="escrow-", ignore_cleanup_errors=True) as made:
        store_url = options.store_url or await asyncio.to_thread(embedded, Path(made) / "store")
        environ = {
            "ESCROW_DATABASE_URL": options.database_url or f"sqlite+aiosqlite:///{made}/escrow.db",
            "ESCROW_STORE_URL": store_url,
        }
        async with leasehold.connect(store_url), open_engine(environ["ESCROW_DATABASE_URL"]) as engine:
            if not await has_tables(engine):
                await create_tables(engine)
                await open_accounts(engine, OPENINGS)
            api = Child(run_api, environ, name="api", on_event=_ignore)
            pool = WorkerPool(
                lambda number, life: _start_worker(environ, f"worker-{number}-{life}"), options.workers
            )
            try:
                url = (await api.wait_ready())["url"]
                console.print(f"{url}/docs, with {options.workers} workers; Ctrl-C ends it", highlight=False)
                while not stop.is_set():
                    await pool.replace_ended()
                    await asyncio.sleep(0.2)
            finally:
                await pool.end()
                await api.end()


def _start_worker(environ: dict[str, str], name: str) -> Child:
    return Child(run_worker, environ, name, name, 0.0, name=name, on_event=_ignore)


def _ignore(child: Child, event: Any) -> None:
    del child, event
