"""What `pip install leasehold` brings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

IGNORED = shutil.ignore_patterns("__pycache__", "page")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy without the page, so that nothing needs to be built for it."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "src", project / "src", ignore=IGNORED)
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", ".gitignore"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, project / name)
    return project


def build(
    project: Path, tmp_path: Path, target: str = "wheel", **env: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(tmp_path)]
    return subprocess.run(
        command, cwd=project, env={**os.environ, **env}, check=False, capture_output=True, text=True
    )


def test_without_the_page_a_wheel_is_refused_unless_that_is_allowed(project: Path, tmp_path: Path) -> None:
    refused = build(project, tmp_path)
    assert refused.returncode != 0
    assert "run 'make web' (Node 20.19 or newer) first, or set LEASEHOLD_WITHOUT_PAGE=1" in refused.stderr
    assert not list(tmp_path.glob("*.whl"))
    allowed = build(project, tmp_path, LEASEHOLD_WITHOUT_PAGE="1")
    assert allowed.returncode == 0, allowed.stderr
    assert list(tmp_path.glob("*.whl"))


def test_the_wheel_contains_the_built_page_though_git_ignores_it(project: Path, tmp_path: Path) -> None:
    page = project / "src" / "leasehold" / "server" / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("the page")
    (page / "assets" / "main-1a2b.js").write_text("the script")
    (project / "src" / "leasehold" / "node_modules").mkdir()
    (project / "src" / "leasehold" / "node_modules" / "ignored.py").write_text("")
    built = build(project, tmp_path)
    assert built.returncode == 0, built.stderr
    (file,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(file) as wheel:
        names = set(wheel.namelist())
        assert wheel.read("leasehold/server/page/index.html") == b"the page"
    assert "leasehold/server/page/assets/main-1a2b.js" in names
    assert "leasehold/server/app/web_page.py" in names
    assert not [name for name in names if "node_modules" in name], "what git ignores stays out otherwise"
    # As `python -m build` does it: the wheel from the source distribution.
    assert build(project, tmp_path, "sdist").returncode == 0
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    again = build(unpacked, tmp_path / "again")
    assert again.returncode == 0, again.stderr
