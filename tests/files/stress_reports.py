"""Checks that the reports of restores were true."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.files.stress_holds import Line, possible_holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# Between a grant by the server and the line about it, on a machine with much to do.
SLACK = 5.0


@dataclass
class Known:
    """What a session knew of a file when it was killed; ``fence`` is None if it may not have had it at all."""

    fence: int | None
    mode: str
    is_certain: bool


def find_untrue_reports(lines: Sequence[Line]) -> Iterator[str]:
    """The reports that are missing, invented or wrong."""
    lives: dict[str, dict[int, list[Line]]] = defaultdict(lambda: defaultdict(list))
    for line in lines:
        lives[line["session"]][line["life"]].append(line)
    holds = possible_holds(lines)
    for session, of_session in lives.items():
        known: dict[str, Known] = {}
        for life in sorted(of_session):
            told = of_session[life]
            if any(line["event"] == "restored" for line in told):
                yield from _compare(session, known, told, holds)
            for line in told:
                _learn(known, line)


def known_of(lines: Iterable[Line]) -> dict[str, Known]:
    """The files that one session holds at the end of ``queues``."""
    known: dict[str, Known] = {}
    for line in lines:
        _learn(known, line)
    return known


def _compare(
    session: str,
    known: Mapping[str, Known],
    told: Sequence[Line],
    holds: Mapping[tuple[str, str], list[tuple[float, float]]],
) -> Iterator[str]:
    since = next(line["at"] for line in told if line["event"] == "restoring")
    reports = {line["path"]: line for line in told if line["event"] == "report"}
    for path, state in known.items():
        if state.is_certain and path not in reports:
            yield f"left out: {session} held {path} with fence {state.fence} and got no report of it"
    for path, report in reports.items():
        if path not in known:
            yield f"made up: {session} never requested {path}"
            continue
        had, got = known[path].fence, report["fence"]
        if report["outcome"] == "failed":
            continue
        if known[path].is_certain and report["mode"] != known[path].mode:
            yield f"wrong mode: {session} had {path} to {known[path].mode}, was reported to {report['mode']}"
        if report["outcome"] == "restored" and had is not None and got != had:
            yield f"not the same: {session} had {path} with fence {had} and was reported {got}"
        if report["outcome"] == "reacquired" and had is not None and got <= had:
            yield f"not a new one: {session} had {path} with fence {had} and was reported {got}"
        if report["outcome"] == "lost" and not any(
            begun <= report["at"] and ended >= since - SLACK
            for begun, ended in holds.get((report["to"], path), ())
        ):
            yield f"not lost to that one: {session} lost {path}, and {report['to']} did not have it"


def _learn(known: dict[str, Known], line: Line) -> None:
    path = line.get("path", "")
    event, outcome = line["event"], line.get("outcome")
    if event == "upgrading" and path in known:
        # A reader or a writer by now, and not known which.
        known[path] = Known(None, known[path].mode, is_certain=False)
    elif event == "asked":
        known[path] = Known(None, line["mode"], is_certain=False)
    elif event == "granted" or outcome in {"restored", "reacquired"}:
        known[path] = Known(line["fence"], line["mode"], is_certain=True)
    elif event == "releasing" and path in known:
        known[path].is_certain = False
    elif event in {"released", "lost", "busy"} or outcome == "lost":
        known.pop(path, None)
