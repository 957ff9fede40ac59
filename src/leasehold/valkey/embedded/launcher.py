"""The launcher: ``ensure_running`` finds the embedded server or starts it."""

from __future__ import annotations

import functools
import logging
import os
import selectors
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import IO, cast

from leasehold.errors import InvalidRequest, StoreUnavailable
from leasehold.valkey.embedded.binary import INSTEAD, find_binary
from leasehold.valkey.embedded.data_dir import DataDir, open_data_dir
from leasehold.valkey.embedded.file_lock import try_lock, unlock
from leasehold.valkey.embedded.log import open_log, tail_of_log
from leasehold.valkey.embedded.probe import NotReadyError, find_running

_log = logging.getLogger("leasehold")

ATTEMPTS = 3
"""Supervisors that end without a report, before starting is given up."""


def ensure_running(data_dir: Path | str | None = None, *, timeout: float = 10.0) -> Path:
    """The unix socket of the running embedded server of ``data_dir`` (default: ``default_data_dir()``).

    On return a server has answered PING there. It runs for at least two more seconds, and while a client is
    connected; there is nothing to close. Any number of processes and threads may call this at once: they get the
    same server. It takes 0.2 ms when the server runs, so call it before each attempt to connect: a server may have
    been shut down or killed since.

    ``InvalidRequest``: the directory cannot be used, or there is no server for this platform (see ``find_binary``).
    ``StoreUnavailable``: no server answered within ``timeout`` seconds; the end of its log is in the message.
    """
    if sys.platform == "win32":
        find_binary()  # says what to do instead
    deadline = monotonic() + timeout
    home = open_data_dir(data_dir)
    if data_dir is None:
        _say_which(home.root)
    try:
        return find_running(home, timeout=timeout)
    except NotReadyError as error:
        cause: Exception = error
    except OSError as error:
        cause = error
        find_binary()  # before any waiting: every supervisor needs it
    try:
        return _start(home, deadline, cause)
    except OSError as error:
        raise _unavailable(home, "could not be started") from error


@functools.lru_cache(maxsize=8)  # once for each directory, not for each connection
def _say_which(root: Path) -> None:
    _log.info(
        "no store was named: using the embedded Valkey of %s, which all programs share that name none", root
    )


def _start(home: DataDir, deadline: float, cause: Exception) -> Path:
    turn: int | None = None
    # Turns avoid starting many supervisors; the supervisor's own lock is enough to ensure that there is one server.
    # So no caller waits for ever behind one that is stuck.
    impatient_at = (monotonic() + deadline) / 2
    silent = 0
    try:
        while (left := deadline - monotonic()) > 0:
            try:
                return find_running(home, timeout=left)
            except NotReadyError as error:
                cause = error
            except OSError as error:
                cause = error
                if turn is None and (turn := try_lock(home.starting_lock)) is not None:
                    continue  # another caller may have started it during its turn
                if turn is not None or monotonic() > impatient_at:
                    if _run_supervisor(home, deadline):
                        continue
                    silent += 1
            if silent >= ATTEMPTS:
                raise _unavailable(home, f"ended {silent} times while starting") from cause
            sleep(0.01)
    finally:
        if turn is not None:
            unlock(turn)
    raise _unavailable(home, "did not answer in time") from cause


def _run_supervisor(home: DataDir, deadline: float) -> str:
    """Start one and wait for its report: ``ready``, or nothing if it was killed or the time is over.

    Raises the error that the supervisor reports.
    """
    log = open_log(home.log)
    try:
        supervisor = subprocess.Popen(  # noqa: S603 - ourselves
            # Safe path: no modules from the working directory.
            [_python(), "-P", "-m", "leasehold.valkey.embedded.supervisor", str(home.root)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(_search_path())},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    finally:
        os.close(log)
    try:
        word, _, why = _read_report(supervisor, deadline).partition(" ")
    finally:
        # This is only the process that detached the supervisor; it has ended unless the time is over.
        if supervisor.stdout:
            supervisor.stdout.close()
        supervisor.kill()
        supervisor.wait()
    if word == "unusable":
        raise InvalidRequest(why)
    if word == "failed":
        raise _unavailable(home, f"could not be started: {why}") from ChildProcessError(why)
    return word


def _read_report(supervisor: subprocess.Popen[bytes], deadline: float) -> str:
    report = b""
    # Not select: the caller may have more than 1,024 descriptors open.
    with selectors.DefaultSelector() as selector:
        pipe = selector.register(cast("IO[bytes]", supervisor.stdout), selectors.EVENT_READ)
        while not report.endswith(b"\n") and selector.select(max(0.0, deadline - monotonic())):
            if not (data := os.read(pipe.fd, 4096)):
                break
            report += data
    return report.decode(errors="replace").strip()


def _python() -> str:
    if not sys.executable or getattr(sys, "frozen", False):
        raise InvalidRequest(
            f"the embedded Valkey needs a Python interpreter to run its supervisor: {INSTEAD}"
        )
    return sys.executable


def _search_path() -> list[str]:
    """The module path of the supervisor, which must find the same modules as we do."""
    # Nothing relative, because the working directory may have changed. Leasehold itself may come from such an entry.
    own_entry = str(Path(__file__).resolve().parents[4])
    return [*(entry for entry in sys.path if Path(entry).is_absolute()), own_entry]


def _unavailable(home: DataDir, what: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"the embedded Valkey in {home.root} {what}; its log ends:\n{tail_of_log(home.log)}"
    )
