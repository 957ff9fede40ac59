"""Answers on stdout: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from leasehold.cli.wording import duration, holder_line, moment, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from leasehold import Hold, LockInfo
    from leasehold.valkey.diagnosis import Finding

_STYLE = {"ok": "green", "warn": "yellow", "problem": "bold red"}
# Beyond a terminal there is no width: a line that was cut could not be searched for.
_UNLIMITED = 10_000


def show_json(answer: Mapping[str, Any]) -> None:
    """One JSON object; on a terminal over several lines."""
    sys.stdout.write(json.dumps(answer, indent=2 if sys.stdout.isatty() else None) + "\n")


def lock_as_json(info: LockInfo) -> dict[str, Any]:
    """A lock as an object. The fence is text: it outgrows what JavaScript counts exactly."""
    return {
        "name": info.name,
        "is_held": info.is_held,
        "mode": info.mode,
        "holder": info.holder,
        "held_since": info.held_since,
        "remaining": info.remaining,
        "fence": fence_as_json(info.fence),
        "waiters": info.waiters,
        "holds": [hold_as_json(hold) for hold in info.holds],
    }


def hold_as_json(hold: Hold) -> dict[str, Any]:
    """One lease as an object."""
    return {
        "holder": hold.holder,
        "held_since": hold.held_since,
        "remaining": hold.remaining,
        "fence": fence_as_json(hold.fence),
    }


def fence_as_json(fence: int | None) -> str | None:
    """Fences are decimal text in JSON."""
    return None if fence is None else str(fence)


def show_lock(info: LockInfo) -> None:
    """A panel with what is known about a lock; its readers, if it has any, in a table of their own."""
    facts: dict[str, str] = {}
    if info.mode == "shared":
        facts["readers"] = str(len(info.holds))
    elif info.is_held:
        facts["holder"] = holder_line(info.holder)
        facts["since"] = moment(info.held_since) if info.held_since is not None else "unknown"
    if info.is_held:
        facts["mode"] = info.mode or ""
        facts["remaining"] = duration(info.remaining or 0.0)
    facts["fence" if info.is_held else "last fence"] = str(info.fence or "unknown")
    facts["waiters"] = str(info.waiters)
    state = Text("held", style="bold red") if info.is_held else Text("free", style="bold green")
    readers = _readers(info.holds) if info.mode == "shared" else None
    show_facts(Text.assemble((printable(info.name), "bold"), " is ", state), facts, readers)


def _readers(holds: Sequence[Hold]) -> Table:
    table = new_table("reader", "since", "remaining", "fence")
    for hold in sorted(holds, key=lambda hold: hold.held_since):
        cells = (holder_line(hold.holder), moment(hold.held_since), duration(hold.remaining), str(hold.fence))
        table.add_row(*map(Text, cells))
    return table


def new_table(*columns: str, folded: Collection[str] = ("reader",)) -> Table:
    """A table without lines. Only what is ``folded`` gives way when the terminal is narrow."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        is_folded = name in folded
        table.add_column(name, no_wrap=not is_folded, overflow="fold" if is_folded else "ellipsis")
    return table


def show_facts(title: Text, facts: Mapping[str, str], table: Table | None = None) -> None:
    """A title, named values and perhaps a table: in a panel on a terminal, as plain lines elsewhere."""
    console = new_console()
    if not console.is_terminal:
        console.print(title)
        for name, value in facts.items():
            console.print(f"{name:<10}  {value}", markup=False)
        if table is not None:
            console.print("", table, sep="\n")
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(name, Text(value))
    inside = grid if table is None else Group(grid, "", table)
    console.print(Panel(inside, title=title, title_align="left", expand=False, padding=(0, 1)))


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
    new_console().print(table)


def new_console() -> Console:
    """Where answers go; as wide as it takes unless it is a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_UNLIMITED)
