"""docs/architecture.md shows the folders of src/leasehold as they are, and every path on it exists."""

from __future__ import annotations

import re

import pytest
from tests.support.source_tree import BEGIN, END, PAGE, ROOT, SOURCES, drawn, packages, shown

_CODE = re.compile(r"`([^`\n]+)`")
_IS_PATH = re.compile(r"[\w.@-]+(/[\w.@-]+)*(/|\.(py|lua|ts|tsx|css|toml|md))")
_ROOTS = (ROOT, SOURCES, ROOT / "web")


def paths_in(text: str) -> set[str]:
    """The inline code that is a path: it ends in a slash or a suffix of a source file."""
    return {code for code in _CODE.findall(text) if _IS_PATH.fullmatch(code)}


def missing_from(text: str) -> list[str]:
    return sorted(path for path in paths_in(text) if not any((root / path).exists() for root in _ROOTS))


def test_the_tree_on_the_page_is_the_tree() -> None:
    assert shown(PAGE.read_text(encoding="utf-8")) == drawn(), "run make fix"


def test_every_package_has_a_docstring() -> None:
    assert [path for path, doc in packages().items() if not doc.endswith(".")] == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_path_on_the_page_exists(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert missing_from(text) == []


def test_the_answers_to_where_is_it_are_paths() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Where is it?")[2].partition("\n## ")[0]
    _head, *answers = [row.split(" | ")[1] for row in table.splitlines() if row.startswith("| ")]
    assert len(answers) >= 14
    assert [answer for answer in answers if not paths_in(answer)] == []


def test_a_stale_page_is_found() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert shown(page.replace("  core/", "  kernel/")) != drawn()
    assert shown(f"{BEGIN}a/{END}") == "a/"
    assert missing_from(
        "`core/engine.py`, `core/enigma.py`, `core/`, `kernel/`, `lock:{NAME}`, `wait=0`"
    ) == [
        "core/enigma.py",
        "kernel/",
    ]
