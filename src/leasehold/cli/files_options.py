"""Options that the commands for files have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_SESSION = "Session"

FilePath = Annotated[
    str,
    typer.Argument(
        metavar="PATH",
        help="The file, as you would open it; it need not exist yet.",
        show_default=False,
    ),
]
Session = Annotated[
    str | None,
    typer.Option(
        help="Who you are to others: letters, digits, - and _. Default: LEASEHOLD_SESSION, else cli-USER-HOST.",
        show_default=False,
        rich_help_panel=_SESSION,
    ),
]
SecretFile = Annotated[
    Path | None,
    typer.Option(
        help="Where the session's secret is. Default: LEASEHOLD_SESSION_SECRET has the secret itself, else "
        "LEASEHOLD_SESSION_SECRET_FILE, else a file in the user's data directory.",
        show_default=False,
        rich_help_panel=_SESSION,
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        help="Refuse files that are not below this directory. Default: LEASEHOLD_ROOT, else with --project the "
        "current directory, else /.",
        show_default=False,
    ),
]
Project = Annotated[
    str | None,
    typer.Option(
        help="Name the locks after this project and the path below the root, for machines that have the files at "
        "different places. Default: LEASEHOLD_PROJECT.",
        show_default=False,
    ),
]
