"""Real RabbitMQ and NATS servers on loopback, each with its own directory and ports. `make system` installs them."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from tests.support.eventually import LIMIT
from tests.support.launcher import launch

if TYPE_CHECKING:
    import subprocess

# The wrapper in /usr/sbin changes to the user rabbitmq and to the system's own directories; this does not.
_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class BrokerFailedError(Exception):
    """The broker did not come up; the message ends with its log."""


class BrokerMissingError(Exception):
    """The broker is not installed."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Broker:
    """A broker's processes. Use it as a context manager: all of them end with it, or with the test run."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="lh-broker-"))
        self.port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    def _start(self) -> None:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self._start()
            deadline = time.monotonic() + 90  # Erlang takes five seconds on an idle machine
            while not self._is_ready():
                if time.monotonic() > deadline or any(each.poll() is not None for each in self._processes):
                    raise BrokerFailedError(f"{type(self).__name__} did not come up\n{self.log_tail()}")
                time.sleep(0.05)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait(LIMIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def log_tail(self) -> str:
        log = self.directory / "log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-40:]) if log.exists() else "(no log)"

    def _run(self, command: list[str], log: IO[bytes], env: dict[str, str] | None = None) -> None:
        self._processes.append(
            launch(
                command, stdout=log, stderr=log, cwd=str(self.directory), env={**os.environ, **(env or {})}
            )
        )

    def _answers(self, greeting: bytes, reply: bytes) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as probe:
                probe.sendall(greeting)
                return probe.recv(64).startswith(reply)
        except OSError:
            return False


def nats_url(port: int) -> str:
    return f"nats://127.0.0.1:{port}"


def rabbit_url(port: int) -> str:
    return f"amqp://guest:guest@127.0.0.1:{port}/"


class Nats(Broker):
    """NATS with JetStream."""

    def _start(self) -> None:
        binary = shutil.which("nats-server", path=os.pathsep.join([*os.get_exec_path(), "/usr/sbin"]))
        if binary is None:
            raise BrokerMissingError("nats-server is missing: make system")
        options = ["-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.directory / "data")]
        with (self.directory / "log").open("wb") as log:
            self._run([binary, *options], log)

    def _is_ready(self) -> bool:
        return self._answers(b"", b"INFO ") and "Server is ready" in self.log_tail()


class Rabbit(Broker):
    """RabbitMQ, with a port mapper of its own, so that it meets no other Erlang node on the machine."""

    def _start(self) -> None:
        epmd = shutil.which("epmd")
        if epmd is None or not _RABBITMQ.exists():
            raise BrokerMissingError("rabbitmq-server is missing: make system")
        epmd_port = free_port()
        (self.directory / "enabled_plugins").write_text("[].")
        (self.directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self.port}\n"
            "log.console = true\nlog.console.level = info\nlog.file = false\n"
            "disk_free_limit.absolute = 1MB\n"
        )
        cookie = self.directory / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)
        with (self.directory / "log").open("wb") as log:
            self._run([epmd, "-port", str(epmd_port), "-address", "127.0.0.1"], log)
            env = {
                "HOME": str(self.directory),
                "ERL_EPMD_PORT": str(epmd_port),
                "ERL_EPMD_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODENAME": f"lh{secrets.token_hex(4)}@localhost",
                "RABBITMQ_DIST_PORT": str(free_port()),
                "RABBITMQ_BASE": str(self.directory),
                "RABBITMQ_CONFIG_FILE": str(self.directory / "rabbitmq.conf"),
                "RABBITMQ_MNESIA_BASE": str(self.directory / "data"),
                "RABBITMQ_LOG_BASE": str(self.directory / "logs"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.directory / "enabled_plugins"),
                "RABBITMQ_PID_FILE": str(self.directory / "pid"),
                "RABBITMQ_CONF_ENV_FILE": "/dev/null",
                # The node must listen on loopback too, and a scheduler each would be too much on a small machine.
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
                # Makes the script become Erlang instead of starting it, so that ending it ends Erlang.
                "RUNNING_UNDER_SYSTEMD": "true",
            }
            self._run([str(_RABBITMQ)], log, env)

    def _is_ready(self) -> bool:
        return self._answers(b"AMQP\x00\x00\x09\x01", b"\x01")
