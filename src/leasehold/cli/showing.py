"""Answers on stdout: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from leasehold.cli.wording import duration, holder_line, moment, printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasehold import LockInfo
    from leasehold.valkey.diagnosis import Finding

_STYLE = {"ok": "green", "warn": "yellow", "problem": "bold red"}
# Beyond a terminal there is no width: a line that was cut could not be searched for.
_UNLIMITED = 10_000


def show_json(answer: Mapping[str, Any]) -> None:
    """One JSON object; on a terminal over several lines."""
    sys.stdout.write(json.dumps(answer, indent=2 if sys.stdout.isatty() else None) + "\n")


def lock_as_json(info: LockInfo) -> dict[str, Any]:
    """A lock as an object. The fence is text: it outgrows what JavaScript counts exactly."""
    return asdict(info) | {"is_held": info.is_held, "fence": fence_as_json(info.fence)}


def fence_as_json(fence: int | None) -> str | None:
    """Fences are decimal text in JSON."""
    return None if fence is None else str(fence)


def show_lock(info: LockInfo) -> None:
    """A panel with what is known about a lock."""
    if info.is_held:
        facts = {
            "holder": holder_line(info.holder),
            "since": moment(info.held_since) if info.held_since is not None else "unknown",
            "mode": info.mode or "",
            "fence": str(info.fence),
            "remaining": duration(info.remaining or 0.0),
            "waiters": str(info.waiters),
        }
    else:
        facts = {"last fence": str(info.fence or "unknown"), "waiters": str(info.waiters)}
    state = Text("held", style="bold red") if info.is_held else Text("free", style="bold green")
    show_facts(Text.assemble((printable(info.name), "bold"), " is ", state), facts)


def show_facts(title: Text, facts: Mapping[str, str]) -> None:
    """A title and named values: in a panel on a terminal, as plain lines elsewhere."""
    console = _console()
    if not console.is_terminal:
        console.print(title)
        for name, value in facts.items():
            console.print(f"{name:<10}  {value}", markup=False)
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(name, Text(value))
    console.print(Panel(grid, title=title, title_align="left", expand=False, padding=(0, 1)))


def show_findings(findings: Sequence[Finding]) -> None:
    """A table of what was found, with advice under what needs it."""
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        said = Text(printable(finding.value))
        if finding.advice is not None:
            said.append(f"\n→ {finding.advice}", style="italic")
        table.add_row(Text(finding.status, style=_STYLE[finding.status]), finding.check, said)
    _console().print(table)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_UNLIMITED)
