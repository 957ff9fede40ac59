"""Exceptions of signal handlers at random moments: no crash, no hang, no shifted reply, no leak."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Count
    from tests.support.servers import Server

PACK = """
import signal
from leasehold.valkey.transport import codec

class Interrupted(Exception): ...

def handle(*_):
    raise Interrupted

signal.signal(signal.SIGALRM, handle)
interrupted = 0
while interrupted < 300:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003)
        while True:
            codec.pack((b"EVALSHA", 5, 123456789, 17, 3, 4, 5))
    except Interrupted:
        interrupted += 1
"""


def test_an_interruption_while_a_command_is_packed_does_not_crash_the_process() -> None:
    """hiredis reads through a null pointer if the conversion of an integer raises."""
    subprocess.run([sys.executable, "-c", PACK], check=True, timeout=100)


@pytest.mark.timeout(900)
def test_a_process_that_is_interrupted_in_all_verbs_goes_on_and_leaves_nothing(
    valkey: Server, tmp_path: Path, count: Count
) -> None:
    calls, seed = count(full=10_000, quick=400), random.randrange(1 << 30)
    command = [sys.executable, "-W", "ignore", "-m", "tests.integration.interrupted_client"]
    run = subprocess.run(
        [*command, valkey.url, str(tmp_path), str(calls), str(seed)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert run.returncode == 0, f"seed {seed}\n{run.stderr[-8000:]}"
    report = json.loads(run.stdout)
    print(report)
    assert report["failures"] == []
    assert sum(report["interrupted"].values()) > calls / 10
    assert len(report["interrupted"]) == 14, "each verb has been interrupted"
    assert min(report["beside"].values()) > 0
