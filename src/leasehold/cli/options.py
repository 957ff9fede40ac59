"""Options that several commands have."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from leasehold.errors import InvalidRequest

_STORE = "Store"


def _print_version(is_wanted: bool) -> None:  # noqa: FBT001 - a value, called by typer
    if is_wanted:
        typer.echo(f"leasehold {version('leasehold')}")
        raise typer.Exit


def seconds_to_wait(text: str) -> float | None:
    """What ``--wait`` says; None for ``forever``."""
    if text == "forever":
        return None
    try:
        return float(text)
    except ValueError:
        raise InvalidRequest(f"--wait takes a number of seconds or 'forever', not {text!r}") from None


LockName = Annotated[
    str, typer.Argument(metavar="NAME", help="The lock: any text of up to 512 bytes.", show_default=False)
]
Url = Annotated[
    str | None,
    typer.Option(
        help="Where the store is: redis://, rediss://, valkey://, valkeys:// or unix://. "
        "Default: LEASEHOLD_STORE_URL, else REDIS_HOST and REDIS_PORT, else an embedded Valkey.",
        show_default=False,
        rich_help_panel=_STORE,
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Where the embedded Valkey keeps its data. Default: LEASEHOLD_DATA_DIR, else the user's data directory.",
        show_default=False,
        rich_help_panel=_STORE,
    ),
]
Namespace = Annotated[
    str,
    typer.Option(help="The first part of every key.", envvar="LEASEHOLD_NAMESPACE", rich_help_panel=_STORE),
]
Timeout = Annotated[
    float,
    typer.Option(
        help="Seconds to wait for each answer of the store.",
        envvar="LEASEHOLD_TIMEOUT",
        rich_help_panel=_STORE,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Answer in JSON on stdout; report errors in JSON on stderr."),
]
Version = Annotated[
    bool,
    typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True),
]
