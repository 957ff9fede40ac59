"""The second look at what failed beside others: it forgives one accident, and nothing that fails again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ONCE = """
import pathlib
def test_it():
    seen = pathlib.Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError
"""
ALWAYS = "def test_it(): assert False"
MANY = "import pytest\n@pytest.mark.parametrize('n', range(6))\ndef test_it(n): assert False"


@pytest.mark.parametrize(
    ("source", "code", "is_repeated", "is_unsteady"),
    [(ONCE, 0, True, True), (ALWAYS, 1, True, False), (MANY, 1, False, False)],
    ids=["once", "always", "many"],
)
def test_what_failed_has_to_pass_alone(
    tmp_path: Path, source: str, code: int, is_repeated: bool, is_unsteady: bool
) -> None:
    (tmp_path / "test_some.py").write_text(source)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    ran = subprocess.run(
        [sys.executable, "-m", "tests.steadily", "-p", "no:randomly", "test_some.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert ("alone, 1 of 3" in ran.stdout) == is_repeated
    assert ("UNSTEADY" in ran.stdout) == is_unsteady
