"""The supervisor of worker processes: starts them, replaces those that die, and stops them together."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Self

from leasehold.errors import LeaseholdError

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from leasehold.server.settings import Settings

_log = logging.getLogger("leasehold.server")

# Unexplained exits before any worker has served. An explained one is final at once, because it will not go away.
_ATTEMPTS = 3
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
_HEALTHY_AFTER = 30.0
_ENDING_SECONDS = 5.0


class Worker:
    """One worker process. It ends after `stop`, and by itself when this process ends."""

    def __init__(self, process: asyncio.subprocess.Process, control: Connection) -> None:
        self._process = process
        self._control = control
        self._report: asyncio.Future[LeaseholdError | None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(control.fileno(), self._on_report)

    @classmethod
    async def start(
        cls, settings: Settings, listener: socket.socket, environ: Mapping[str, str] | None = None
    ) -> Self:
        """Start a worker and send it the settings: not as arguments, which every user of the machine can read."""
        ours, theirs = Pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "leasehold.server.process.worker",
                str(theirs.fileno()),
                str(listener.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), listener.fileno()),
                env={
                    # Large contents go back to the system when they are freed.
                    "MALLOC_MMAP_THRESHOLD_": "131072",
                    **os.environ,
                    **(environ or {}),
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                },
            )
        finally:
            theirs.close()
        with suppress(BrokenPipeError):
            ours.send(settings)
        return cls(process, ours)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def serves(self) -> bool:
        """Wait until it serves; False if it ended without a report. Raises the error that it reports."""
        report = await self._report
        if report is None:
            return True
        if isinstance(report, _ExitedError):
            return False
        raise report

    async def wait(self) -> int:
        """Wait for its exit code, which is negative for a signal."""
        return await self._process.wait()

    def stop(self) -> None:
        """Ask it to stop."""
        if not self._control.closed:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
        if not self._report.done():
            self._report.set_result(_ExitedError())

    def kill(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _on_report(self) -> None:
        try:
            report = self._control.recv()
        except (EOFError, OSError):
            self.stop()
        else:
            if not self._report.done():
                self._report.set_result(report)


class _ExitedError(LeaseholdError):
    """The worker ended without a report."""


class Supervisor:
    """Keeps the configured number of workers running on one listening socket, with their metrics in one directory."""

    def __init__(
        self, settings: Settings, listener: socket.socket, *, metrics_directory: str | None = None
    ) -> None:
        self._metrics_directory = metrics_directory
        self._settings = settings
        self._listener = listener
        self._running: set[Worker] = set()
        self._yet_to_serve = settings.workers
        self._stopping = asyncio.Event()
        self.all_serve = asyncio.Event()

    @property
    def pids(self) -> list[int]:
        """The process ids of the running workers."""
        return sorted(worker.pid for worker in self._running)

    async def run(self) -> None:
        """Keep the workers running until `stop`; ``all_serve`` is set when each has started to serve.

        Once one has served, only `stop` ends this: a reason why a new one cannot start may go away, such as an
        unreachable database. Before that, raises the reason.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._settings.workers):
                    group.create_task(self._keep_one_running())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def stop(self) -> None:
        """Stop the workers, with time for their requests; slower ones are killed."""
        self._stopping.set()
        for worker in self._running:
            worker.stop()
        deadline = time.monotonic() + self._settings.shutdown_seconds + _ENDING_SECONDS
        while self._running and time.monotonic() < deadline:  # noqa: ASYNC110 - each is removed by its own task
            await asyncio.sleep(0.02)
        self.kill()

    def kill(self) -> None:
        """Kill the workers."""
        for worker in self._running:
            _log.warning("killing worker %d", worker.pid)
            worker.kill()

    async def _keep_one_running(self) -> None:
        attempts, pause, is_new = 0, _FIRST_PAUSE, True
        while not self._stopping.is_set():
            began_at = time.monotonic()
            has_served, ending = await self._run_one(is_new=is_new)
            if self._stopping.is_set():
                return
            attempts, is_new = attempts + 1, is_new and not has_served
            if self._none_has_served and attempts >= _ATTEMPTS:
                raise LeaseholdError(f"cannot start a worker: {attempts} {ending} before any of them served")
            if time.monotonic() - began_at > _HEALTHY_AFTER:
                pause = _FIRST_PAUSE
            _log.warning("a worker %s; starting another one in %.1f s", ending, pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _run_one(self, *, is_new: bool) -> tuple[bool, str]:
        """Run one worker to its end; True if it served, and a description of its end."""
        try:
            worker = await Worker.start(self._settings, self._listener, self._environ())
        except OSError as error:  # the machine is out of processes, files or memory, perhaps for a while
            return False, f"could not be started ({error.strerror})"
        self._running.add(worker)
        has_served, reason = False, ""
        try:
            if self._stopping.is_set():
                worker.stop()  # `stop` was called before this one was registered
            try:
                has_served = await worker.serves()
            except LeaseholdError as error:
                if self._none_has_served:
                    raise
                reason = f" ({error})"
            if has_served and is_new:
                self._count_served()
            return has_served, f"ended with {await worker.wait()}{reason}"
        finally:
            worker.stop()
            worker.kill()
            self._running.discard(worker)
            self._forget_metrics(worker)

    def _environ(self) -> dict[str, str]:
        # An environment variable, because prometheus-client reads it when it is imported.
        directory = self._metrics_directory
        return {} if directory is None else {"PROMETHEUS_MULTIPROC_DIR": directory}

    def _forget_metrics(self, worker: Worker) -> None:
        if self._metrics_directory is not None:
            from leasehold.observe.prometheus import forget_process  # noqa: PLC0415 - most servers do not need it

            with suppress(OSError):
                forget_process(worker.pid, self._metrics_directory)

    @property
    def _none_has_served(self) -> bool:
        return self._yet_to_serve == self._settings.workers

    def _count_served(self) -> None:
        self._yet_to_serve -= 1
        if not self._yet_to_serve:
            self.all_serve.set()
