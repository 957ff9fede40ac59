"""``leasehold serve``: the embedded Valkey in the foreground."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from pathlib import Path
from urllib.parse import quote

from rich.text import Text

import leasehold
from leasehold.cli.showing import show_facts, show_json
from leasehold.valkey.embedded import default_data_dir, ensure_running


async def serve(data_dir: Path | str | None, *, timeout: float, in_json: bool) -> None:
    """Keep the embedded server running until a signal comes.

    The open connection is what keeps it; should the server die, the client's reconnect starts another.
    """
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    where = data_dir or os.environ.get("LEASEHOLD_DATA_DIR") or None
    async with leasehold.connect(data_dir=where, timeout=timeout):
        shown = await asyncio.to_thread(lambda: Path(where or default_data_dir()).resolve())
        url = f"unix://{quote(str(await asyncio.to_thread(ensure_running, where)))}"
        if in_json:
            show_json({"url": url, "data_dir": str(shown)})
        else:
            _welcome(url, shown, is_default=where is None)
        await stop.wait()


def _welcome(url: str, data_dir: Path, *, is_default: bool) -> None:
    where = "" if is_default else f" --url {shlex.quote(url)}"
    facts = {
        "url": url,
        "data": str(data_dir),
        "try": f"leasehold run demo{where} -- sleep 5",
        "and": f"leasehold show demo{where}",
        "stop": "Ctrl-C; the locks are kept on disk",
    }
    show_facts(Text("The embedded Valkey is running", style="bold green"), facts)
