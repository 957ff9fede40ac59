"""Counts the events that the workers report."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Tally:
    done: Counter[str] = field(default_factory=Counter[str])
    put_off: Counter[str] = field(default_factory=Counter[str])
    refused: int = 0
    killed: int = 0
    paused: int = 0
    paused_between: int = 0
    crashed: int = 0
    checks: int = 0
    checks_failed: int = 0
    last_done_at: float = field(default_factory=time.monotonic)
    written_at: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def shows_something(self) -> bool:
        """Whether all kinds of faults have happened, and a stale write was refused."""
        return bool(self.refused and self.killed and self.paused)

    def count(self, event: dict[str, Any]) -> None:
        match event["event"]:
            case "done":
                self.done[f"{event['what']} {event['outcome']}"] += 1
                self.last_done_at = time.monotonic()
            case "put off":
                self.put_off[event["why"]] += 1
            case "refused":
                self.refused += 1
            case "checked" if event["what"] == "reconciliation" and event["found"] is not None:
                self.checks += 1
                self.checks_failed += event["found"] > 0
            case "written":
                self.written_at.update(dict.fromkeys(event["accounts"], time.monotonic()))
            case _:
                pass

    def was_written_since(self, accounts: list[int], moment: float) -> bool:
        """Whether one of these accounts has been changed since; True if there are none."""
        return not accounts or any(self.written_at.get(each, 0.0) > moment for each in accounts)
