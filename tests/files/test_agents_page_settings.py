"""docs/agents.md lists every variable that files and their commands read, and no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from leasehold.cli.files import open_session, secrets
from leasehold.files import settings

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
_READ = re.compile(r"\b(?:LOCK|ORCHESTRATOR|RATE_LIMIT)_[A-Z_]+[A-Z]\b|\bLEASEHOLD_[A-Z_]+[A-Z]\b")


def test_the_page_has_a_line_for_every_variable_and_for_no_other() -> None:
    listed = set(re.findall(r"^\| `([A-Z_]{4,})` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    sources = "".join(inspect.getsource(module) for module in (settings, open_session, secrets))
    assert listed == set(_READ.findall(sources))
    assert len(listed) == 12
