"""An observer that records, and a script that produces every event."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.support.eventually import LIMIT

from leasehold import AcquireTimeout, LeaseLost
from leasehold.core.observer import LeaseEnded, LossFound, Renewed

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.observer import Event, Operation, Result


@dataclass
class Recorder:
    """Implements `leasehold.core.observer.Observer`."""

    begun: list[Operation] = field(default_factory=list)
    ended: list[tuple[Operation, Result]] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        self.begun.append(operation)
        return lambda result: self.ended.append((operation, result))

    def hear(self, event: Event) -> None:
        self.events.append(event)

    def outcomes(self) -> list[tuple[str, str, str]]:
        """What has ended, in that order: kind, verb, outcome."""
        return [(operation.kind, operation.verb, result.outcome) for operation, result in self.ended]

    def result(self, verb: str) -> Result:
        """Of the only operation of that verb."""
        (found,) = [result for operation, result in self.ended if operation.verb == verb]
        return found

    def ends(self) -> list[tuple[str, str]]:
        """Which leases ended, and why."""
        return [(event.name, event.reason) for event in self.events if isinstance(event, LeaseEnded)]

    def losses_found(self) -> list[tuple[str, str]]:
        return [(event.name, event.reason) for event in self.events if isinstance(event, LossFound)]

    def renewals(self) -> list[str]:
        """The outcomes of renewals in the background."""
        return [event.outcome for event in self.events if isinstance(event, Renewed)]


SCRIPTED = [
    ("lock", "acquire", "success"),
    ("lock", "try_acquire", "busy"),
    ("lock", "acquire", "timeout"),
    ("lock", "renew", "success"),
    ("lock", "inspect", "success"),
    ("lock", "list", "success"),
    ("lock", "release", "success"),
    ("lock", "acquire", "success"),
    ("lock", "take", "success"),
    ("lock", "release", "lost"),
    ("lock", "release", "success"),
    ("lock", "lock_all", "success"),
    ("lock", "release", "success"),
    ("lock", "release", "success"),
    ("once", "acquire", "success"),
    ("once", "release", "success"),
    ("once", "once", "success"),
    ("once", "once", "success"),
    ("once", "first_time", "success"),
    ("lock", "acquire", "invalid"),
]
"""What the scripts below do, in the order of its ending."""


async def play(locks: Any) -> None:
    """The script, on a client for asyncio."""
    lease = await locks.acquire("a")
    assert await locks.try_acquire("a") is None
    with contextlib.suppress(AcquireTimeout):
        await locks.acquire("a", wait=0.05)
    await lease.renew()
    await locks.inspect("a")
    assert [info.name async for info in locks.list("a")] == ["a"]
    await lease.release()
    old = await locks.acquire("b")
    new = await locks.take("b")
    assert await old.lost(LIMIT) == "taken"
    with contextlib.suppress(LeaseLost):
        await old.release()
    await new.release()
    async with locks.lock_all(["c", "d"]):
        pass
    for _ in range(2):
        assert await locks.once("job", lambda: {"done": 1}) == {"done": 1}
    assert await locks.first_time("deposit", 1)
    with contextlib.suppress(ValueError):
        await locks.acquire("", wait=1)


def play_blocking(locks: Any) -> None:
    """The same script, on a client for threads."""
    lease = locks.acquire("a")
    assert locks.try_acquire("a") is None
    with contextlib.suppress(AcquireTimeout):
        locks.acquire("a", wait=0.05)
    lease.renew()
    locks.inspect("a")
    assert [info.name for info in locks.list("a")] == ["a"]
    lease.release()
    old = locks.acquire("b")
    new = locks.take("b")
    assert old.lost(LIMIT) == "taken"
    with contextlib.suppress(LeaseLost):
        old.release()
    new.release()
    with locks.lock_all(["c", "d"]):
        pass
    for _ in range(2):
        assert locks.once("job", lambda: {"done": 1}) == {"done": 1}
    assert locks.first_time("deposit", 1)
    with contextlib.suppress(ValueError):
        locks.acquire("", wait=1)
