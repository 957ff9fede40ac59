"""What a store answers: values, because "no" is an expected answer and not a surprise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple

from leasehold.errors import Holder, StoreError

Mode = Literal["exclusive", "shared"]
OnLoss = Literal["cancel", "signal"]


Grant = tuple[int, float, str | None]
"""The lock is ours: its fence, how many seconds of it count from before the request was sent, and a receipt.

The receipt is what the store would like to see again at release, if it gave one. A plain tuple, because a
named one takes longer to make than the rest of the answer takes to read.
"""


class Busy(NamedTuple):
    """Somebody else holds the lock."""

    holder: Holder | None
    remaining: float | None


class Refusal(NamedTuple):
    """The holder is not the expected one, so nothing was taken."""

    fence: int
    holder: Holder | None


class Ended(Enum):
    """A lease that the store does not hold any more, and why."""

    EXPIRED = "expired"
    TAKEN = "taken"


class Done(Enum):
    """The store did as asked."""

    DONE = "done"


DONE = Done.DONE

RenewAnswer = Done | Ended | StoreError
ReleaseAnswer = Done | Ended


class Renewal(NamedTuple):
    """One lease to renew."""

    name: str
    token: str
    fence: int
    ttl: float


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock as anybody may see it. Tokens are never part of it.

    ``fence`` is the holder's while the lock is held, otherwise the last one granted (None if that is
    forgotten). ``held_since`` is Unix time, for showing. ``remaining`` is what was left of the lease when
    the store answered.
    """

    name: str
    mode: Mode | None
    fence: int | None
    holder: Holder | None
    held_since: float | None
    remaining: float | None
    waiters: int

    @property
    def is_held(self) -> bool:
        """Whether anybody held the lock when the store answered."""
        return self.mode is not None
