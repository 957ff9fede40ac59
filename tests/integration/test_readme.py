"""Runs the example of README.md as it is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.support.pages import Page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.pages import Example

PAGE = Page("README.md")


def test_every_python_block_of_the_readme_is_run() -> None:
    assert PAGE.left_out() == []


@PAGE.runs("asyncio.run(main())")
def test_the_first_example_is_a_program_and_needs_no_server(example: Example, tmp_path: Path) -> None:
    first, second = example.run_alone(XDG_DATA_HOME=str(tmp_path)).splitlines()
    assert re.fullmatch(r"fence \d{16} for 30 s", first)
    assert second == "None"
