"""What ``leasehold files`` answers: lines and tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from leasehold.cli.errors import warn
from leasehold.cli.format import age, brief, printable, timestamp
from leasehold.cli.output import Table, fence_as_json
from leasehold.files.sessions.conflicts import describe_file_holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from leasehold.files import Entry, FileInfo, HeldBy, Restored

_NOTHING = "-"


def show_files(found: Iterable[FileInfo], pattern: str, *, in_json: bool) -> None:
    """Those whose paths match, sorted by path."""
    files = sorted((info for info in found if fnmatchcase(info.path, pattern)), key=lambda info: info.path)
    if in_json:
        sys.stdout.writelines(json.dumps(file_as_json(info)) + "\n" for info in files)
        return
    rows = [_file_cells(info) for info in files]
    _show(("path", "for", "holder", "purpose", "since", "remaining", "waiters", "fence"), rows)
    if not rows:
        warn("no file is locked" if pattern == "*" else f"no file that is locked matches {pattern!r}")


def file_as_json(info: FileInfo) -> dict[str, Any]:
    """A file as an object. Fences are text, as everywhere."""
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


def show_history(entries: Sequence[Entry], session: str, *, in_json: bool) -> None:
    """What the session holds or has asked for, the oldest first."""
    if in_json:
        sys.stdout.writelines(json.dumps(_entry_as_json(entry)) + "\n" for entry in entries)
        return
    rows = [
        (
            printable(entry.path),
            entry.mode,
            entry.state,
            _when(entry.since),
            printable(entry.purpose or _NOTHING),
            str(entry.fence or _NOTHING),
        )
        for entry in entries
    ]
    _show(("path", "for", "state", "since", "purpose", "fence"), rows)
    if not rows:
        warn(f"session {session!r} holds nothing and has asked for nothing")


def show_restored(reports: Sequence[Restored[Any]], session: str, *, in_json: bool) -> None:
    """What became of each file."""
    if in_json:
        sys.stdout.writelines(json.dumps(_report_as_json(report)) + "\n" for report in reports)
        return
    for report in reports:
        sys.stdout.write(f"{printable(report.path)}: {printable(_what_became(report))}\n")
    if not reports:
        warn(f"session {session!r} held nothing")


def _what_became(report: Restored[Any]) -> str:
    match report.outcome:
        case "restored":
            return f"restored for {report.mode}, with the same fence {report.fence}"
        case "reacquired":
            return f"reacquired for {report.mode}, with a new fence {report.fence}: it may have been changed meanwhile"
        case "lost":
            return f"lost to {describe_file_holder(report.lost_to)}"
        case "failed":
            return f"not known, try again: {report.error}"


def _report_as_json(report: Restored[Any]) -> dict[str, Any]:
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
        return (printable(info.path), *[_NOTHING] * 5, str(info.waiters), _NOTHING)
    return (
        printable(info.path),
        first.mode,
        printable(describe_file_holder(first.holder)) + more,
        printable(first.purpose or _NOTHING),
        _when(first.since),
        _left(max(hold.remaining for hold in info.holds)),
        str(info.waiters),
        str(max(hold.fence for hold in info.holds)),
    )


def _when(moment: float) -> str:
    return f"{brief(age(moment))} ago" if sys.stdout.isatty() else timestamp(moment)


def _left(seconds: float) -> str:
    return brief(seconds) if sys.stdout.isatty() else f"{seconds:.3f}"


def _show(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """A table on a terminal; elsewhere a line for each with tabs, without a heading."""
    if not sys.stdout.isatty():
        sys.stdout.writelines("\t".join(row) + "\n" for row in rows)
    elif rows:
        from leasehold.cli.rich_output import draw_table  # noqa: PLC0415 - rich is for terminals, and takes its time

        draw_table(Table(columns, rows, folded=("path", "holder", "purpose")))
