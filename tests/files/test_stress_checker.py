"""The checker of the stress test finds each kind of wrong in a history that is otherwise right."""

from __future__ import annotations

from typing import Any

import pytest
from tests.files.stress_checker import check
from tests.files.stress_records import compose, is_whole

BEFORE, AFTER = {"f": "h0"}, {"f": "h3"}


def honest() -> list[dict[str, Any]]:
    """One writes, two read, the writer is killed while it holds the file and gets it back; another one comes late."""
    story = [
        ("ada", 0, "asked", {"mode": "write"}),
        ("ada", 0, "granted", {"mode": "write", "fence": 10}),
        ("ada", 0, "read", {"sha": "h0", "whole": True, "sure": True, "since": 2.5}),
        ("ada", 0, "writing", {"seen": "h0", "sha": "h1"}),
        ("ada", 0, "written", {"sha": "h1"}),
        ("ada", 0, "releasing", {}),
        ("ada", 0, "released", {}),
        ("bob", 0, "asked", {"mode": "read"}),
        ("bob", 0, "granted", {"mode": "read", "fence": 11}),
        ("eve", 0, "asked", {"mode": "read"}),
        ("eve", 0, "granted", {"mode": "read", "fence": 12}),
        ("bob", 0, "read", {"sha": "h1", "whole": True, "sure": True, "since": 11.5}),
        ("eve", 0, "releasing", {}),
        ("eve", 0, "released", {}),
        ("bob", 0, "releasing", {}),
        ("bob", 0, "released", {}),
        ("ada", 0, "asked", {"mode": "write"}),
        ("ada", 0, "granted", {"mode": "write", "fence": 13}),
        ("ada", 0, "writing", {"seen": "h1", "sha": "h2"}),
        # Killed here; it was written, but not acknowledged.
        ("ada", 1, "restoring", {"path": ""}),
        ("ada", 1, "report", {"outcome": "restored", "mode": "write", "fence": 13, "to": None}),
        ("ada", 1, "restored", {"path": ""}),
        ("ada", 1, "releasing", {}),
        # Killed again, before it knew whether it had given it back.
        ("bob", 0, "asked", {"mode": "write"}),
        ("bob", 0, "granted", {"mode": "write", "fence": 14}),
        ("ada", 2, "restoring", {"path": ""}),
        ("ada", 2, "report", {"outcome": "lost", "mode": "write", "fence": None, "to": "bob"}),
        ("ada", 2, "restored", {"path": ""}),
        ("bob", 0, "writing", {"seen": "h2", "sha": "h3"}),
        ("bob", 0, "written", {"sha": "h3"}),
        ("bob", 0, "releasing", {}),
        ("bob", 0, "released", {}),
    ]
    return [
        {"session": session, "life": life, "at": float(at), "event": event, "path": "f", **fields}
        for at, (session, life, event, fields) in enumerate(story, 1)
    ]


def line(story: list[dict[str, Any]], session: str, event: str, nth: int = 0) -> dict[str, Any]:
    return [each for each in story if (each["session"], each["event"]) == (session, event)][nth]


def test_an_honest_history_has_nothing_wrong() -> None:
    assert check(honest(), before=BEFORE, after=AFTER) == []


def torn(story: Any) -> None:
    line(story, "bob", "read")["whole"] = False


def stale(story: Any) -> None:
    line(story, "bob", "read")["sha"] = "h0"


def from_nowhere(story: Any) -> None:
    line(story, "bob", "read")["sha"] = "h9"


def two_writers(story: Any) -> None:
    line(story, "bob", "granted", 1)["at"] = 20.5


def writer_among_readers(story: Any) -> None:
    line(story, "ada", "granted", 1)["at"] = 11.7


def falling_fence(story: Any) -> None:
    line(story, "bob", "granted", 1)["fence"] = 13


def lost_update(story: Any) -> None:
    line(story, "bob", "writing")["seen"] = "h1"
    story.insert(20, {**line(story, "ada", "written"), "at": 20.1, "sha": "h2"})


def unexplained(story: Any) -> None:
    line(story, "bob", "writing")["seen"] = "h9"


def written_after_all(story: Any) -> None:
    line(story, "bob", "written")["event"] = "unwritten"


def left_out(story: Any) -> None:
    story.remove(line(story, "ada", "report"))


def made_up(story: Any) -> None:
    story.append({**line(story, "ada", "report"), "path": "other"})


def wrong_mode(story: Any) -> None:
    line(story, "ada", "report")["mode"] = "read"


def other_fence(story: Any) -> None:
    line(story, "ada", "report")["fence"] = 12


def old_fence_as_new(story: Any) -> None:
    line(story, "ada", "report")["outcome"] = "reacquired"


def lost_to_nobody(story: Any) -> None:
    line(story, "ada", "report", 1)["to"] = None


def lost_to_another(story: Any) -> None:
    line(story, "ada", "report", 1)["to"] = "eve"


def restored_although_another_had_it(story: Any) -> None:
    story[26] |= {"outcome": "restored", "fence": 13}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (torn, "torn read: bob"),
        (stale, "stale read: bob"),
        (from_nowhere, "read from nowhere: bob"),
        (two_writers, "two at once: ada"),
        (writer_among_readers, "two at once: bob"),
        (falling_fence, "fences do not grow: ada"),
        (lost_update, "lost update: ada"),
        (unexplained, "unexplained: f"),
        (written_after_all, "written after all: bob"),
        (left_out, "left out: ada"),
        (made_up, "made up: ada"),
        (wrong_mode, "wrong mode: ada"),
        (other_fence, "not the same: ada"),
        (old_fence_as_new, "not a new one: ada"),
        (lost_to_nobody, "not lost to that one: ada"),
        (lost_to_another, "not lost to that one: ada"),
        (restored_although_another_had_it, "two at once: ada"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_an_error_is_found(spoil: Any, said: str) -> None:
    story = honest()
    spoil(story)
    story.sort(key=lambda each: each["at"])
    found = check(story, before=BEFORE, after=AFTER)
    assert any(complaint.startswith(said) for complaint in found), found


def test_contents_show_that_they_are_whole() -> None:
    one, other = compose("ada", 1), compose("bob", 22)
    assert is_whole(one)
    assert is_whole(other)
    for torn_somewhere in (one[:-1], one[:5000] + other[5000:], other[: len(one)], b"", one + other):
        assert not is_whole(torn_somewhere)
