"""``leasehold release --force``: take, then release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.cli.errors import CommandError, command_error
from leasehold.cli.exit_codes import Exit
from leasehold.cli.format import holder_line, holders_line, moment, printable
from leasehold.cli.output import fence_as_json, hold_as_json
from leasehold.errors import LockBusy

if TYPE_CHECKING:
    from leasehold import LockInfo
    from leasehold.blocking import Client

# Just long enough to give it back, also over a slow network.
_TTL = 10.0
# So many of those who lost it are named.
_NAMED = 10
# Readers may come faster than we can look; then it takes somebody who stops them coming, not us.
_TRIES = 5


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
            "lost_holds": [hold_as_json(hold) for hold in self.before.holds],
            "waiters": self.before.waiters,
        }

    def as_text(self) -> str:
        """For people."""
        name = printable(self.before.name)
        if self.fence is None:
            return f"{name} is free; nothing to release"
        return f"{name} is released; {self._losers()}{self._next()}"

    def _losers(self) -> str:
        holds = sorted(self.before.holds, key=lambda hold: hold.held_since)
        if len(holds) > 1:
            shown = ", ".join(holder_line(hold.holder) for hold in holds[:_NAMED])
            more = f" and {len(holds) - _NAMED} more" if len(holds) > _NAMED else ""
            return f"{len(holds)} readers have lost it: {shown}{more}"
        reader = "its only reader, " if self.before.mode == "shared" else ""
        return f"{reader}{holder_line(holds[0].holder)} has lost it, held since {moment(holds[0].held_since)}"

    def _next(self) -> str:
        waiters = self.before.waiters
        return f"; the next of {waiters} who waited gets it" if waiters else ""


def check_is_meant(name: str, *, is_forced: bool) -> None:
    """Refuse to take somebody's lock away by the way."""
    if not is_forced:
        raise CommandError(
            Exit.USAGE,
            "force_required",
            f"this takes {name!r} away from whoever holds it, and they may be at work: add --force if you mean it",
            name=name,
        )


def release_by_force(locks: Client, name: str) -> Released:
    """Free the lock from the holder it has now, and from no other who may get it meanwhile.

    Of readers from all, including those who have joined the ones that were there.
    """
    first = found = locks.inspect(name)
    tries = _TRIES
    while found.is_held:
        try:
            lease = locks.take(name, ttl=_TTL, expect_fence=found.fence)
        except LockBusy as busy:
            tries -= 1
            found = locks.inspect(name)
            if found.is_held and not (tries and _has_same_readers(first, found)):
                message = (
                    f"{name!r} has changed hands just now: {holders_line(found)} holds it; nothing was done"
                )
                raise command_error(busy, message) from busy
        else:
            lease.release()
            return Released(found, lease.fence)
    return Released(found, None)


def _has_same_readers(before: LockInfo, now: LockInfo) -> bool:
    """Whether some who read then still do, so that whoever came since has joined them."""
    if before.mode != "shared" or now.mode != "shared":
        return False
    return not {hold.fence for hold in before.holds}.isdisjoint(hold.fence for hold in now.holds)
