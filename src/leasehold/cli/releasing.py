"""``leasehold release --force``: take, then release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.cli.exits import Exit
from leasehold.cli.failures import FailureError, failure_of
from leasehold.cli.showing import fence_as_json
from leasehold.cli.wording import holder_line, moment, printable
from leasehold.errors import LockBusy

if TYPE_CHECKING:
    from leasehold import LockInfo
    from leasehold.blocking import Client

# Just long enough to give it back, also over a slow network.
_TTL = 10.0


@dataclass(frozen=True, slots=True)
class Released:
    """The lock as it was before, and the fence that ended it; None if it was free already."""

    before: LockInfo
    fence: int | None

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "name": self.before.name,
            "released": self.fence is not None,
            "fence": fence_as_json(self.fence),
            "lost_by": self.before.holder,
            "lost_fence": fence_as_json(self.before.fence) if self.fence is not None else None,
        }

    def as_text(self) -> str:
        """For people."""
        name = printable(self.before.name)
        if self.fence is None:
            return f"{name} is free; nothing to release"
        since = f", held since {moment(self.before.held_since)}" if self.before.held_since else ""
        return f"{name} is released; {holder_line(self.before.holder)} has lost it{since}"


def check_is_meant(name: str, *, is_forced: bool) -> None:
    """Refuse to take somebody's lock away by the way."""
    if not is_forced:
        raise FailureError(
            Exit.USAGE,
            "force_required",
            f"this takes {name!r} away from whoever holds it, and they may be at work: add --force if you mean it",
            name=name,
        )


def release_by_force(locks: Client, name: str) -> Released:
    """Free the lock from the holder it has now, and from no other who may get it meanwhile."""
    before = locks.inspect(name)
    if not before.is_held:
        return Released(before, None)
    try:
        lease = locks.take(name, ttl=_TTL, expect_fence=before.fence)
    except LockBusy as busy:
        message = (
            f"{name!r} has changed hands just now: {holder_line(busy.holder)} holds it; nothing was done"
        )
        raise failure_of(busy, message) from busy
    lease.release()
    return Released(before, lease.fence)
