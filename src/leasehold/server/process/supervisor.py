"""Worker processes: started, watched, replaced when they die, and ended together."""

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

_log = logging.getLogger(__name__)

# Silent deaths before anything was ever served. A reason that is told ends it at once: it will not go away.
_ATTEMPTS = 3
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0
_HEALTHY_AFTER = 30.0
_ENDING_SECONDS = 5.0


class Worker:
    """One process. It ends when ``stop`` is called, and by itself when this process is no more."""

    def __init__(self, process: asyncio.subprocess.Process, control: Connection) -> None:
        self._process = process
        self._control = control
        self._news: asyncio.Future[LeaseholdError | None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(control.fileno(), self._hear)

    @classmethod
    async def start(
        cls, settings: Settings, listener: socket.socket, environ: Mapping[str, str] | None = None
    ) -> Self:
        """Start one and tell it its settings: not as arguments, which everybody on this machine can read."""
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
        """Of the process."""
        return self._process.pid

    async def serves(self) -> bool:
        """Wait until it serves; False if it died without a word. Raises what it says is the reason why it cannot."""
        news = await self._news
        if news is None:
            return True
        if isinstance(news, _DiedError):
            return False
        raise news

    async def wait(self) -> int:
        """How it ended; negative for a signal."""
        return await self._process.wait()

    def stop(self) -> None:
        """Ask it to end."""
        if not self._control.closed:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
        if not self._news.done():
            self._news.set_result(_DiedError())

    def kill(self) -> None:
        """End it at once."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _hear(self) -> None:
        try:
            news = self._control.recv()
        except (EOFError, OSError):
            self.stop()
        else:
            if not self._news.done():
                self._news.set_result(news)


class _DiedError(LeaseholdError):
    """It ended without a word."""


class Workers:
    """As many workers as set, all the time, on one listening socket, with their metrics in one directory."""

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
        """Of those that run now."""
        return sorted(worker.pid for worker in self._running)

    async def keep(self) -> None:
        """Keep them running until `stop`; ``all_serve`` is set when each has begun to.

        Once one has served, nothing but `stop` ends this: whatever keeps a new one from starting may go away, as
        the silence of a database does. Before that, raises the reason.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._settings.workers):
                    group.create_task(self._keep_one())
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def stop(self) -> None:
        """Have them end, with time for what they are doing; those that take longer are killed."""
        self._stopping.set()
        for worker in self._running:
            worker.stop()
        deadline = time.monotonic() + self._settings.shutdown_seconds + _ENDING_SECONDS
        while self._running and time.monotonic() < deadline:  # noqa: ASYNC110 - each is removed by its own keeper
            await asyncio.sleep(0.02)
        self.kill()

    def kill(self) -> None:
        """End them at once."""
        for worker in self._running:
            _log.warning("worker %d is killed", worker.pid)
            worker.kill()

    async def _keep_one(self) -> None:
        attempts, pause, is_new = 0, _FIRST_PAUSE, True
        while not self._stopping.is_set():
            began_at = time.monotonic()
            has_served, ending = await self._run_one(is_new=is_new)
            if self._stopping.is_set():
                return
            attempts, is_new = attempts + 1, is_new and not has_served
            if self._none_has_served and attempts >= _ATTEMPTS:
                raise LeaseholdError(
                    f"no worker can be started: {attempts} {ending} before they served anything"
                )
            if time.monotonic() - began_at > _HEALTHY_AFTER:
                pause = _FIRST_PAUSE
            _log.warning("a worker %s; another one is started in %.1f s", ending, pause)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
            pause = min(pause * 2, _LONGEST_PAUSE)

    async def _run_one(self, *, is_new: bool) -> tuple[bool, str]:
        """Run one to its end: whether it served, and how it ended."""
        try:
            worker = await Worker.start(self._settings, self._listener, self._environ())
        except OSError as error:  # the machine has no more processes, files or memory to give; it may later
            return False, f"could not be started ({error.strerror})"
        self._running.add(worker)
        has_served, reason = False, ""
        try:
            if self._stopping.is_set():
                worker.stop()  # what ended all the others came before this one was known
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
        # Read by prometheus-client when it is imported, so a setting would come too late.
        directory = self._metrics_directory
        return {} if directory is None else {"PROMETHEUS_MULTIPROC_DIR": directory}

    def _forget_metrics(self, worker: Worker) -> None:
        if self._metrics_directory is not None:
            from leasehold.observe.prometheus import forget_process  # noqa: PLC0415 - most servers do without

            with suppress(OSError):
                forget_process(worker.pid, self._metrics_directory)

    @property
    def _none_has_served(self) -> bool:
        return self._yet_to_serve == self._settings.workers

    def _count_served(self) -> None:
        self._yet_to_serve -= 1
        if not self._yet_to_serve:
            self.all_serve.set()
