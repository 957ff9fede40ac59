from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from typing import TYPE_CHECKING

from tests.cli.conftest import finish
from tests.support.eventually import LIMIT
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Cli, Terminal


def facts_of(process: subprocess.Popen[str]) -> dict[str, str]:
    assert process.stdout
    shown = [process.stdout.readline().rstrip("\n")]
    while not shown[-1].startswith("stop"):
        shown.append(process.stdout.readline().rstrip("\n"))
    assert shown[0] == "Leasehold is running"
    return dict(line.split(None, 1) for line in shown[1:])


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=LIMIT) as answer:
        return answer.read()


def test_serve_prints_addresses_that_work_and_ends_cleanly_with_sigint(
    cli_for: Callable[[None], Cli], tmp_path: Path
) -> None:
    cli = cli_for(None)
    process = cli.start("serve", "--port", "0", "--data-dir", str(tmp_path / "here"))
    facts = facts_of(process)
    assert b'"ready"' in get(f"{facts['open']}/readyz")
    assert facts["store"].startswith("unix://")
    assert facts["data"] == str(tmp_path / "here")
    assert facts["locks"] == f"leasehold ls --url {facts['store']}"
    assert cli("run", "demo", "--url", facts["store"], "--", "true").code == 0
    process.send_signal(signal.SIGINT)
    answer = finish(process)
    assert (answer.code, answer.err) == (0, "")


def test_serve_demo_uses_the_directory_of_all_commands_shows_how_to_sign_in_and_ends_with_sigterm(
    cli_for: Callable[[None], Cli],
) -> None:
    cli = cli_for(None)
    process = cli.start("serve", "--demo", "--port", "0")
    facts = facts_of(process)
    assert facts["locks"] == "leasehold ls"
    assert facts["data"] == f"{cli.env['XDG_DATA_HOME']}/leasehold"
    assert process.stdout
    table = [process.stdout.readline().split() for _ in range(6)]
    assert table[1] == ["sign", "in", "as", "password", "who", "is"]
    assert table[2] == ["olga@demo.example", "demo-olga", "Olga,", "owner"]
    assert [row[-1] for row in table[2:]] == ["owner", "editor", "editor", "viewer"]
    process.terminate()
    answer = finish(process)
    assert (answer.code, answer.err) == (0, "")


def test_serve_says_on_the_terminal_whether_there_is_a_page_and_where_documents_are_shown(
    cli_for: Callable[[None], Cli], tmp_path: Path
) -> None:
    page = tmp_path / "page"
    page.mkdir()
    for is_built in (False, True):
        if is_built:
            (page / "index.html").write_text("<!doctype html><body>the page</body>")
        process = cli_for(None).start("serve", "--port", "0", env={"LEASEHOLD_PAGE_DIR": str(page)})
        facts = facts_of(process)
        if is_built:
            assert "page" not in facts
            assert get(facts["documents"]).startswith(b"<!doctype html>")
        else:
            assert facts["page"].startswith("not built, only the API is served; run make web")
            assert "documents" not in facts
        process.terminate()
        assert finish(process).code == 0


def test_make_serve_keeps_its_data_inside_the_clone_where_git_ignores_it() -> None:
    made = subprocess.run(
        ["make", "--dry-run", "serve"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "leasehold serve --demo --data-dir .data\n" in made
    ignored = subprocess.run(["git", "check-ignore", ".data/"], cwd=ROOT, capture_output=True, check=False)
    assert ignored.returncode == 0


def test_serve_as_json_with_a_store_that_is_shown_without_its_password(cli: Cli, tmp_path: Path) -> None:
    environ = {"LEASEHOLD_DATA_DIR": str(tmp_path / "here"), "LEASEHOLD_PORT": "0"}
    url = cli.env["LEASEHOLD_STORE_URL"]
    secret = url.replace("redis://", "redis://default:canary@")
    process = cli.start("serve", "--json", "--workers", "2", "--store-url", secret, env=environ)
    assert process.stdout
    shown = json.loads(process.stdout.readline())
    assert shown["address"].startswith("http://127.0.0.1:")
    assert shown["store_url"] == url.removesuffix("/0")
    assert shown["data_dir"] == str(tmp_path / "here")
    assert len(shown["workers"]) == 2
    assert shown["demo"] == []
    assert "canary" not in json.dumps(shown)
    process.terminate()
    answer = finish(process)
    assert answer.code == 0
    assert "canary" not in answer.err


def test_on_a_terminal_it_is_a_panel_and_ctrl_c_ends_it(
    cli_for: Callable[[None], Cli], terminal: Terminal
) -> None:
    process = cli_for(None).start_in_terminal(terminal.slave, "serve", "--demo", "--port", "0")
    terminal.expect("Leasehold")
    terminal.expect("running")
    terminal.expect("│ vera@demo.example")
    terminal.type("\x03")
    answer = finish(process)
    assert (answer.code, answer.err) == (0, "")


def test_an_unusable_directory_is_exit_2(cli_for: Callable[[None], Cli], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = cli_for(None)("serve", "--port", "0", "--data-dir", str(tmp_path / "file"))
    assert answer.code == 2
    assert "give a directory" in answer.line


def test_wrong_settings_are_exit_2_with_a_line_for_each(cli: Cli) -> None:
    environ = {"LEASEHOLD_DOCUMENT_TTL": "20", "LEASEHOLD_DOCUMENT_HEARTBEAT": "10", "LEASEHOLD_WORKERS": "0"}
    answer = cli("serve", "--port", "99999", env=environ)
    assert answer.code == 2
    lines = answer.err.splitlines()
    assert lines[0] == "leasehold: these settings are not valid"
    assert [line.split(":")[0].strip() for line in lines[1:]] == [
        "LEASEHOLD_PORT",
        "LEASEHOLD_WORKERS",
        "LEASEHOLD_DOCUMENT_HEARTBEAT",
    ]


def test_wrong_settings_as_json(cli: Cli) -> None:
    answer = cli("serve", "--json", "--port", "99999")
    assert answer.code == 2
    assert answer.error["code"] == "invalid_request"
    assert "LEASEHOLD_PORT" in answer.error["message"]


def test_the_demo_is_for_this_machine_only(cli: Cli) -> None:
    answer = cli("serve", "--demo", "--host", "0.0.0.0")
    assert answer.code == 2
    assert "loopback only" in answer.err


def test_without_its_extra_serve_says_what_to_install(cli: Cli, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "limits.py").write_text("raise ModuleNotFoundError('No module named limits', name='limits')")
    answer = cli("serve", env={"PYTHONPATH": str(hidden)})
    assert answer.code == 2
    assert answer.line == "leasehold: serve needs limits: pip install 'leasehold[server]'"
