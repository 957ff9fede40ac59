"""``leasehold ls``: prints the locks that are held or waited for."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from leasehold.cli.errors import warn
from leasehold.cli.format import NONE, format_holders, printable, remaining_cell, since_cell
from leasehold.cli.output import Table, lock_as_json, print_json_lines, print_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from leasehold import LockInfo

SORTED_UP_TO = 1_000
_COLUMNS = ("name", "holder", "mode", "since", "remaining", "waiters", "fence")
_WILD = frozenset("*?[")


def print_locks(found: Iterable[LockInfo], pattern: str, *, in_json: bool) -> None:
    """Print the locks on stdout, or a message on stderr if there are none, so that a pipe stays clean."""
    is_empty = True
    for batch in in_batches(found):
        is_empty = False
        if in_json:
            print_json_lines(map(lock_as_json, batch))
        else:
            print_rows(Table(_COLUMNS, [_cells(info) for info in batch], folded=("name", "holder")))
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


def _cells(info: LockInfo) -> tuple[str, ...]:
    return (
        printable(info.name),
        format_holders(info),
        info.mode or NONE,
        since_cell(info.held_since),
        remaining_cell(info.remaining),
        str(info.waiters),
        NONE if info.fence is None else str(info.fence),
    )


def _describe_no_match(pattern: str) -> str:
    if pattern == "*":
        return (
            "no lock is held or waited for; documents and files are not listed here: see /editing-now "
            "of leasehold serve, and leasehold files ls"
        )
    message = f"no lock that is held or waited for matches {pattern!r}"
    if _WILD.isdisjoint(pattern):
        message += f"; a pattern matches the whole name, did you mean {pattern + '*'!r}?"
    return message
