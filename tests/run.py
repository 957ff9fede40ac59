"""Runs every check and test of the project and reports them: `make test`, `make test-all`, `make test-quick`.

Needs nothing but Python: the first stage sets up the rest. Then pytest runs in one lane and the other stages one after the
other in a second lane, because two cores are busy with less than the sum of both.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / ".cache" / "tests"
SLOWEST = 10
# More processes than cores, because most tests wait for a server or a deadline.
_PYTEST = [".venv/bin/python", "-m", "pytest", "-n", os.environ.get("WORKERS", "6"), "--dist", "load"]


@dataclass
class Stage:
    """One command. `results` are the JUnit files that it writes, from which its tests are counted."""

    name: str
    command: list[str]
    results: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)
    is_shown: bool = False
    """Whether its output goes to the terminal while it runs; otherwise only if it fails."""
    exit_code: int | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def log(self) -> Path:
        return RESULTS / f"{self.name}.log"

    @property
    def has_passed(self) -> bool:
        return self.exit_code == 0

    def run(self) -> None:
        """Run the command to its end and keep its exit code, its time and its output."""
        begun = time.monotonic()
        environ = os.environ | {"TEST_RESULTS": str(RESULTS)} | self.environ
        with self.log.open("wb") as log:
            output = None if self.is_shown else log
            process = subprocess.Popen(self.command, cwd=ROOT, env=environ, stdout=output, stderr=output)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        self.exit_code = process.returncode
        self.seconds = time.monotonic() - begun
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        say(f"{self.name}: {'passed' if self.has_passed else 'FAILED'} in {in_words(self.seconds)}")

    def tests(self) -> list[Test]:
        return [test for result in self.results for test in read_results(RESULTS / result)]


@dataclass(frozen=True)
class Test:
    name: str
    seconds: float
    outcome: str


def read_results(path: Path) -> list[Test]:
    """The tests in a JUnit file; none if the stage did not get so far."""
    if not path.exists():
        return []
    return [
        Test(
            f"{case.get('classname', '')}::{case.get('name', '')}",
            float(case.get("time") or 0),
            next((child.tag for child in case if child.tag in {"failure", "error", "skipped"}), "passed"),
        )
        for case in ET.parse(path).iter("testcase")
    ]


def say(line: str) -> None:
    print(f"\n=== {line}", flush=True)


def in_words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def pytest_stage(*arguments: str, **environ: str) -> Stage:
    chunk = ["--maxschedchunk", "8"]  # small, so that no worker is left with a long queue at the end
    return Stage(
        "pytest",
        [*_PYTEST, *chunk, "-q", f"--junit-xml={RESULTS / 'pytest.xml'}", *arguments],
        ["pytest.xml"],
        environ,
        is_shown=True,
    )


def make_stage(target: str, *results: str) -> Stage:
    return Stage(target, ["make", "--no-print-directory", target], list(results))


def run_lane(stages: list[Stage]) -> None:
    for stage in stages:
        stage.run()


def run_lanes(*lanes: list[Stage]) -> None:
    threads = [threading.Thread(target=run_lane, args=[lane]) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def report(stages: list[Stage], seconds: float) -> None:
    """The output of what failed, the table of the stages, and the slowest tests."""
    for stage in stages:
        if not stage.has_passed and not stage.is_shown:
            say(f"{stage.name} failed (exit code {stage.exit_code}); its output:")
            print(stage.log.read_text(errors="replace"))
    print(f"\n{'stage':<12} {'passed':>7} {'failed':>7} {'skipped':>8} {'time':>13} {'CPU':>13}")
    everything: list[Test] = []
    for stage in stages:
        tests = stage.tests()
        everything += tests
        passed, skipped = (sum(test.outcome == each for test in tests) for each in ("passed", "skipped"))
        failed = len(tests) - passed - skipped
        counts = f"{passed:>7} {failed:>7} {skipped:>8}" if stage.results else " " * 24
        verdict = "" if stage.has_passed else "  FAILED"
        times = f"{in_words(stage.seconds):>13} {in_words(stage.cpu_seconds):>13}"
        print(f"{stage.name:<12} {counts} {times}{verdict}")
    print(f"{'all':<12} {'':>24} {in_words(seconds):>13}")
    print(f"\nThe {SLOWEST} slowest tests:")
    for test in sorted(everything, key=lambda each: each.seconds, reverse=True)[:SLOWEST]:
        print(f"{test.seconds:7.1f} s  {test.name}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.run", description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="full counts, and Redis 7 as a third server (long)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="unit, contract on Valkey, web unit: under 2 minutes"
    )
    options = parser.parse_args()
    begun = time.monotonic()
    RESULTS.mkdir(parents=True, exist_ok=True)
    for old in RESULTS.iterdir():
        old.unlink()
    web = make_stage("web-test", "vitest.xml")
    if options.quick:
        setup = Stage("set-up", ["make", "--no-print-directory", "-j3", "setup-quick"])
        lanes = [[pytest_stage("tests/unit", "tests/contract", TEST_SERVERS="valkey9")], [web]]
    elif options.full:
        os.environ["TEST_FULL"] = "1"  # the web page's tests have no options of their own
        setup = Stage("set-up", ["make", "--no-print-directory", "-j3", "setup", "redis7"])
        tests = pytest_stage("--full", TEST_SERVERS="valkey9 redis62 redis7")
        lanes = [[tests], [make_stage("check"), web, make_stage("e2e", "e2e.xml")]]
    else:
        setup = Stage("set-up", ["make", "--no-print-directory", "-j3", "setup"])
        lanes = [[pytest_stage()], [make_stage("check"), web, make_stage("e2e", "e2e.xml")]]
    say("set-up: virtual environment, system packages, web page (a minute or two on a new machine)")
    setup.run()
    stages = [setup]
    if setup.has_passed:
        stages += [stage for lane in lanes for stage in lane]
        run_lanes(*lanes)
    report(stages, time.monotonic() - begun)
    return 0 if all(stage.has_passed for stage in stages) else 1


if __name__ == "__main__":
    sys.exit(main())
