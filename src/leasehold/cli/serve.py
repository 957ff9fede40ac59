"""``leasehold serve``: the document service in the foreground."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import TYPE_CHECKING, Any

from leasehold.cli.errors import CliError
from leasehold.cli.exit_codes import ExitCode
from leasehold.cli.output import Table, Title, print_facts, print_json
from leasehold.extras import requires_extra
from leasehold.valkey.embedded import default_data_dir

if TYPE_CHECKING:
    from leasehold.server.process.serve import ServerInfo


_NO_PAGE = "not built, only the API is served; run make web (Node 20.19 or newer) and start again"


def run_service(*, in_json: bool, **flags: Any) -> None:
    """Run the service until a signal ends it; once it answers, print its address and how to sign in."""
    try:
        with requires_extra("serve", "server"):
            # Not at the top: the other commands do not need it, and start faster without it.
            from leasehold.server.process.serve import run  # noqa: PLC0415 - see above
            from leasehold.server.settings import Settings  # noqa: PLC0415 - see above
    except ModuleNotFoundError as missing:
        raise CliError(ExitCode.USAGE, "invalid_request", str(missing)) from missing
    settings = Settings.load(**flags)
    asyncio.run(run(settings, _print_json if in_json else _print_summary))


def _print_json(running: ServerInfo) -> None:
    print_json(
        {
            "address": running.address,
            "store_url": running.store,
            "data_dir": str(running.data_dir),
            "workers": running.workers,
            "metrics": running.metrics,
            "demo": [
                {"name": person.name, "role": person.role, "email": person.email, "password": person.password}
                for person in running.team
            ],
        }
    )
    sys.stdout.flush()


def _print_summary(running: ServerInfo) -> None:
    is_default = running.store.startswith("unix:") and running.data_dir == default_data_dir()
    where = "" if is_default else f" --url {shlex.quote(running.store)}"
    facts = {
        "open": running.address,
        **({} if running.has_page else {"page": _NO_PAGE}),
        "store": running.store,
        "data": str(running.data_dir),
        "workers": " ".join(map(str, running.workers)),
        **({"metrics": running.metrics} if running.metrics else {}),
        **({"documents": f"{running.address}/editing-now"} if running.has_page else {}),
        "locks": f"leasehold ls{where}",
        "stop": "Ctrl-C; documents and locks are kept",
    }
    team = None
    if running.team:
        rows = [(person.email, person.password, f"{person.name}, {person.role}") for person in running.team]
        team = Table(("sign in as", "password", "who is"), rows)
    print_facts(Title("Leasehold", "running", "bold green"), facts, team)
    sys.stdout.flush()
