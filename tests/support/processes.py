"""Python code in a real child process, to be killed and paused, that exchanges JSON lines with the test."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.support.eventually import LIMIT
from tests.support.launcher import launch

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]

# One line, so that line numbers in a snippet's tracebacks are off by a constant only.
_PREAMBLE = (
    "from tests.support.processes import Parent; parent = Parent(); report = parent.send; args = parent.args"
)

_alive: weakref.WeakSet[Child] = weakref.WeakSet()


class Parent:
    """The test, as seen by the child."""

    def __init__(self) -> None:
        self.args: list[Any] = json.loads(sys.argv[1])

    def send(self, **fields: Any) -> None:
        """Send one JSON line to the test, which gets it from `child.read()`."""
        print(json.dumps(fields), flush=True)

    def receive(self) -> Any:
        """Waits for the next value that the test sends with `child.send(...)`; None when the test closed the pipe."""
        line = sys.stdin.readline()
        return json.loads(line) if line else None


class Child:
    """A Python process. Use it as a context manager, or through the `spawn` fixture: always reaped."""

    def __init__(self, process: subprocess.Popen[bytes], errors: Any) -> None:
        self._process = process
        self._errors = errors
        self._buffer = b""
        _alive.add(self)

    @classmethod
    def spawn(cls, code: str | Callable[..., Any], *args: Any) -> Self:
        """Run a snippet, which finds `report(**fields)`, `parent` and `args`; or a self-contained function (its
        imports inside it, plain or async), called as `function(parent, *args)`. Args go as JSON."""
        if callable(code):
            source = textwrap.dedent(inspect.getsource(code))
            call = f"{code.__name__}(parent, *args)"
            if inspect.iscoroutinefunction(code):
                call = f"import asyncio; asyncio.run({call})"
            source = f"from __future__ import annotations\n{_PREAMBLE}\n{source}\n{call}\n"
        else:
            source = f"{_PREAMBLE}\n{textwrap.dedent(code)}"
        paths = [
            str(ROOT),
            os.environ.get("PYTHONPATH"),
        ]  # the test's own, so that a child imports what it does
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the child
        process = launch(
            [sys.executable, "-c", source, json.dumps(args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=str(ROOT),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        return cls(process, errors)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def read(self, timeout: float = LIMIT) -> Any:
        """The child's next line. Fails if it ended without one (with its stderr), or is silent too long."""
        assert self._process.stdout
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise AssertionError(f"the child sent nothing for {timeout} s\n{self.stderr()}")
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise AssertionError(f"the child ended ({self.wait()}) without output\n{self.stderr()}")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        try:
            return json.loads(line)
        except ValueError:
            raise AssertionError(f"the child sent a line that is not JSON: {line!r}") from None

    async def aread(self, timeout: float = LIMIT) -> Any:
        """`read` for async tests."""
        return await asyncio.to_thread(self.read, timeout)

    def send(self, message: Any = None) -> None:
        """Send one JSON value, which the child gets from `parent.receive()`."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def kill(self) -> int:
        """SIGKILL and reap."""
        self._process.kill()
        return self.wait()

    def terminate(self) -> None:
        """SIGTERM."""
        self._process.terminate()

    def pause(self) -> None:
        """SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def wait(self, timeout: float = LIMIT) -> int:
        """The exit code; negative for a signal."""
        return self._process.wait(timeout)

    def stderr(self) -> str:
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def close(self) -> None:
        """Kill it if it still runs."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with suppress(BrokenPipeError):  # something sent to the child after its death
                pipe.close()
        _alive.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@atexit.register
def _end_all() -> None:
    for child in list(_alive):
        child.close()
