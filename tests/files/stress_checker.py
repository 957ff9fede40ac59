"""Checks that the journals of many processes on the same files are consistent with working locks.

Independent of the locks' implementation: it reads the replies with their times, and the final contents of the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.files.stress_holds import find_falling_fences, find_holds, find_overlaps
from tests.files.stress_reports import find_untrue_reports
from tests.files.stress_updates import find_lost_updates, find_torn_reads

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.files.stress_holds import Line


def check(lines: Sequence[Line], *, before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Everything that cannot have happened. ``before`` and ``after`` are the hashes of the files by path."""
    holds = find_holds(lines)
    return [
        *find_torn_reads(lines),
        *find_overlaps(holds),
        *find_falling_fences(holds),
        *find_lost_updates(lines, before=before, after=after),
        *find_untrue_reports(lines),
    ]
