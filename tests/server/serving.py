"""`leasehold serve` as a real process with real workers, to be asked, killed and read."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
from tests.support.launching import launch
from tests.support.processes import ROOT
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVE = [sys.executable, "-m", "leasehold", "serve"]
_START = 150.0


def environ_of(settings: dict[str, Any]) -> dict[str, str]:
    """The environment without what it says about us, and with these settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LEASEHOLD_", "REDIS_"))}
    # Where this is set, each of the many processes that we start would compile everything anew.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    kept["PYTHONPYCACHEPREFIX"] = str(ROOT / ".pytest_cache" / "bytecode")
    return kept | {f"LEASEHOLD_{k.upper()}": str(v) for k, v in settings.items() if v is not None}


class Served:
    """Runs until the end of its context. Settings are those of `Settings`, given through the environment."""

    def __init__(self, arguments: Sequence[str], settings: dict[str, Any]) -> None:
        anywhere = () if "--port" in arguments or "port" in settings else ("--port", "0")
        self._command = [*SERVE, "--json", *anywhere, *arguments]
        self._env = environ_of(settings)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
        self.told: dict[str, Any] = {}

    def start(self) -> Self:
        """Start, and wait until all workers answer."""
        self._process = launch(self._command, stdout=subprocess.PIPE, stderr=self._log, env=self._env)
        self.told = json.loads(self._first_line())
        return self

    @property
    def pid(self) -> int:
        """Of the process that watches over the workers."""
        return self._process.pid

    @property
    def base_url(self) -> str:
        return self.told["address"]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def workers(self) -> list[int]:
        """The process ids of the workers that there are now."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        pids = [int(pid) for pid in children.split()]
        return [pid for pid in pids if _runs(pid, "leasehold.server.worker")]

    def kill_worker(self, pid: int | None = None, how: signal.Signals = signal.SIGKILL) -> int:
        """End one (the first), and wait until it is gone if it was killed; its process id."""
        victim = self.workers()[0] if pid is None else pid
        os.kill(victim, how)
        if how == signal.SIGKILL:
            eventually(lambda: victim not in self.workers(), 10, message="the worker is gone")
        return victim

    def client(self, **options: Any) -> httpx.AsyncClient:
        """Asks it. `headers={"Connection": "close"}` may meet another worker with every request."""
        return httpx.AsyncClient(base_url=self.base_url, timeout=60, **options)

    def log(self) -> str:
        """What it and its workers have written to stderr."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def complaints(self) -> list[str]:
        """The lines of the log, but for the warning that a store of the tests forgets everything with a restart."""
        return [line for line in self.log().splitlines() if "has no append-only file" not in line]

    def send(self, how: signal.Signals) -> None:
        self._process.send_signal(how)

    def wait(self, within: float = 150.0) -> int:
        """Its exit code."""
        return self._process.wait(within)

    def close(self) -> None:
        """End it and its workers."""
        workers = {*self.told.get("workers", ()), *(self.workers() if self.is_running else ())}
        self._process.kill()
        for pid in workers:
            if _runs(pid, "leasehold.server.worker"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(10)
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _first_line(self) -> bytes:
        assert self._process.stdout
        deadline, seen = time.monotonic() + _START, b""
        while b"\n" not in seen:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise AssertionError(f"not started within {_START} s\n{self.log()}")
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise AssertionError(f"ended ({self._process.wait(10)}) without a word\n{self.log()}")
            seen += data
        return seen


def _runs(pid: int, module: str) -> bool:
    with suppress(OSError):
        return module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
