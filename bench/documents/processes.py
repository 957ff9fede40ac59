"""Servers in processes of their own, that end when we do, however we end; and what they cost."""

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

# It reads a pipe that only we hold, and ends the server when that is closed.
GUARDIAN = 'exec 3<&0; "$@" </dev/null & server=$!; read -r _ <&3; kill "$server"; wait "$server"'

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ServerFailed(Exception):
    """It ended before it served, or took too long."""


@asynccontextmanager
async def serving(*arguments: str, environment: dict[str, str] | None = None) -> AsyncIterator[Any]:
    """`python ARGUMENTS`: what it says as its first line, in JSON, when it serves. On exit it has ended."""
    # What it logs is written, for that is part of its work, but not to a terminal, which would be measured too.
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
        start_new_session=True,  # Ctrl-C is for us alone
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


def raise_file_limit() -> None:
    """Have as many connections as this machine allows, here and in whatever is started from now on."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def cpu_seconds(pid: int) -> float:
    """What the process has had of the processors so far, in all its threads."""
    # After the name, which is in brackets and may contain anything.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """The process's memory that is in use now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def _own_environment() -> dict[str, str]:
    """Without the settings of a server that runs on this machine otherwise."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("LEASEHOLD_", "REDIS_"))
    }
