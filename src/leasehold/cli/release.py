"""``leasehold release --force``: takes the lock from its holder, then releases it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.cli.errors import CliError, as_cli_error
from leasehold.cli.exit_codes import ExitCode
from leasehold.cli.format import format_holder, format_holders, format_time, printable
from leasehold.cli.output import fence_as_json, hold_as_json
from leasehold.errors import LockBusy

if TYPE_CHECKING:
    from leasehold import LockInfo
    from leasehold.blocking import Client

# Just long enough to release it, also over a slow network.
_TTL = 10.0
# At most this many of the former readers are named.
_NAMED = 10
# New readers may join faster than we can inspect the lock; then the user has to stop them first.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Released:
    """The lock as it was before, and the fence that ended it; None if it was already free."""

    before: LockInfo
    fence: int | None

    def as_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
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
        """The result as one line."""
        name = printable(self.before.name)
        if self.fence is None:
            return f"{name} is free; nothing to release"
        return f"{name} is released; {self._describe_losers()}{self._describe_next()}"

    def _describe_losers(self) -> str:
        holds = sorted(self.before.holds, key=lambda hold: hold.held_since)
        if len(holds) > 1:
            shown = ", ".join(format_holder(hold.holder) for hold in holds[:_NAMED])
            more = f" and {len(holds) - _NAMED} more" if len(holds) > _NAMED else ""
            return f"{len(holds)} readers have lost it: {shown}{more}"
        reader = "its only reader, " if self.before.mode == "shared" else ""
        return f"{reader}{format_holder(holds[0].holder)} has lost it, held since {format_time(holds[0].held_since)}"

    def _describe_next(self) -> str:
        waiters = self.before.waiters
        return f"; the next of {waiters} waiter{'s' if waiters > 1 else ''} gets it" if waiters else ""


def require_force(name: str, *, is_forced: bool) -> None:
    """Refuse to take a lock from its holder without ``--force``."""
    if not is_forced:
        raise CliError(
            ExitCode.USAGE,
            "force_required",
            f"this takes {name!r} away from its holder, who may be using it: add --force to confirm",
            name=name,
        )


def release_by_force(locks: Client, name: str) -> Released:
    """Free the lock from the holder it has now, and from no other holder that gets it in between.

    A shared lock is freed from all readers, including those that join the ones it has now.
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
                message = f"{name!r} has a new holder, {format_holders(found)}; nothing was done"
                raise as_cli_error(busy, message) from busy
        else:
            lease.release()
            return Released(found, lease.fence)
    return Released(found, None)


def _has_same_readers(before: LockInfo, now: LockInfo) -> bool:
    """Whether some readers are still the same, so that the new ones have joined them."""
    if before.mode != "shared" or now.mode != "shared":
        return False
    return not {hold.fence for hold in before.holds}.isdisjoint(hold.fence for hold in now.holds)
