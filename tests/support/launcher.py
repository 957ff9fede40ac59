"""Child processes that die with the test run, even when pytest is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import IO

# PR_SET_PDEATHSIG follows the *thread* that spawned the child, and tests start things from short-lived
# threads: so everything is spawned from this one, which lives as long as the process.
_spawner = ThreadPoolExecutor(1, thread_name_prefix="spawner")

# Not preexec_fn: since Python 3.12 it warns in a process with threads. The check of the parent's id closes
# the gap in which the parent died before prctl was called.
_DIE_WITH_PARENT = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def launch(
    command: list[str],
    *,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    cwd: str | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `command`; its pid is the command's own. The kernel kills it when this process ends (Linux)."""
    if sys.platform == "linux":
        command = [sys.executable, "-ISc", _DIE_WITH_PARENT, str(os.getpid()), *command]
    return _spawner.submit(
        subprocess.Popen, command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=env
    ).result()
