"""The modules that a process imports at start-up: hooks and cron jobs pay for them each time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Cli

# Runs the rest of the code, and leaves behind what was loaded when the process ended.
TELL = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, sep=chr(10), file=open("modules", "w")))
"""
COMMAND = TELL + "sys.argv[0] = 'leasehold'; from leasehold.cli import main; main()"

FRAMEWORKS = {
    "fastapi",
    "sqlalchemy",
    "alembic",
    "pydantic",
    "uvicorn",
    "limits",
    "redis",
    "rich",
    "typer",
    "click",
}
ASYNCIO = {"asyncio", "ssl"}
LOCKS = {"hiredis", "leasehold.client", "leasehold.blocking", "leasehold.core", "leasehold.valkey"}


@pytest.fixture
def loaded_by(cli: Cli, tmp_path: Path) -> Callable[..., set[str]]:
    """The modules that a process had loaded when it ended, which it must do well."""

    def load(code: str, *arguments: str) -> set[str]:
        answer = cli.python(code, *arguments)
        assert (answer.code, answer.err) == (0, "")
        return set((tmp_path / "modules").read_text().split())

    return load


def test_the_library_is_loaded_when_it_is_used(loaded_by: Any) -> None:
    loaded = loaded_by(TELL + "import leasehold")
    assert {name for name in loaded if name.startswith("leasehold")} == {"leasehold", "leasehold.errors"}
    assert not loaded & (
        FRAMEWORKS | ASYNCIO | LOCKS | {"dataclasses", "inspect", "logging", "json", "pathlib"}
    )


def test_a_blocking_client_does_without_asyncio_and_tls(loaded_by: Any) -> None:
    code = "import leasehold; leasehold.blocking.connect('redis://127.0.0.1:1').close()"
    loaded = loaded_by(TELL + code)
    assert "leasehold.blocking" in loaded
    assert not loaded & (FRAMEWORKS | ASYNCIO | {"leasehold.client", "leasehold.valkey.doctor"})


def test_an_asynchronous_client_does_without_the_blocking_one(loaded_by: Any) -> None:
    loaded = loaded_by(TELL + "import leasehold; leasehold.connect('redis://127.0.0.1:1')")
    assert "leasehold.client" in loaded
    assert not loaded & (FRAMEWORKS | {"leasehold.blocking", "leasehold.valkey.doctor"})


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["files"]], ids=" ".join)
def test_the_help_loads_no_library(loaded_by: Any, arguments: list[str]) -> None:
    loaded = loaded_by(COMMAND, *arguments)
    assert "leasehold.cli.app" in loaded
    assert not loaded & (FRAMEWORKS | ASYNCIO | LOCKS | {"dataclasses", "inspect", "logging", "pathlib"})


def test_run_loads_the_asynchronous_client_and_no_framework(loaded_by: Any) -> None:
    loaded = loaded_by(COMMAND, "run", "demo", "--", "true")
    assert "leasehold.client" in loaded
    assert not loaded & (FRAMEWORKS | {"leasehold.blocking", "leasehold.server", "leasehold.valkey.embedded"})


@pytest.mark.parametrize("arguments", [["show", "demo"], ["ls", "--json"]], ids=" ".join)
def test_commands_that_query_load_the_blocking_client_and_no_framework(
    loaded_by: Any, arguments: list[str]
) -> None:
    loaded = loaded_by(COMMAND, *arguments)
    assert "leasehold.blocking" in loaded
    assert not loaded & (FRAMEWORKS | ASYNCIO | {"leasehold.client", "leasehold.server"})


def test_the_supervisor_does_not_load_what_workers_need(loaded_by: Any) -> None:
    loaded = loaded_by(
        TELL + "import leasehold.cli.serve, leasehold.server.process.serve, leasehold.server.settings"
    )
    assert not loaded & {"fastapi", "sqlalchemy", "alembic", "uvicorn", "redis", "rich", "jwt", "argon2"}


def test_a_worker_loads_drivers_and_migrations_when_it_needs_them(loaded_by: Any) -> None:
    loaded = loaded_by(TELL + "import leasehold.server.process.worker")
    assert "fastapi" in loaded
    assert not loaded & {"alembic", "asyncpg", "sqlalchemy.dialects.postgresql", "redis", "rich"}


def test_lazily_loaded_names_are_attributes(cli: Cli) -> None:
    code = """
import inspect, json, pickle, leasehold
hold = leasehold.Hold("ada", 1.0, 2.0, 3)
missing = "no error"
try:
    leasehold.nothing
except AttributeError as error:
    missing = str(error)
from leasehold import *
print(json.dumps({
    "dir": sorted(set(leasehold.__all__) - set(dir(leasehold))),
    "star": sorted(set(leasehold.__all__) - set(globals())),
    "pickle": pickle.loads(pickle.dumps(hold)) == hold,
    "same": connect is leasehold.client.connect and blocking is leasehold.blocking,
    "missing": missing,
}))
"""
    answer = cli.python(code)
    assert json.loads(answer.out) == {
        "dir": [],
        "star": [],
        "pickle": True,
        "same": True,
        "missing": "module 'leasehold' has no attribute 'nothing'",
    }
