"""`leasehold …` as a real process, or inside this one, in an environment of its own."""

from __future__ import annotations

import io
import json
import logging
import os
import select
import signal
import subprocess
import sys
from contextlib import ExitStack, chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from tests.support.eventually import LIMIT, eventually

import leasehold
from leasehold.cli.entry import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.servers import Server

    from leasehold.blocking import Client

LEASEHOLD = [sys.executable, "-m", "leasehold"]
# Gives a process the terminal on its stdin as its own, as a login does.
WITH_TERMINAL = [
    sys.executable,
    "-ISc",
    "import fcntl, os, sys, termios as t; os.setsid(); fcntl.ioctl(0, t.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])",
]


@dataclass(frozen=True)
class Answer:
    """What a finished `leasehold …` left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The JSON object on stderr, which must be all that is there."""
        return json.loads(self.err)

    @property
    def line(self) -> str:
        """The one line on stderr."""
        (line,) = self.err.splitlines()
        return line


class Cli:
    """Runs `leasehold` against one store, or against the one in `env`."""

    def __init__(self, home: Path, stack: ExitStack, url: str | None) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("LEASEHOLD_", "REDIS_"))}
        self.env = kept | {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "NO_COLOR": "1"}
        # So much that only a hang takes longer: a server that is not scheduled for a while is no server that is lost.
        self.env["LEASEHOLD_TIMEOUT"] = str(LIMIT / 2)
        if url is not None:
            self.env["LEASEHOLD_STORE_URL"] = url
        self._home = home
        self._stack = stack

    def start(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
        **options: Any,
    ) -> subprocess.Popen[str]:
        """A running `leasehold` without a terminal, killed with the test; `prefix` is what starts it."""
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "start_new_session": True,
        }
        return self._launch([*prefix, *LEASEHOLD, *arguments], env, settings | options)

    def start_in_terminal(self, terminal: int, *arguments: str) -> subprocess.Popen[str]:
        """A running `leasehold` that has `terminal` (the slave of a pty) as its controlling terminal."""
        settings: dict[str, Any] = {"stdin": terminal, "stdout": terminal, "stderr": subprocess.PIPE}
        return self._launch([*WITH_TERMINAL, *LEASEHOLD, *arguments], None, settings)

    def __call__(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
    ) -> Answer:
        """Run to the end."""
        return finish(self.start(*arguments, env=env))

    def inside(self, *arguments: str, env: dict[str, str] | None = None) -> Answer:
        """The same inside this process: for what does not depend on being one, and takes a tenth of the time."""
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        logger = logging.getLogger("leasehold")
        level = logger.level
        try:
            with (
                patch.dict(os.environ, self.env | (env or {}), clear=True),
                chdir(self._home),
                redirect_stdout(out),
                redirect_stderr(err),
            ):
                code = run(list(arguments))
        finally:
            logger.setLevel(level)
        return Answer(code, _text_of(out), _text_of(err))

    def python(self, code: str, *arguments: str, stdout: int = subprocess.PIPE) -> Answer:
        """Run Python code to the end instead."""
        pipes: dict[str, Any] = {"stdout": stdout, "stderr": subprocess.PIPE}
        return finish(self._launch([sys.executable, "-c", code, *arguments], None, pipes))

    def _launch(
        self, command: list[str], env: dict[str, str] | None, options: dict[str, Any]
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(command, env=self.env | (env or {}), cwd=self._home, text=True, **options)
        self._stack.callback(_end, process)
        return process


def _text_of(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def finish(process: subprocess.Popen[str], *, typing: str | None = None) -> Answer:
    out, err = process.communicate(typing, timeout=LIMIT)
    return Answer(process.returncode, out or "", err or "")


def _end(process: subprocess.Popen[str]) -> None:
    """Kill it and all of its session, which outlives it in a test that failed."""
    process.kill()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[3]) == process.pid:
                os.kill(int(stat.parent.name), signal.SIGKILL)
    process.wait(LIMIT)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


class Terminal:
    """A pseudo-terminal: `slave` is for the process, the rest for the user at the terminal."""

    def __init__(self) -> None:
        self._master, self.slave = os.openpty()
        self._seen = b""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def expect(self, text: str) -> None:
        """Reads the output until it contains `text`."""

        def is_shown() -> bool:
            if select.select([self._master], [], [], 0)[0]:
                self._seen += os.read(self._master, 65536)
            return text.encode() in self._seen

        eventually(is_shown, message=f"{text!r} is shown")

    def close(self) -> None:
        os.close(self._master)
        os.close(self.slave)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    yield made
    made.close()


@pytest.fixture
def cli_for(tmp_path: Path) -> Iterator[Callable[[str | None], Cli]]:
    """`cli_for(url)`: the command line for a store; None for the embedded one, in the test's own directory."""
    with ExitStack() as stack:
        yield lambda url: Cli(tmp_path, stack, url)


@pytest.fixture
def cli(cli_for: Callable[[str | None], Cli], valkey: Server) -> Cli:
    """The command line for the session's Valkey."""
    return cli_for(valkey.url)


@pytest.fixture
def locks(valkey: Server) -> Iterator[Client]:
    """The library on the session's Valkey, to play the others."""
    with leasehold.blocking.connect(valkey.url, holder="the-test") as client:
        yield client
