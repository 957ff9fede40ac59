"""Unified diffs that `patch` accepts, computed in bounded time."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.server.documents import diff as comparing
from leasehold.server.documents.diff import unified_diff

if TYPE_CHECKING:
    from pathlib import Path

    from leasehold.documents.ports import Content

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=12)


def apply(lines: list[str], diff: list[str]) -> list[str]:
    """Applies a diff that fits, as `patch` does."""
    result: list[str] = []
    position = 0
    for line in diff:
        if line.startswith("@@"):
            start, _, count = line.split()[1][1:].partition(",")
            first = int(start) if count == "0" else int(start) - 1
            result += lines[position:first]
            position = first
        elif line[0] == "+":
            result.append(line[1:])
        else:
            assert lines[position] == line[1:]
            if line[0] == " ":
                result.append(line[1:])
            position += 1
    return result + lines[position:]


@pytest.mark.parametrize("max_lines", [0, 1000], ids=["coarse", "fine"])
@settings(deadline=None, max_examples=200)
@given(old=LINES, new=LINES)
def test_the_diff_leads_from_one_to_the_other(max_lines: int, old: list[str], new: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparing, "_MAX_LINES", max_lines)
        diff = unified_diff("\n".join(old), "\n".join(new))
    before = "\n".join(old).split("\n")
    assert diff is not None
    assert apply(before, diff) == "\n".join(new).split("\n")
    assert bool(diff) == (old != new and "\n".join(old) != "\n".join(new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n" * 500_000, "\n" * 500_000 + "x"),
        ("\n".join(map(str, range(100_000))), "\n".join(map(str, reversed(range(100_000))))),
        ("a\nb\n" * 500, "b\na\n" * 500),
        ("\n".join(map(str, range(1000))), "\n".join(map(str, reversed(range(1000))))),
        ("x" * 1_000_000, "y" * 1_000_000),
    ],
    ids=["blank lines", "turned around", "two by two", "short, turned around", "one long line"],
)
def test_the_time_is_bounded(old: str, new: str) -> None:
    begun = time.process_time()
    assert unified_diff(old, new)
    assert time.process_time() - begun < 10


def test_a_changed_line_ending_is_in_the_diff() -> None:
    assert unified_diff("a\r\nb", "a\nb") == ["@@ -1,2 +1,2 @@", "-a\r", "+a", " b"]
    assert unified_diff("a", "a\n") == ["@@ -1 +1,2 @@", " a", "+"]


def test_a_text_and_an_object_can_be_compared() -> None:
    assert unified_diff("text", {"a": 1}) == ["@@ -1 +1,3 @@", "-text", "+{", '+  "a": 1', "+}"]
    assert unified_diff({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []


def nested(value: object, *, times: int, levels: int) -> dict[str, object]:
    content: object = [value] * times
    for _ in range(levels):
        content = [content]
    return {"content": content}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (nested(1, times=20_000, levels=190), nested(2, times=20_000, levels=190)),
        ("b\n" * 250_000, "a\n" * 250_000),
    ],
    ids=["deeply nested", "many short lines"],
)
def test_there_is_no_diff_that_is_much_longer_than_the_contents(old: Content, new: Content) -> None:
    diff = unified_diff(old, new)
    assert len(json.dumps(diff)) < 8 * 1024 * 1024
    assert diff is None


@pytest.mark.parametrize("max_lines", [0, 1000], ids=["coarse", "fine"])
def test_patch_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_lines: int) -> None:
    monkeypatch.setattr(comparing, "_MAX_LINES", max_lines)
    old = [f"line {n}" for n in range(30)]
    new = [*old[:5], "new", *old[8:20], "newer", *old[20:]]
    diff = unified_diff("\n".join(old), "\n".join(new))
    assert diff is not None
    (tmp_path / "old").write_text("\n".join(old) + "\n")
    (tmp_path / "diff").write_text("\n".join(["--- old", "+++ new", *diff]) + "\n")
    try:
        subprocess.run(["patch", "-s", "old", "diff"], cwd=tmp_path, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("patch is not installed")
    assert (tmp_path / "old").read_text() == "\n".join(new) + "\n"
