"""The pages of the documentation: every link leads somewhere, and the English is plain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.support.source_tree import shown

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_FENCED = re.compile(r"^(```|~~~).*?^\1$", re.DOTALL | re.MULTILINE)
_MANNERED = re.compile(
    r"\b(whoever|nobody|somebody|everybody|anybody|meanwhile|any more|without a word|be had|is told|are told|hears? of)\b",
    re.IGNORECASE,
)


_WHERE = ("*.md", "docs/**/*.md", "examples/**/*.md", "web/packages/*/*.md")
PAGES = sorted({path.relative_to(ROOT).as_posix() for where in _WHERE for path in ROOT.glob(where)})


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ +(.+)$", _FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path, text: str) -> list[str]:
    found = []
    for path, anchor in _LINK.findall(text):
        target = page.parent / path if path else page
        if not target.exists():
            found.append(path)
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            found.append(f"{path}#{anchor}")
    return found


@pytest.mark.parametrize("path", PAGES)
def test_every_link_leads_somewhere(path: str) -> None:
    page = ROOT / path
    assert dead_links(page, page.read_text(encoding="utf-8")) == []


def test_a_dead_link_is_found() -> None:
    text = "[a](docs/service.md) [b](docs/gone.md) [c](docs/service.md#the-store) [d](docs/service.md#gone) [e](#gone)"
    assert dead_links(ROOT / "README.md", text) == ["docs/gone.md", "docs/service.md#gone", "#gone"]


def test_the_readme_leads_to_every_page() -> None:
    led_to = {path for path, _ in _LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert {path for path in PAGES if path.startswith("docs/") and "adr/" not in path} <= led_to


@pytest.mark.parametrize("path", [path for path in PAGES if not path.startswith(("web/", "examples/"))])
def test_the_english_is_plain(path: str) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    if path == "docs/architecture.md":
        text = text.replace(shown(text), "")  # the docstrings of packages
    assert _MANNERED.findall(re.sub(r"`test_\w+`", "", text)) == []
