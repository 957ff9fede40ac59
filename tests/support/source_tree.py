"""The folders of src/leasehold as docs/architecture.md shows them: ``python -m tests.support.source_tree`` writes them there."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "leasehold"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- source tree -->\n```\n", "```\n<!-- end of source tree -->\n"


def packages() -> dict[str, str]:
    """The first line of each package's docstring, by the package's path from `src`."""
    found = {}
    for file in sorted(SOURCES.rglob("__init__.py"), key=lambda file: file.parent.parts):
        doc = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        found[file.parent.relative_to(SOURCES.parent).as_posix()] = doc.partition("\n")[0].replace("``", "")
    return found


def drawn() -> str:
    """One line for each package, indented by its depth."""
    lines = [(f"{'  ' * path.count('/')}{path.rpartition('/')[2]}/", doc) for path, doc in packages().items()]
    width = max(len(name) for name, _ in lines) + 2
    return "".join(f"{name:<{width}}{doc}".rstrip() + "\n" for name, doc in lines)


def shown(page: str) -> str:
    """The block between the two markers."""
    return page.split(BEGIN)[1].split(END, maxsplit=1)[0]


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page.replace(f"{BEGIN}{shown(page)}{END}", f"{BEGIN}{drawn()}{END}"), encoding="utf-8")


if __name__ == "__main__":
    main()
