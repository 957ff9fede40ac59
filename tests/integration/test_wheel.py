"""What `pip install leasehold` brings."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

from tests.support.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

IGNORED = shutil.ignore_patterns("__pycache__", "page")


def test_the_wheel_contains_the_built_page_though_git_ignores_it(tmp_path: Path) -> None:
    """In a copy with a page of its own, so that nothing needs to be built for it."""
    project = tmp_path / "project"
    shutil.copytree(ROOT / "src", project / "src", ignore=IGNORED)
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, project / name)
    page = project / "src" / "leasehold" / "server" / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("the page")
    (page / "assets" / "main-1a2b.js").write_text("the script")
    (project / "src" / "leasehold" / "node_modules").mkdir()
    (project / "src" / "leasehold" / "node_modules" / "ignored.py").write_text("")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=project,
        check=True,
        capture_output=True,
    )
    (built,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(built) as wheel:
        names = set(wheel.namelist())
        assert wheel.read("leasehold/server/page/index.html") == b"the page"
    assert "leasehold/server/page/assets/main-1a2b.js" in names
    assert "leasehold/server/app/web_page.py" in names
    assert not [name for name in names if "node_modules" in name], "what git ignores stays out otherwise"
