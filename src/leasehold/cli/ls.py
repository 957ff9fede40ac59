"""``leasehold ls``: prints the locks that are held or waited for."""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import TYPE_CHECKING

from leasehold.cli.errors import warn
from leasehold.cli.format import format_brief, format_holders, format_timestamp, printable, seconds_since
from leasehold.cli.output import Table, lock_as_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leasehold import LockInfo

SORTED_UP_TO = 1_000
_COLUMNS = ("name", "holder", "mode", "since", "remaining", "waiters", "fence")
_NONE = "-"
_WILD = frozenset("*?[")


def print_locks(found: Iterable[LockInfo], pattern: str, *, in_json: bool) -> None:
    """Print the locks on stdout, or a message on stderr if there are none, so that a pipe stays clean."""
    is_empty = True
    for batch in in_batches(found):
        is_empty = False
        if in_json:
            # One object per line and no list around them, so that a reader need not buffer a million to use the first.
            sys.stdout.writelines(json.dumps(lock_as_json(info)) + "\n" for info in batch)
        elif sys.stdout.isatty():
            _show_table(batch)
        else:
            sys.stdout.writelines("\t".join(_plain_cells(info)) + "\n" for info in batch)
    if is_empty and not in_json:
        warn(_describe_no_match(pattern))


def in_batches(found: Iterable[LockInfo]) -> Iterator[Sequence[LockInfo]]:
    """One batch sorted by name if there are few locks; otherwise unsorted batches, so that memory stays bounded."""
    locks = iter(found)
    first: dict[str, LockInfo] = {}  # by name: the store may show a lock twice
    for info in locks:
        first[info.name] = info
        if len(first) > SORTED_UP_TO:
            break
    else:
        if first:
            yield [first[name] for name in sorted(first)]
        return
    yield list(first.values())
    while batch := list(islice(locks, SORTED_UP_TO)):
        yield batch


def _show_table(batch: Sequence[LockInfo]) -> None:
    from leasehold.cli.rich_output import draw_table  # noqa: PLC0415 - slow to import, and only terminals need it

    rows: list[tuple[str, ...]] = []
    for info in batch:
        since = _NONE if info.held_since is None else f"{format_brief(seconds_since(info.held_since))} ago"
        left = _NONE if info.remaining is None else format_brief(info.remaining)
        rows.append(_cells(info, since, left))
    draw_table(Table(_COLUMNS, rows, folded=("name", "holder")))


def _plain_cells(info: LockInfo) -> tuple[str, ...]:
    since = _NONE if info.held_since is None else format_timestamp(info.held_since)
    left = _NONE if info.remaining is None else f"{info.remaining:.3f}"
    return _cells(info, since, left)


def _cells(info: LockInfo, since: str, left: str) -> tuple[str, ...]:
    fence = _NONE if info.fence is None else str(info.fence)
    return (
        printable(info.name),
        format_holders(info),
        info.mode or _NONE,
        since,
        left,
        str(info.waiters),
        fence,
    )


def _describe_no_match(pattern: str) -> str:
    if pattern == "*":
        return "no lock is held or waited for"
    message = f"no lock that is held or waited for matches {pattern!r}"
    if _WILD.isdisjoint(pattern):
        message += f"; a pattern matches the whole name, did you mean {pattern + '*'!r}?"
    return message
