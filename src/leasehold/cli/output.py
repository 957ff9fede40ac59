"""Answers on stdout: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold.cli.format import duration, holder_line, moment, printable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from leasehold import Hold, LockInfo
    from leasehold.valkey.doctor import Finding


class Table(NamedTuple):
    """Rows under headings. Only what is ``folded`` gives way when the terminal is narrow."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    folded: Collection[str] = ()


class Title(NamedTuple):
    """What it is about, and how it is, in the colour of that."""

    subject: str
    state: str
    style: str


def say(line: str) -> None:
    """One line."""
    if sys.stdout:  # not if it was closed
        sys.stdout.write(f"{line}\n")


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
    """What is known about a lock; its readers, if it has any, in a table of their own."""
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
    state = ("held", "bold red") if info.is_held else ("free", "bold green")
    readers = _readers(info.holds) if info.mode == "shared" else None
    show_facts(Title(printable(info.name), *state), facts, readers)


def _readers(holds: Sequence[Hold]) -> Table:
    rows = [
        (holder_line(hold.holder), moment(hold.held_since), duration(hold.remaining), str(hold.fence))
        for hold in sorted(holds, key=lambda hold: hold.held_since)
    ]
    return Table(("reader", "since", "remaining", "fence"), rows, folded=("reader",))


def show_facts(title: Title, facts: Mapping[str, str], table: Table | None = None) -> None:
    """A title, named values and perhaps a table: in a panel on a terminal, as plain lines elsewhere."""
    if sys.stdout and sys.stdout.isatty():
        from leasehold.cli import rich_output  # noqa: PLC0415 - rich is for terminals, and takes its time

        rich_output.draw_panel(title, facts, table)
        return
    say(f"{title.subject} is {title.state}")
    for name, value in facts.items():
        say(f"{name:<10}  {value}")
    if table is not None:
        say("")
        for line in _aligned([table.columns, *table.rows]):
            say(line)


def show_findings(findings: Sequence[Finding]) -> None:
    """What was found, with advice under what needs it."""
    if sys.stdout and sys.stdout.isatty():
        from leasehold.cli import rich_output  # noqa: PLC0415 - as above

        rich_output.draw_findings(findings)
        return
    rows: list[tuple[str, ...]] = []
    for finding in findings:
        rows.append((finding.status, finding.check, printable(finding.value)))
        if finding.advice is not None:
            rows.append(("", "", f"→ {finding.advice}"))
    for line in _aligned(rows):
        say(line)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    # Not cut to any width: a line that was could not be searched for.
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
