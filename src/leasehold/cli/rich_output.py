"""Tables and panels for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.cli.format import printable
from leasehold.extras import requires_extra

with requires_extra("output on a terminal", "cli"):
    from rich.console import Console, Group
    from rich.panel import Panel
    from rich.table import Table as RichTable
    from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from leasehold.cli.output import Table, Title
    from leasehold.valkey.doctor import Finding

_STYLE = {"ok": "green", "warn": "yellow", "problem": "bold red"}
# On narrower terminals the cells need the room between the columns.
_WIDE = 100


def draw_table(table: Table) -> None:
    """Print a table without lines."""
    console = Console(highlight=False)
    drawn = _rich_table(table)
    if console.width < _WIDE:
        drawn.padding = (0, 1, 0, 0)
    console.print(drawn)


def draw_panel(title: Title, facts: Mapping[str, str], table: Table | None = None) -> None:
    """Print a title, named values and a table in a panel."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in facts.items():
        grid.add_row(name, Text(value))
    inside = grid if table is None else Group(grid, "", _rich_table(table))
    heading = Text.assemble((title.subject, "bold"), " is ", (title.state, title.style))
    panel = Panel(inside, title=heading, title_align="left", expand=False, padding=(0, 1))
    Console(highlight=False).print(panel)


def draw_findings(findings: Sequence[Finding]) -> None:
    """Print the findings of ``doctor``, each with its advice below it."""
    table = RichTable.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(printable(finding.value))
        if finding.advice is not None:
            text.append(f"\n→ {finding.advice}", style="italic")
        table.add_row(Text(finding.status, style=_STYLE[finding.status]), finding.check, text)
    Console(highlight=False).print(table)


def _rich_table(table: Table) -> RichTable:
    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in table.columns:
        is_folded = name in table.folded
        drawn.add_column(name, no_wrap=not is_folded, overflow="fold" if is_folded else "ellipsis")
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    return drawn
