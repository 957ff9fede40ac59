"""What a store answers: values, because "no" is an expected answer and not a surprise."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple

from leasehold.errors import Holder, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

Mode = Literal["exclusive", "shared"]
OnLoss = Literal["cancel", "signal"]


Grant = tuple[int, float, str | None]
"""The lock is ours: its fence, how many seconds of it count from before the request was sent, and a receipt.

The receipt is what the store would like to see again at release, if it gave one. A plain tuple, because a
named one takes longer to make than the rest of the answer takes to read.
"""


class Busy(NamedTuple):
    """Somebody else holds the lock, or comes first.

    ``position`` is the asker's place in the queue, from 1, or None if it does not wait. ``asked_at`` is the
    store's own clock in seconds, to which the `Granted` that may follow refers.
    """

    holder: Holder | None = None
    remaining: float | None = None
    held_since: float | None = None
    mode: Mode | None = None
    waiters: int = 0
    position: int | None = None
    asked_at: float = 0.0


class Granted(NamedTuple):
    """News for a waiter: it got the lock, at ``granted_at`` of the store's own clock, for ``remaining`` seconds."""

    ticket: int
    fence: int
    granted_at: float
    remaining: float


class Taken(NamedTuple):
    """News for a holder: somebody took the lock by force."""

    ticket: int


News = Granted | Taken
"""What a store says unasked. It may get lost, come twice, or come before the answer that it follows."""


class Line(NamedTuple):
    """Those of one client who wait for one lock."""

    name: str
    tokens: Sequence[str]


class Look(NamedTuple):
    """How a `Line` stands: for each token a place in the queue, a grant, or None if it does not wait any more.

    ``looked_at`` is the store's own clock, ``remaining`` what is left of the current hold (0.0 if there is none).
    """

    looked_at: float
    remaining: float
    places: Sequence[int | Grant | None]


class Ask(NamedTuple):
    """One of several locks that are asked for together."""

    name: str
    token: str
    ticket: int
    ttl: float
    floor: int
    holder: str


class Own(NamedTuple):
    """What somebody who asks for a lock brings along: the token of the lease, and who to show to others."""

    token: str
    holder: Holder


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
class Hold:
    """One lease as anybody may see it. ``held_since`` is Unix time; ``remaining`` was left when the store answered."""

    holder: Holder
    held_since: float
    remaining: float
    fence: int


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock as anybody may see it. Tokens are never part of it.

    ``holds`` is empty, one writer, or the readers. ``holder`` and ``held_since`` are those of the one who has
    held it longest, ``remaining`` is the time until all of them have run out. ``fence`` is the latest of
    theirs while the lock is held, otherwise the last one granted (None if that is forgotten).
    """

    name: str
    mode: Mode | None
    fence: int | None
    holds: tuple[Hold, ...]
    waiters: int

    @property
    def is_held(self) -> bool:
        """Whether anybody held the lock when the store answered."""
        return self.mode is not None

    @property
    def holder(self) -> Holder | None:
        """Who holds it; of several readers the first."""
        return self._first.holder if self.holds else None

    @property
    def held_since(self) -> float | None:
        """Since when, in Unix time."""
        return self._first.held_since if self.holds else None

    @property
    def remaining(self) -> float | None:
        """Seconds until it is free at the latest, unless it is renewed."""
        return max(hold.remaining for hold in self.holds) if self.holds else None

    @property
    def _first(self) -> Hold:
        return min(self.holds, key=lambda hold: hold.held_since)
