"""What is promised about a lease while the server's clock is set.

A step forward ends the leases that the store holds at that moment early, and their clients cannot know: such a lease
counts until its new end in the store, and after its next renewal like any other. A grant that is handed over after the
step to a waiter that has not polled since may count for too long by the delay of its notification, and no longer. After
a step back a request with a not-after may be executed later by that step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.history import (
    Arrived,
    ClockStepped,
    CountsAsHeld,
    HoldBegan,
    HoldExtended,
    HoldShifted,
)
from tests.simulation.scenario import TIMEOUT

from leasehold.core.not_after import first_allowance

if TYPE_CHECKING:
    from tests.simulation.history import Event

Lease = tuple[str, int]

_ROUNDING = 1e-6
# The two clocks differ in rate, and the store counts in whole milliseconds.
_INEXACT = 0.02
# The longest time since a waiter's last poll: it was paused, or its connection failed.
_UNSEEN_FOR = 10.0


class Promised:
    """Follows the store's side of each lease. A lease is a token and its fence."""

    def __init__(self) -> None:
        self._holds: dict[str, HoldBegan] = {}
        self._held_until: dict[Lease, float] = {}
        self._excused: set[Lease] = set()
        self._cause = Arrived(0.0, 0, "nothing", ())
        self._stepped_forward_at = float("-inf")
        self._stepped_back = 0.0

    def fence_of(self, token: str) -> int:
        """The fence that the token got last."""
        return self._holds[token].fence

    def note(self, event: Event) -> None:
        match event:
            case Arrived():
                self._cause = event
            case ClockStepped(at=at, by=by):
                self._stepped_forward_at = at if by > 0 else self._stepped_forward_at
                self._stepped_back += max(0.0, -by)
            case HoldBegan(token=token, fence=fence):
                self._holds[token], self._held_until[token, fence] = event, event.until
            case HoldExtended(at=at, token=token, until=until):
                lease = token, self.fence_of(token)
                before, self._held_until[lease] = self._held_until[lease], until
                if until < before and self._may_be_late(at):
                    self._excused.add(lease)
                elif (
                    until != before
                ):  # a late renewal that changes nothing is none: its client has not heard of it
                    self._excused.discard(lease)
            case HoldShifted(at=at, token=token):
                lease = token, self.fence_of(token)
                until = max(at, event.until)
                if until < self._held_until[lease]:
                    self._excused.add(lease)
                self._held_until[lease] = until
            case CountsAsHeld(at=at, token=token, fence=fence, until=until) if (
                token,
                fence,
            ) in self._held_until:
                hold = self._holds[token]
                was_unseen = 0 <= hold.at - self._stepped_forward_at <= _UNSEEN_FOR
                excess = until - self._held_until[token, fence]
                if not hold.is_claimed and was_unseen and _ROUNDING < excess <= at - hold.at + _INEXACT:
                    self._excused.add((token, fence))
            case _:
                pass

    def is_excused(self, lease: Lease) -> bool:
        """Whether its client may count it as held for longer than the store does."""
        return lease in self._excused

    def until(self, lease: Lease, counts_until: float) -> float:
        """Until when the lease counts as held, as far as that is promised."""
        return min(counts_until, self._held_until[lease]) if self.is_excused(lease) else counts_until

    def _may_be_late(self, at: float) -> bool:
        allowed = first_allowance(TIMEOUT) + self._stepped_back + _INEXACT
        return self._stepped_back > 0 and at - self._cause.sent_at <= allowed
