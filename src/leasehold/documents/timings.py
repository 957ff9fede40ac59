"""The durations of holds, heartbeats and force-takes."""

from __future__ import annotations

from dataclasses import dataclass

from leasehold.core.validation import check_duration
from leasehold.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Times:
    """In seconds. A hold lasts ``ttl`` and is extended by a heartbeat every ``heartbeat``; after ``idle`` without
    activity the page releases it; at a force-take the holder has ``save_within``."""

    ttl: float = 45
    heartbeat: float = 10
    idle: float = 30
    save_within: float = 3

    def __post_init__(self) -> None:
        for name in ("ttl", "heartbeat", "idle", "save_within"):
            check_duration(getattr(self, name), name)
        if self.ttl <= 2 * self.heartbeat:
            raise InvalidRequest(
                f"a document's ttl must be above twice the heartbeat: {self.ttl:g} s is not above twice {self.heartbeat:g} s"
            )
