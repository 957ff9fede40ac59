"""PostgreSQL and the message brokers of a test run: started once, when the first test of any worker needs them.

They belong to the process that the user started, and end with it. Workers ask for their addresses over a unix socket.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.brokers import BrokerMissingError, Nats, Rabbit
from tests.support.eventually import LIMIT
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable

_SOCKET = "TEST_SERVICES"
_START = 3 * LIMIT
"""Seconds for a worker's question: RabbitMQ takes ten on a quiet machine."""

_SERVICES: dict[str, Callable[[], Any]] = {"postgres": Postgres, "rabbit": Rabbit, "nats": Nats}


class SharedServices:
    """Answers with the port of a service, which it starts first if need be."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="lh")
        self._listener = socket.socket(socket.AF_UNIX)
        path = str(Path(self._directory.name) / "s")
        self._listener.bind(path)
        self._listener.listen()
        os.environ[_SOCKET] = path
        self._running = ExitStack()
        self._lock = threading.Lock()
        self._answers: dict[str, dict[str, Any]] = {}
        threading.Thread(target=self._serve, name="shared-services", daemon=True).start()

    # Last, when the workers have ended; and before the check for what tests leave behind.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self.close()

    def pytest_unconfigure(self) -> None:  # also if there was no session
        self.close()

    def close(self) -> None:
        self._listener.close()
        with self._lock:
            self._running.close()
        self._directory.cleanup()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw") as stream:
            name = stream.readline().strip()
            with self._lock:
                if name not in self._answers:
                    self._answers[name] = self._start(name)
                stream.write(json.dumps(self._answers[name]) + "\n")
                stream.flush()

    def _start(self, name: str) -> dict[str, Any]:
        try:
            return {"port": self._running.enter_context(_SERVICES[name]()).port}
        except BrokerMissingError as missing:
            return {"missing": str(missing)}
        except Exception as error:  # noqa: BLE001 - the tests that asked for it report it
            return {"failed": f"{type(error).__name__}: {error}"}


def port_of(name: str) -> int:
    """The port on which this run's `name` (postgres, rabbit, nats) listens. Skips the test if it is not installed."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_START)
        connection.connect(os.environ[_SOCKET])
        with connection.makefile("rw") as stream:
            stream.write(f"{name}\n")
            stream.flush()
            answer = json.loads(stream.readline())
    if "missing" in answer:
        pytest.skip(answer["missing"])
    if "failed" in answer:
        pytest.fail(f"{name} did not start: {answer['failed']}")
    return answer["port"]


def install(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(SharedServices(), "shared-services")
