"""The fence that a caller presents to a guard, and whether the guard registers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from leasehold.core.leases.lease import LeaseState
from leasehold.core.validation import MAX_FENCE, check_mode
from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from leasehold.core.replies import Mode


class PresentedFence(NamedTuple):
    """A fence as presented to a guard.

    Fences of shared leases only order grants: readers would refuse each other if a guard registered them. So they
    are compared with the last exclusive fence, and not registered.
    """

    number: int
    registers: bool


def present_fence(fence: int | LeaseState, mode: Mode | None) -> PresentedFence:
    """The `PresentedFence` of a number or a lease; `LeaseLost` for a lease that has ended."""
    if mode is not None:
        check_mode(mode)
    if isinstance(fence, LeaseState):
        if mode is not None and mode != fence.mode:
            raise InvalidRequest(f"this lease is {fence.mode}, not {mode}; leave out the mode")
        fence.check()
        return PresentedFence(fence.fence, fence.mode == "exclusive")
    if type(fence) is not int or not 0 <= fence <= MAX_FENCE:
        raise InvalidRequest(f"a fence is a lease or a whole number from 0 to 2**52, not {fence!r}")
    return PresentedFence(fence, mode != "shared")
