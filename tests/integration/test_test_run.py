"""The test run itself: a test that hangs fails alone, and what a test leaves behind is named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from tests.support.eventually import LIMIT

ROOT = Path(__file__).parents[2]

CONFTEST = """
    from tests.support import hangs, leaks

    leaks._ENDING = 2.0  # the planted process does not end

    def pytest_addoption(parser):
        hangs.add_options(parser)

    def pytest_configure(config):
        hangs.install(config)
        leaks.install(config)
"""


@pytest.fixture
def run(tmp_path: Path):
    """`run(tests, *options)`: what pytest prints for a module of tests that uses the plugins of this run."""

    def make(tests: str, *options: str, timeout: float = 60) -> str:
        (tmp_path / "conftest.py").write_text(dedent(CONFTEST))
        (tmp_path / "test_planted.py").write_text(dedent(tests))
        (tmp_path / "pytest.ini").write_text(
            f"[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\ntimeout = {timeout}\n"
        )
        finished = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-rA",
                "-p",
                "no:randomly",
                "-p",
                "no:cacheprovider",
                f"--basetemp={tmp_path}/base",
                *options,
            ],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "TEST_"))}
            | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3 * LIMIT,
            check=False,
        )
        assert finished.returncode == 1, finished.stdout
        return finished.stdout

    return make


@pytest.mark.timeout(200)
def test_tests_that_hang_fail_alone_with_the_stacks_of_threads_and_tasks(run) -> None:
    printed = run(
        """
        import asyncio, os, signal, threading

        def test_before():
            pass

        def test_a_thread_never_ends():
            def spin_in_a_thread():
                while True:
                    pass

            thread = threading.Thread(target=spin_in_a_thread)
            thread.start()
            thread.join()

        async def test_an_await_never_ends():
            async def wait_in_a_task():
                await asyncio.Event().wait()

            await asyncio.create_task(wait_in_a_task())

        def test_after():
            pass

        def test_the_thread_is_gone():
            assert "spin" not in str(threading.enumerate())
        """,
        timeout=3,
    )
    assert re.search(r"\b2 failed, 3 passed\b", printed), printed
    assert "FAILED test_planted.py::test_a_thread_never_ends" in printed
    assert "FAILED test_planted.py::test_an_await_never_ends" in printed
    assert "in spin_in_a_thread" in printed
    assert "in wait_in_a_task" in printed


@pytest.mark.timeout(200)
def test_a_worker_that_no_exception_frees_is_replaced_and_the_others_go_on(run) -> None:
    printed = run(
        """
        import signal, time
        import pytest
        from tests.support import hangs

        hangs._RAISE_AGAIN_AFTER, hangs._RAISES = 0.1, 1

        @pytest.mark.parametrize("number", range(10))
        def test_before(number):
            pass

        def test_deaf():
            signal.pthread_sigmask(signal.SIG_BLOCK, [hangs._SIGNAL])
            time.sleep(1000)  # the test is named in the stack

        @pytest.mark.parametrize("number", range(10))
        def test_after(number):
            pass
        """,
        *("-n", "2", "--dist", "load", "--maxschedchunk", "4"),
        timeout=3,
    )
    assert re.search(r"\b1 failed, 20 passed\b", printed), printed
    assert "crashed while running 'test_planted.py::test_deaf'" in printed
    assert "in test_deaf" in printed


@pytest.mark.timeout(200)
def test_what_a_test_leaves_behind_is_named_and_fails_the_run(run) -> None:
    printed = run(
        """
        import subprocess, tempfile

        def test_tidy(tmp_path):
            with tempfile.TemporaryDirectory():
                subprocess.run(["true"], check=True)

        def test_leaves_a_process():
            subprocess.Popen(["sleep", "60"], start_new_session=True, stdout=subprocess.DEVNULL)

        def test_leaves_a_directory():
            tempfile.mkdtemp(prefix="forgotten-")
        """,
        *("-n", "1", "-W", "ignore::ResourceWarning"),
    )
    for process in re.findall(r"the process (\d+) \(sleep 60\)", printed):
        os.kill(int(process), 9)
    assert "3 passed" in printed
    left = printed.partition("left behind by tests")[2].partition("short test summary")[0]
    assert re.search(r"\(sleep 60\), started by test_planted.py::test_leaves_a_process", left), printed
    assert re.search(r"forgotten-\w+, first seen after test_planted.py::test_leaves_a_directory", left)
    assert "test_tidy" not in left
