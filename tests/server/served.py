"""`leasehold serve` as a real process with real workers."""

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
from tests.support.eventually import LIMIT, eventually
from tests.support.launcher import launch

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVE = [sys.executable, "-m", "leasehold", "serve"]

START = 100.0
"""Seconds that only a hang takes: the first start in a fresh clone compiles everything that it imports."""

QUICK: dict[str, Any] = {
    "secret_key": "a secret of the tests, which has to be long",
    "argon2_time_cost": 1,
    "argon2_memory_kib": 8,
    "rate_acquire": "off",
    "rate_keep": "off",
    "rate_sign_in": "off",
    "rate_wrong_passwords": "off",
    "rate_add_member": "off",
    "rate_other": "off",
    "request_seconds": 600,
}
"""Cheap password hashes, and no rate limits: a test of those sets them."""

METRICS_TOKEN = "METRICS-TOKEN-CANARY"
"""Opens the metrics of the shared service."""


def environ_of(settings: dict[str, Any]) -> dict[str, str]:
    """The environment without variables of Leasehold, and with these settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LEASEHOLD_", "REDIS_"))}
    # Where this is set, each of the many processes would compile everything again.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
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
        """The process id of the supervisor."""
        return self._process.pid

    @property
    def base_url(self) -> str:
        return self.told["address"]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def workers(self) -> list[int]:
        """The process ids of the current workers."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        pids = [int(pid) for pid in children.split()]
        return [pid for pid in pids if _runs(pid, "leasehold.server.process.worker")]

    def worker_of(self, client_port: int) -> int:
        """The process id of the worker that serves the connection from this port."""
        port = int(self.base_url.rpartition(":")[2])
        inodes = set()
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, local, remote, *rest = line.split()
            if int(local.split(":")[1], 16) == port and int(remote.split(":")[1], 16) == client_port:
                inodes.add(f"socket:[{rest[6]}]")
        for pid in self.workers():
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # closed since it was listed
                    if str(descriptor.readlink()) in inodes:
                        return pid
        raise AssertionError("no worker has this connection")

    def kill_worker(self, pid: int | None = None, how: signal.Signals = signal.SIGKILL) -> int:
        """Signals a worker (the first), waits until it is gone if the signal is SIGKILL, and returns its process id."""
        victim = self.workers()[0] if pid is None else pid
        os.kill(victim, how)
        if how == signal.SIGKILL:
            eventually(lambda: victim not in self.workers(), message="the worker is gone")
        return victim

    def client(self, **options: Any) -> httpx.AsyncClient:
        """An HTTP client. With `headers={"Connection": "close"}` each request may reach another worker."""
        return httpx.AsyncClient(base_url=self.base_url, timeout=LIMIT, **options)

    def log(self) -> str:
        """The stderr of the supervisor and its workers."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")

    def complaints(self) -> list[str]:
        """The lines of the log, without the warning that the tests' store has no persistence."""
        return [line for line in self.log().splitlines() if "has no append-only file" not in line]

    def send(self, how: signal.Signals) -> None:
        self._process.send_signal(how)

    def wait(self, within: float = LIMIT) -> int:
        """Its exit code."""
        return self._process.wait(within)

    def close(self) -> None:
        """Stops it and its workers: by signals, so that it removes its temporary files, but without waiting for open requests."""
        workers = {*self.told.get("workers", ()), *(self.workers() if self.is_running else ())}
        if self.told and self.is_running:
            self.send(signal.SIGTERM)
            self.send(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(LIMIT)
        self._process.kill()
        for pid in workers:
            if _runs(pid, "leasehold.server.process.worker"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(LIMIT)
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
        deadline, seen = time.monotonic() + START, b""
        while b"\n" not in seen:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise AssertionError(f"not started within {START} s\n{self.log()}")
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise AssertionError(
                    f"ended ({self._process.wait(LIMIT)}) before it printed its address\n{self.log()}"
                )
            seen += data
        return seen


class SharedService:
    """One `leasehold serve` for all tests that need any service: two workers, metrics, the documentation, and so
    much time for a holder to save that the speed of the machine does not matter.

    Its users and documents stay, so a test creates its own, and compares differences of counters.
    """

    def __init__(self, directory: Path, store_url: str) -> None:
        self._settings = QUICK | {
            "secret_key": None,  # the workers share the secret in the data directory
            "data_dir": directory,
            "store_url": store_url,
            "document_ttl": 60,
            "document_save_within": 15,
            "expose_docs": True,
            "metrics_port": 0,
            "metrics_token": METRICS_TOKEN,
        }
        self._served: Served | None = None

    def running(self) -> Served:
        """The service; a new one if a test has stopped the last one, so that only that test fails."""
        if self._served is None or not self._served.is_running:
            self.close()
            self._served = Served(["--workers", "2"], self._settings).__enter__()
        return self._served

    def close(self) -> None:
        if self._served is not None:
            self._served.close()
            self._served = None


def _runs(pid: int, module: str) -> bool:
    with suppress(OSError):
        return module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
