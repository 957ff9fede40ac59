"""Servers in separate processes that end with the benchmark, and their CPU and memory use."""

import asyncio
import json
import os
import resource
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Any

START_SECONDS = 60
LINE_BYTES = 1 << 24

# Reads a pipe that only we hold, and ends the server when the pipe is closed.
GUARDIAN = 'exec 3<&0; "$@" </dev/null & server=$!; read -r _ <&3; kill "$server"; wait "$server"'

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ServerFailed(Exception):
    """A server ended before it was ready, or took too long."""


@asynccontextmanager
async def serving(*arguments: str, environment: dict[str, str] | None = None) -> AsyncIterator[Any]:
    """Run `python ARGUMENTS`, and yield the JSON of its first line, which it prints when ready. On exit it has ended."""
    # Its log is written, because that is part of its work, but not to a terminal, which would be measured too.
    with tempfile.TemporaryFile() as log:
        async with _guarded(arguments, log, environment or {}) as process:
            assert process.stdout is not None
            line = b""
            with suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS):
                    line = await process.stdout.readline()
            if not line:
                log.seek(0)
                raise ServerFailed(f"{' '.join(arguments)}: {log.read().decode(errors='replace')[-2000:]}")
            yield json.loads(line)


@asynccontextmanager
async def _guarded(
    arguments: Sequence[str], log: IO[bytes], environment: dict[str, str]
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        GUARDIAN,
        "guardian",
        sys.executable,
        *arguments,
        stdin=PIPE,
        stdout=PIPE,
        stderr=log,
        limit=LINE_BYTES,
        env=_own_environment() | environment,
        start_new_session=True,  # Ctrl-C must not reach it
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


def raise_file_limit() -> None:
    """Raise the limit of open files to the maximum, for this process and its later children."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def cpu_seconds(pid: int) -> float:
    """The CPU time of the process so far, over all threads."""
    # After the name, which is in brackets and may contain any character.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """The resident memory of the process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def _own_environment() -> dict[str, str]:
    """The environment without settings of other servers on this machine."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "REDIS_"))
    }
