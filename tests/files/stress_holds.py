"""Derives from the journals of many processes which session held which file, and when.

Events of a session: ``asked`` (path, mode) before a lock is asked for, then ``granted`` (path, mode, fence) or ``busy``
(path); ``upgrading`` (path), then perhaps ``granted`` with ``upgraded``; ``read`` (path, sha, whole, sure, since); ``writing`` (path, seen, sha), then ``written`` or ``unwritten``
(path, sha); ``releasing`` (path), then ``released`` or ``lost`` (path). A life after the first begins with
``restoring``, then one ``report`` (path, outcome, mode, fence, to) for each file, then ``restored``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Line = dict[str, Any]


@dataclass
class Hold:
    """One lease, over all lives of its session. Held for certain from ``since`` to ``until``."""

    session: str
    path: str
    mode: str
    fence: int
    since: float
    until: float
    releasing_at: float | None = None

    def __str__(self) -> str:
        return (
            f"{self.session} {self.mode} {self.path} fence {self.fence} [{self.since:.4f}, {self.until:.4f}]"
        )


def find_holds(lines: Iterable[Line]) -> list[Hold]:
    """Every lease that a session got."""
    found: list[Hold] = []
    current: dict[tuple[str, str], Hold] = {}
    for line in lines:
        key = (line["session"], line.get("path", ""))
        hold = current.get(key)
        event, outcome = line["event"], line.get("outcome")
        if outcome == "restored" and hold is not None and hold.fence == line["fence"]:
            # The lease of the earlier process continues. If it does not, a hold in between overlaps with it.
            hold.until, hold.releasing_at = line["at"], None
        elif event == "granted" or outcome in {"restored", "reacquired"}:
            if hold is not None and line.get("upgraded"):
                hold.until = line[
                    "at"
                ]  # it was held for reading until it was held for writing, without a gap
            current[key] = Hold(*key, line["mode"], line["fence"], line["at"], line["at"])
            found.append(current[key])
        elif hold is None:
            continue
        elif event == "written" or (event == "read" and line["sure"]):
            hold.until = line["at"]
        elif event == "releasing":
            hold.releasing_at = line["at"]
        elif event == "released" and hold.releasing_at is not None:
            # A release that was in time shows that it was held until it began. One that was not shows nothing.
            hold.until = hold.releasing_at
            del current[key]
        elif event == "lost":
            del current[key]
    return found


def find_overlaps(holds: Iterable[Hold]) -> Iterator[str]:
    """Holds of a writer that overlap with another hold."""
    for of_path in _by_path(holds).values():
        last: Hold | None = None
        last_writer: Hold | None = None
        for hold in of_path:
            other = last if hold.mode == "write" else last_writer
            if other is not None and other.until > hold.since:
                yield f"two at once: {other} and {hold}"
            if last is None or hold.until > last.until:
                last = hold
            if hold.mode == "write" and (last_writer is None or hold.until > last_writer.until):
                last_writer = hold


def find_falling_fences(holds: Iterable[Hold]) -> Iterator[str]:
    """A later writer without a larger fence."""
    for of_path in _by_path(holds).values():
        highest: Hold | None = None
        for hold in of_path:
            if hold.mode != "write":
                continue
            if highest is not None and hold.fence <= highest.fence:
                yield f"fences do not grow: {highest} and then {hold}"
            if highest is None or hold.fence > highest.fence:
                highest = hold


def possible_holds(lines: Iterable[Line]) -> Mapping[tuple[str, str], list[tuple[float, float]]]:
    """By session and path, when it can have been held: from asking for it to knowing that it is not."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    since: dict[tuple[str, str], float] = {}
    for line in lines:
        key = (line["session"], line.get("path", ""))
        if line["event"] in {"released", "lost", "busy"} or line.get("outcome") == "lost":
            if key in since:
                found[key].append((since.pop(key), line["at"]))
        elif line["event"] in {"asked", "report"}:
            since.setdefault(key, line["at"])
    for key, begun in since.items():
        found[key].append((begun, math.inf))
    return found


def _by_path(holds: Iterable[Hold]) -> Mapping[str, list[Hold]]:
    found: dict[str, list[Hold]] = defaultdict(list)
    for hold in sorted(holds, key=lambda hold: hold.since):
        found[hold.path].append(hold)
    return found
