from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import finish

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Cli


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_serve_prints_a_url_that_works_and_ends_cleanly(
    cli_for: Callable[[None], Cli], tmp_path: Path, how: signal.Signals
) -> None:
    cli = cli_for(None)
    process = cli.start("serve", "--data-dir", str(tmp_path / "store"))
    assert process.stdout
    shown = [process.stdout.readline().rstrip("\n") for _ in range(6)]
    assert shown[0] == "The embedded Valkey is running"
    facts = dict(line.split(None, 1) for line in shown[1:])
    assert facts["url"].startswith("unix://")
    assert facts["data"] == str(tmp_path / "store")
    assert facts["try"] == f"leasehold run demo --url {facts['url']} -- sleep 5"
    assert cli("run", "demo", "--url", facts["url"], "--", "true").code == 0
    process.send_signal(how)
    answer = finish(process)
    assert (answer.code, answer.err) == (0, "")


def test_serve_without_a_directory_suggests_the_plain_command(cli_for: Callable[[None], Cli]) -> None:
    process = cli_for(None).start("serve")
    assert process.stdout
    shown = [process.stdout.readline() for _ in range(6)]
    assert any(line.split(None, 1) == ["try", "leasehold run demo -- sleep 5\n"] for line in shown)
    process.terminate()
    assert finish(process).code == 0


def test_serve_as_json(cli_for: Callable[[None], Cli], tmp_path: Path) -> None:
    process = cli_for(None).start("serve", "--json", env={"LEASEHOLD_DATA_DIR": str(tmp_path / "here")})
    assert process.stdout
    shown = json.loads(process.stdout.readline())
    assert shown["data_dir"] == str(tmp_path / "here")
    assert shown["url"].startswith("unix:///")
    process.terminate()
    assert finish(process).code == 0


def test_an_unusable_directory_is_exit_2(cli_for: Callable[[None], Cli], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = cli_for(None)("serve", "--data-dir", str(tmp_path / "file"))
    assert answer.code == 2
    assert "give a directory" in answer.line
