"""Every promise of docs/guarantees.md names tests that exist, and that run without `--full`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guarantees.md"
HEAD = "| promise | shown by |"
_LINK = re.compile(r"\[(?P<shown>[^]]+)\]\(\.\./(?P<path>tests/[^)]+\.py)\)(?P<rest>.*?)(?=\[[^]]+\]\(|$)")

Named = list[tuple[str, str]]
"""Paths from the root, and names of functions."""


def promises(page: str) -> dict[str, Named]:
    """The tests that each row of the table names."""
    _, found, rest = page.partition(HEAD)
    assert found, f"the page has no table {HEAD!r}"
    rows: dict[str, Named] = {}
    for line in rest.splitlines()[2:]:
        if not line.startswith("|"):
            break
        promise, cell = line.strip("| ").split(" | ")
        rows[promise] = [
            (link["path"], name)
            for link in _LINK.finditer(cell)
            for name in re.findall(r"`(test_\w+)`", link["rest"]) or [""]
        ]
    return rows


def find_tests(source: str) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module that pytest collects, also those in classes."""
    found = {}
    for node in ast.parse(source).body:
        inside = node.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test") else [node]
        for each in inside:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
                found[each.name] = each
    return found


def why_it_does_not_run(test: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
    """Why `make test` leaves it out: it is skipped always, or in every variant unless `--full` was given."""
    if any("skip" in ast.unparse(mark) or "xfail" in ast.unparse(mark) for mark in test.decorator_list):
        return "is marked to be skipped"
    for node in ast.walk(test):
        if not isinstance(node, ast.If) or "skip(" not in "".join(map(ast.unparse, node.body)):
            continue
        asked = {name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)}
        if asked == {"full"}:
            return "runs only with --full"
    return None


def complaints(rows: dict[str, Named], sources: dict[str, str]) -> list[str]:
    """Sentences about promises without a test; none when all is well. `sources` has the text of each file by its path."""
    found = [f"no test shows: {promise}" for promise, named in rows.items() if not named]
    tests = {path: find_tests(source) for path, source in sources.items()}
    for path, name in dict.fromkeys(test for named in rows.values() for test in named):
        test = tests.get(path, {}).get(name)
        if path not in sources:
            found.append(f"there is no {path}")
        elif test is None:
            found.append(f"{path} has no {name or 'test named behind its link'}")
        elif why := why_it_does_not_run(test):
            found.append(f"{name} {why}")
    return found


@pytest.fixture(scope="module")
def rows() -> dict[str, Named]:
    return promises(PAGE.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def sources(rows: dict[str, Named]) -> dict[str, str]:
    paths = {path for named in rows.values() for path, _ in named}
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths if (ROOT / path).exists()}


def test_every_promise_names_tests_that_exist_and_run(
    rows: dict[str, Named], sources: dict[str, str]
) -> None:
    assert complaints(rows, sources) == []
    assert len(rows) >= 28


def test_what_the_promises_name_is_collected(request: pytest.FixtureRequest, rows: dict[str, Named]) -> None:
    """As far as this run collects whole files: all of them in `make test`."""
    config = request.config
    if config.option.keyword or config.option.markexpr or any("::" in each for each in config.args):
        return
    collected = {
        (item.path.relative_to(ROOT).as_posix(), getattr(item, "originalname", item.name))
        for item in request.session.items
        if item.path.is_relative_to(ROOT)
    }
    files = {path for path, _ in collected}
    named = {test for tests in rows.values() for test in tests if test[0] in files}
    assert named - collected == set()


def test_a_file_is_shown_by_its_own_name() -> None:
    for link in _LINK.finditer(PAGE.read_text(encoding="utf-8")):
        assert link["shown"] == Path(link["path"]).name


PLANTED = f"""\
{HEAD}
|---|---|
| It holds. | [test_a.py](../tests/test_a.py): `test_it`, `test_in_a_class`<br>[test_b.py](../tests/test_b.py): `test_it` |

| another table | [test_a.py](../tests/test_a.py): `test_of_another_table` |
"""
SOURCES = {
    "tests/test_a.py": "async def test_it(): ...\nclass TestIt:\n    def test_in_a_class(self): ...\n",
    "tests/test_b.py": "def test_it(full, kind):\n    if kind == 'b' and not full:\n        pytest.skip('long')\n",
}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("", "", None),
        ("`test_in_a_class`", "`test_gone`", "tests/test_a.py has no test_gone"),
        ("test_b.py", "test_c.py", "there is no tests/test_c.py"),
        (": `test_it`, `test_in_a_class`", "", "tests/test_a.py has no test named behind its link"),
        ("](../", "](", "no test shows: It holds."),
        ("def test_it(full", "def fill(full", "tests/test_b.py has no test_it"),
        ("kind == 'b' and not full", "not full", "test_it runs only with --full"),
        ("def test_it(full", "@pytest.mark.skip\ndef test_it(full", "test_it is marked to be skipped"),
    ],
)
def test_a_promise_without_a_test_is_found(old: str, new: str, complaint: str | None) -> None:
    rows = promises(PLANTED.replace(old, new) if old else PLANTED)
    sources = {path: text.replace(old, new) if old else text for path, text in SOURCES.items()}
    assert complaints(rows, sources) == ([complaint] if complaint else [])
