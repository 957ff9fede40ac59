"""Finds what tests leave behind: processes, temporary files, and keys that never expire. The run fails and names the test.

Every process of a run gets a directory of its own for temporary files. Processes are found by their environment, which shows
the run and the test that started them.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    import redis

_RUN = "TEST_RUN_ID"
_ENDING = 20.0
"""Seconds in which a process that was signalled to end may still exist."""

_OUR_KEYS = ("lock:", "idempotency:", "doc_lock:", "file:", "file_session:")

_noted: list[str] = []


def note_leak(description: str) -> None:
    """Report something that a test left behind, at the end of the run."""
    _noted.append(description)


def current_test() -> str:
    """The test that this process runs, for messages."""
    return os.environ.get("PYTEST_CURRENT_TEST", "no test").rpartition(" ")[0]


def keys_without_expiry(client: redis.Redis) -> list[str]:
    """Keys of Leasehold that would stay forever (S13)."""
    if all(db["keys"] == db["expires"] for db in client.info("keyspace").values()):
        return []
    ours = (
        key for key in client.scan_iter(count=1_000) if key.decode(errors="replace").startswith(_OUR_KEYS)
    )
    return [key.decode(errors="replace") for key in ours if client.ttl(key) == -1]


class LeakCheck:
    """One process of the run: the one that the user started, or one of xdist's workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._is_worker = hasattr(config, "workerinput")
        self._config = config
        self._found: list[str] = []
        self._seen: dict[str, str] = {}
        self._usual = tempfile.gettempdir()
        if not self._is_worker:
            os.environ[_RUN] = uuid4().hex
        self._directory = Path(tempfile.mkdtemp(prefix="lh"))  # short, because the path of a unix socket is
        self._directory.chmod(0o711)  # PostgreSQL, as a user of its own, has its directory in it

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        session.config._tmp_path_factory.getbasetemp()  # pytest's own is outside of it
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._directory)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        try:
            return (yield)
        finally:
            for entry in os.listdir(self._directory):  # noqa: PTH208 - after each of thousands of tests
                self._seen.setdefault(entry, item.nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._found += getattr(node, "workeroutput", {}).get("leaks", ())

    # After the workers have ended, and before the summary is written.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, Any, Any]:
        result = yield
        self._found += _noted
        self._found += [
            f"the temporary file {entry}, first seen after {self._seen.get(entry, 'all tests')}"
            for entry in sorted(os.listdir(self._directory))  # noqa: PTH208 - names, as above
        ]
        os.environ["TMPDIR"] = tempfile.tempdir = self._usual
        shutil.rmtree(self._directory, ignore_errors=True)
        if self._is_worker:
            self._output()["leaks"] = self._found
            return result
        self._found += [f"the process {each}" for each in wait_for_processes(os.environ[_RUN])]
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return result

    def _output(self) -> dict[str, Any]:
        """What xdist hands from a worker to the process that the user started."""
        return self._config.workeroutput

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._found:
            terminalreporter.section("left behind by tests", red=True)
            terminalreporter.line("\n".join(self._found))


def wait_for_processes(run: str) -> list[str]:
    """The processes that the run's tests started and that do not end by themselves, each with its test."""
    deadline = time.monotonic() + _ENDING
    while (found := _processes(run)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _processes(run: str) -> list[str]:
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environ = (directory / "environ").read_bytes().decode(errors="replace").split("\0")
            if f"{_RUN}={run}" not in environ:
                continue
            command = (directory / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            tests = [each.partition("=")[2] for each in environ if each.startswith("PYTEST_CURRENT_TEST=")]
            found.append(
                f"{directory.name} ({command[:160].strip()}), started by {' '.join(tests) or 'no test'}"
            )
    return found


def install(config: pytest.Config) -> None:
    if not config.option.collectonly:
        config.pluginmanager.register(LeakCheck(config), "leak-check")
