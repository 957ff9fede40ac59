"""The examples of a page, each run by a test as it is written.

A test module has one page. Its tests name the example that they run, and get it as the fixture `example`; one of them
asserts that no example is left out::

    PAGE = Page("docs/programs.md")

    def test_every_python_block_is_run():
        assert PAGE.left_out() == []

    @PAGE.runs("locks.once(")
    async def test_work_is_done_once(example, names):
        await example.run(names)
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.support.eventually import LIMIT

ROOT = Path(__file__).parents[2]
# Also in lists and quotations, and to the end of the page if it is not closed: no block may be missed.
_BLOCK = re.compile(
    r"^[^\w`~\n]*(```+|~~~+) *(\w+)[^\n]*\n(.*?)(?:^[^\w`~\n]*\1 *$|\Z)", re.DOTALL | re.MULTILINE
)


@dataclass(slots=True)
class Example:
    """A block of a page; `where` is its first line, as in ``README.md:6``."""

    path: str
    line: int
    language: str
    code: str
    has_run: bool = field(default=False, compare=False)

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"

    @property
    def is_python(self) -> bool:
        return self.language.lower().startswith("py")

    async def run(self, names: dict[str, Any]) -> None:
        """Runs the block, which may await at the top level, with ``names`` as its globals."""
        self.has_run = True
        names.setdefault("__name__", "__main__")
        # Moved down to its line in the page, so that tracebacks point there.
        code = "\n" * self.line + self.code
        # Not under this module's __future__: frameworks read annotations, and the page has them as they are.
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        ready = eval(compile(code, str(ROOT / self.path), "exec", flags, dont_inherit=True), names)
        if inspect.isawaitable(ready):
            await ready

    def run_alone(self, **environ: str) -> str:
        """The output of the block as a separate program."""
        self.has_run = True
        ran = subprocess.run(
            [sys.executable, "-c", self.code],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout


class Page:
    """A page of the documentation, by its path from the root."""

    def __init__(self, path: str) -> None:
        text = (ROOT / path).read_text(encoding="utf-8")
        self.path = path
        self.blocks = [
            Example(path, text.count("\n", 0, block.start()) + 1, block[2], dedent(block[3]))
            for block in _BLOCK.finditer(text)
        ]
        self._claimed: list[Example] = []

    def __getitem__(self, phrase: str) -> Example:
        """The block that contains ``phrase``."""
        found = [block for block in self.blocks if phrase in block.code]
        assert len(found) == 1, f"{len(found)} blocks of {self.path} contain {phrase!r}"
        return found[0]

    def runs(self, phrase: str) -> pytest.MarkDecorator:
        """Marks a test that runs the example that contains ``phrase``, and fails otherwise."""
        example = self[phrase]
        self._claimed.append(example)
        return pytest.mark.parametrize("example", [pytest.param(example, id=example.where)], indirect=True)

    def left_out(self) -> list[str]:
        """The places of Python blocks that no test runs."""
        return [block.where for block in self.blocks if block.is_python and block not in self._claimed]
