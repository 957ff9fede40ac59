"""Prints the results of ``leasehold files``: lines and tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from leasehold.cli.errors import warn
from leasehold.cli.format import format_brief, format_timestamp, printable, seconds_since
from leasehold.cli.output import Table, fence_as_json
from leasehold.files.sessions.conflicts import describe_file_holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.files import Entry, FileInfo, HeldBy, Restored

_NONE = "-"


def print_files(found: Iterable[FileInfo], pattern: str, *, in_json: bool) -> None:
    """Print the files whose paths match, sorted by path."""
    files = sorted((info for info in found if fnmatchcase(info.path, pattern)), key=lambda info: info.path)
    if in_json:
        sys.stdout.writelines(json.dumps(file_as_json(info)) + "\n" for info in files)
        return
    rows = [_file_cells(info) for info in files]
    _print_rows(("path", "for", "holder", "purpose", "since", "remaining", "waiters", "fence"), rows)
    if not rows:
        warn("no file is locked" if pattern == "*" else f"no file that is locked matches {pattern!r}")


def file_as_json(info: FileInfo) -> dict[str, Any]:
    """A file as a JSON object. Fences are text, as everywhere."""
    return {
        "path": info.path,
        "sha256": info.sha256,
        "mode": info.mode,
        "waiters": info.waiters,
        "holds": [
            {
                "session": hold.session,
                "is_room": hold.is_room,
                "holder": hold.holder,
                "mode": hold.mode,
                "purpose": hold.purpose,
                "since": hold.since,
                "remaining": hold.remaining,
                "fence": fence_as_json(hold.fence),
            }
            for hold in info.holds
        ],
    }


def print_history(entries: Sequence[Entry], session: str, *, in_json: bool) -> None:
    """Print the files that the session holds or has requested."""
    if in_json:
        sys.stdout.writelines(json.dumps(_entry_as_json(entry)) + "\n" for entry in entries)
        return
    rows = [
        (
            printable(entry.path),
            entry.mode,
            entry.state,
            _format_since(entry.since),
            printable(entry.purpose or _NONE),
            str(entry.fence or _NONE),
        )
        for entry in entries
    ]
    _print_rows(("path", "for", "state", "since", "purpose", "fence"), rows)
    if not rows:
        warn(f"session {session!r} holds no file and has requested none")


def print_restored(reports: Sequence[Restored[Any]], session: str, *, in_json: bool) -> None:
    """Print the outcome for each file."""
    if in_json:
        sys.stdout.writelines(json.dumps(_restored_as_json(report)) + "\n" for report in reports)
        return
    for report in reports:
        sys.stdout.write(f"{printable(report.path)}: {printable(_describe_outcome(report))}\n")
    if not reports:
        warn(f"session {session!r} held no file")


def _describe_outcome(report: Restored[Any]) -> str:
    match report.outcome:
        case "restored":
            return f"restored for {report.mode}, with the same fence {report.fence}"
        case "reacquired":
            return f"reacquired for {report.mode}, with a new fence {report.fence}: the file may have been changed"
        case "lost":
            return f"lost to {describe_file_holder(report.lost_to)}"
        case "failed":
            return f"outcome unknown, try again: {report.error}"


def _restored_as_json(report: Restored[Any]) -> dict[str, Any]:
    error = report.error
    return {
        "path": report.path,
        "mode": report.mode,
        "outcome": report.outcome,
        "fence": fence_as_json(report.fence),
        "lost_to": report.lost_to,
        "error": None if error is None else {"code": error.code, "message": str(error)},
    }


def _entry_as_json(entry: Entry) -> dict[str, Any]:
    return {
        "path": entry.path,
        "mode": entry.mode,
        "state": entry.state,
        "since": entry.since,
        "ttl": entry.ttl,
        "purpose": entry.purpose,
        "fence": fence_as_json(entry.fence),
        "epoch": entry.epoch,
    }


def _file_cells(info: FileInfo) -> tuple[str, ...]:
    first: HeldBy | None = min(info.holds, key=lambda hold: hold.since, default=None)
    more = f" and {len(info.holds) - 1} more" if len(info.holds) > 1 else ""
    if first is None:
        return (printable(info.path), *[_NONE] * 5, str(info.waiters), _NONE)
    return (
        printable(info.path),
        first.mode,
        printable(describe_file_holder(first.holder)) + more,
        printable(first.purpose or _NONE),
        _format_since(first.since),
        _format_remaining(max(hold.remaining for hold in info.holds)),
        str(info.waiters),
        str(max(hold.fence for hold in info.holds)),
    )


def _format_since(unix_time: float) -> str:
    return (
        f"{format_brief(seconds_since(unix_time))} ago"
        if sys.stdout.isatty()
        else format_timestamp(unix_time)
    )


def _format_remaining(seconds: float) -> str:
    return format_brief(seconds) if sys.stdout.isatty() else f"{seconds:.3f}"


def _print_rows(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print a table on a terminal, otherwise a line with tabs for each row, without a heading."""
    if not sys.stdout.isatty():
        sys.stdout.writelines("\t".join(row) + "\n" for row in rows)
    elif rows:
        from leasehold.cli.rich_output import draw_table  # noqa: PLC0415 - slow to import, and only terminals need it

        draw_table(Table(columns, rows, folded=("path", "holder", "purpose")))
