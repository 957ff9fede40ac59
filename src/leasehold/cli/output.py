"""Prints results on stdout: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.cli.format import format_duration, format_holder, format_time, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from leasehold import Hold, LockInfo
    from leasehold.valkey.doctor import Finding


class Table(NamedTuple):
    """Rows under headings. Only ``folded`` columns wrap when the terminal is narrow."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    folded: Collection[str] = ()


class Title(NamedTuple):
    """A subject and its state, with the style of the state."""

    subject: str
    state: str
    style: str


def print_line(line: str) -> None:
    """Print one line."""
    if sys.stdout:  # None if it was closed
        sys.stdout.write(f"{line}\n")


def print_json(answer: Mapping[str, Any]) -> None:
    """Print one JSON object; indented on a terminal."""
    sys.stdout.write(json.dumps(answer, indent=2 if sys.stdout.isatty() else None) + "\n")


def lock_as_json(info: LockInfo) -> dict[str, Any]:
    """A lock as a JSON object. The fence is text, because it may exceed JavaScript's exact integers."""
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
    """One lease as a JSON object."""
    return {
        "holder": hold.holder,
        "held_since": hold.held_since,
        "remaining": hold.remaining,
        "fence": fence_as_json(hold.fence),
    }


def fence_as_json(fence: int | None) -> str | None:
    """The fence in decimal digits."""
    return None if fence is None else str(fence)


def print_lock(info: LockInfo) -> None:
    """Print a lock, with its readers in a table."""
    facts: dict[str, str] = {}
    if info.mode == "shared":
        facts["readers"] = str(len(info.holds))
    elif info.is_held:
        facts["holder"] = format_holder(info.holder)
        facts["since"] = format_time(info.held_since) if info.held_since is not None else "unknown"
    if info.is_held:
        facts["mode"] = info.mode or ""
        facts["remaining"] = format_duration(info.remaining or 0.0)
    facts["fence" if info.is_held else "last fence"] = str(info.fence or "unknown")
    facts["waiters"] = str(info.waiters)
    state = ("held", "bold red") if info.is_held else ("free", "bold green")
    readers = _readers(info.holds) if info.mode == "shared" else None
    print_facts(Title(printable(info.name), *state), facts, readers)


def _readers(holds: Sequence[Hold]) -> Table:
    rows = [
        (
            format_holder(hold.holder),
            format_time(hold.held_since),
            format_duration(hold.remaining),
            str(hold.fence),
        )
        for hold in sorted(holds, key=lambda hold: hold.held_since)
    ]
    return Table(("reader", "since", "remaining", "fence"), rows, folded=("reader",))


def print_facts(title: Title, facts: Mapping[str, str], table: Table | None = None) -> None:
    """Print a title, named values and a table: in a panel on a terminal, as plain lines elsewhere."""
    if sys.stdout and sys.stdout.isatty():
        from leasehold.cli import rich_output  # noqa: PLC0415 - slow to import, and only terminals need it

        rich_output.draw_panel(title, facts, table)
        return
    print_line(f"{title.subject} is {title.state}")
    for name, value in facts.items():
        print_line(f"{name:<10}  {value}")
    if table is not None:
        print_line("")
        for line in _align([table.columns, *table.rows]):
            print_line(line)


def print_findings(findings: Sequence[Finding]) -> None:
    """Print the findings of ``doctor``, each with its advice below it."""
    if sys.stdout and sys.stdout.isatty():
        from leasehold.cli import rich_output  # noqa: PLC0415 - as above

        rich_output.draw_findings(findings)
        return
    rows: list[tuple[str, ...]] = []
    for finding in findings:
        rows.append((finding.status, finding.check, printable(finding.value)))
        if finding.advice is not None:
            rows.append(("", "", f"→ {finding.advice}"))
    for line in _align(rows):
        print_line(line)


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    # Not cut to the width: a cut line could not be searched for.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
