"""Checks that every acknowledged write is still in the files, and that every reader saw the current contents."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.files.stress_holds import Line


def find_torn_reads(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        if line["event"] == "read" and not line["whole"]:
            yield f"torn read: {line['session']} of {line['path']} at {line['at']:.4f}"


def find_lost_updates(
    lines: Iterable[Line], *, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[str]:
    """Follows the contents of a file back in time: every acknowledged write must be among them.

    Each write notes from what it was made, and no contents are written twice, so there is one way back.
    """
    of_path: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        of_path[line.get("path", "")].append(line)
    for path, first in before.items():
        writings = {line["sha"]: line for line in of_path[path] if line["event"] == "writing"}
        now, way = after[path], list[str]()
        while now != first and now in writings:
            way.append(now)
            now = writings[now]["seen"]
        if now != first:
            yield f"unexplained: {path} has contents that no write made from the ones before"
            continue
        contents = {sha: number for number, sha in enumerate([first, *reversed(way)])}
        for line in of_path[path]:
            if line["event"] == "written" and line["sha"] not in contents:
                yield f"lost update: {line['session']} on {path}, acknowledged at {line['at']:.4f}"
            if line["event"] == "unwritten" and line["sha"] in contents:
                yield f"written after all: {line['session']} on {path} got an error that it was not"
        yield from _find_stale_reads(path, contents, of_path[path])


def _find_stale_reads(path: str, contents: Mapping[str, int], lines: Sequence[Line]) -> Iterator[str]:
    """A read under the lock sees every write that was acknowledged before it began."""
    written = [line for line in lines if line["event"] == "written" and line["sha"] in contents]
    times = [line["at"] for line in written]
    newest = list(itertools.accumulate((contents[line["sha"]] for line in written), max, initial=0))
    for line in lines:
        if line["event"] != "read" or not line["whole"] or not line["sure"]:
            continue
        if line["sha"] not in contents:
            yield f"read from nowhere: {line['session']} of {path} at {line['at']:.4f}"
        elif contents[line["sha"]] < newest[bisect_left(times, line["since"])]:
            yield f"stale read: {line['session']} of {path} at {line['at']:.4f}"
