"""Fails a test that hangs, with the stacks of all threads and tasks; the run goes on.

A test has `timeout` seconds for itself and its fixtures (`pyproject.toml`, or its own `timeout` mark). Then an exception is
raised in the main thread, and again while the test's clean-up hangs as well. If nothing helps, the process ends: xdist reports
the test as crashed and replaces the worker.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_RAISE_AGAIN_AFTER = 10.0
_RAISES = 6
# Leasehold and the tests use it in child processes only.
_SIGNAL = signal.SIGUSR2


class HangWatch:
    """A thread that waits for the deadline of the test that the main thread runs."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._limit = float(config.getini("timeout"))
        self._changed = threading.Condition()
        self._test: str | None = None
        self._deadline = 0.0
        self._message = ""
        self._threads_before: set[threading.Thread] = set()
        self._left: list[threading.Thread] = []
        self._exit_status = 1
        signal.signal(_SIGNAL, self._raise)
        threading.Thread(target=self._watch, name="hang-watch", daemon=True).start()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        mark = item.get_closest_marker("timeout")
        limit = float(mark.args[0]) if mark else self._limit
        self._threads_before = set(threading.enumerate())
        with self._changed:
            self._message = ""
            self._test, self._deadline = item.nodeid, time.monotonic() + limit
            self._changed.notify()
        try:
            return (yield)
        finally:
            with self._changed:
                self._test = None
                self._changed.notify()
            if self._message:
                self._end_threads()

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._exit_status = int(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        if any(thread.is_alive() and not thread.daemon for thread in self._left):
            sys.stdout.flush()
            os._exit(self._exit_status)  # the interpreter would wait for the thread forever

    def _watch(self) -> None:
        raised = 0
        with self._changed:
            while True:
                if self._test is None:
                    raised = 0
                    self._changed.wait()
                    continue
                wait = self._deadline + raised * _RAISE_AGAIN_AFTER - time.monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                elif raised < _RAISES:
                    self._message = self._message or f"{self._test} hangs\n{describe_stacks()}"
                    raised += 1
                    signal.pthread_kill(threading.main_thread().ident or 0, _SIGNAL)
                else:
                    self._end_process()

    def _raise(self, *_: object) -> None:
        if self._test is not None:
            raise pytest.fail.Exception(self._message, pytrace=False)

    def _end_threads(self) -> None:
        """End the threads that the test left, so that they take no time from the tests after it."""
        self._left = [each for each in threading.enumerate() if each not in self._threads_before]
        for thread in self._left:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
            )
        for thread in self._left:
            thread.join(1)

    def _end_process(self) -> None:
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        capture.suspend_global_capture(in_=False)
        os.write(2, f"\n{self._message}\nThe process ends: no exception ends the test.\n".encode())
        os._exit(1)


def describe_stacks() -> str:
    """The stacks of all threads and of all asyncio tasks that are not done."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    lines = []
    for ident, frame in sys._current_frames().items():
        if ident != threading.get_ident():
            lines += [f"thread {names.get(ident, ident)}:\n", *traceback.format_stack(frame)[-25:]]
    for task in gc.get_objects():
        if issubclass(type(task), asyncio.Task) and not task.done():
            lines += [f"task {task.get_name()}:\n", *_coroutine_stack(task.get_coro())]
    return "".join(lines)


def _coroutine_stack(coroutine: Any) -> list[str]:
    """Where a suspended coroutine waits: itself, what it awaits, and so on."""
    lines = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is None:
            return [*lines, f"  awaits {coroutine!r}\n"]
        lines += traceback.format_list(traceback.StackSummary.extract([(frame, frame.f_lineno)]))
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return lines


def add_options(parser: pytest.Parser) -> None:
    parser.addini("timeout", "seconds after which a test counts as hanging", default="120")


def install(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "timeout(seconds): after so long this test counts as hanging")
    config.pluginmanager.register(HangWatch(config), "hang-watch")
