"""``leasehold serve``: the document service in the foreground."""

from __future__ import annotations

import asyncio
import shlex
import sys
from typing import TYPE_CHECKING, Any

from leasehold.cli.errors import FailureError
from leasehold.cli.exit_codes import Exit
from leasehold.cli.output import Table, Title, show_facts, show_json
from leasehold.valkey.embedded import default_data_dir

if TYPE_CHECKING:
    from leasehold.server.process.serve import ServerInfo


def serve(*, in_json: bool, **flags: Any) -> None:
    """Run it until a signal comes, and say where it is and how to get in."""
    try:
        # Not at the top: every other command does without, and starts faster.
        from leasehold.server.process.serve import run  # noqa: PLC0415 - see above
        from leasehold.server.settings import Settings  # noqa: PLC0415 - see above
    except ModuleNotFoundError as missing:
        raise FailureError(
            Exit.USAGE, "invalid_request", f"serve needs {missing.name}: pip install 'leasehold[server]'"
        ) from missing
    settings = Settings.load(**flags)
    asyncio.run(run(settings, _show_as_json if in_json else _welcome))


def _show_as_json(running: ServerInfo) -> None:
    show_json(
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


def _welcome(running: ServerInfo) -> None:
    is_default = running.store.startswith("unix:") and running.data_dir == default_data_dir()
    where = "" if is_default else f" --url {shlex.quote(running.store)}"
    facts = {
        "open": running.address,
        "store": running.store,
        "data": str(running.data_dir),
        "workers": " ".join(map(str, running.workers)),
        **({"metrics": running.metrics} if running.metrics else {}),
        "look": f"leasehold ls{where}",
        "stop": "Ctrl-C; documents and locks are kept",
    }
    team = None
    if running.team:
        rows = [(person.email, person.password, f"{person.name}, {person.role}") for person in running.team]
        team = Table(("sign in as", "password", "who is"), rows)
    show_facts(Title("Leasehold", "running", "bold green"), facts, team)
    sys.stdout.flush()
