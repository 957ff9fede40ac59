"""Requests to a store and its replies: values, because "no" is an expected reply and not an error."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple

from leasehold.errors import Holder, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

Mode = Literal["exclusive", "shared"]
OnLoss = Literal["cancel", "signal"]


Grant = tuple[int, float, str | None]
"""The lock is granted: its fence, its seconds, counted from before the request was sent, and a receipt.

The receipt, if there is one, is to be passed to `release`. A plain tuple, because a named one takes longer to make
than the rest of the reply takes to read.
"""


class Busy(NamedTuple):
    """The lock is held by another token, or another waiter comes first.

    ``position`` is the caller's place in the queue, from 1, or None if it does not wait. ``asked_at`` is the
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
    """Notification for a waiter: it has the lock since ``granted_at`` on the store's clock, for ``remaining`` seconds."""

    ticket: int
    fence: int
    granted_at: float
    remaining: float


class Taken(NamedTuple):
    """Notification for a holder: the lock was taken by force."""

    ticket: int


Notification = Granted | Taken
"""A message of the store to one client. It may get lost, come twice, or come before the reply that it follows."""


class LockWaiters(NamedTuple):
    """The waiters of one client for one lock."""

    name: str
    tokens: Sequence[str]


class QueueState(NamedTuple):
    """The state of `LockWaiters`: for each token its place in the queue, its grant, or None if it does not wait.

    ``read_at`` is the store's own clock, ``remaining`` what is left of the current hold (0.0 if there is none).
    """

    read_at: float
    remaining: float
    places: Sequence[int | Grant | None]


class Request(NamedTuple):
    """A request for one lock, in the order of the arguments of `leasehold.core.ports.Store.acquire`."""

    name: str
    token: str
    ticket: int
    ttl: float
    floor: int
    holder: str
    mode: Mode = "exclusive"


class NotAfter:
    """The moment, on our own clock, after which the store must not do a request.

    ``is_sent``: the store may have got the request. Set by the store's client just before it sends.
    """

    __slots__ = ("at", "is_sent")

    def __init__(self, at: float) -> None:
        self.at = at
        self.is_sent = False


class TooLate(StoreUnavailable):
    """The store got the request after its not-after, so nothing was done. ``store_ms`` is the store's clock."""

    def __init__(self, store_ms: int) -> None:
        super().__init__(
            "the request came to the store too late, so nothing was done: the way to the store is slow, or its clock "
            "was set. Try again"
        )
        self.store_ms = store_ms


class NotReplicated(StoreUnavailable):
    """The store has done it, but too few replicas have acknowledged it, so a fail-over may undo it."""


class Owner(NamedTuple):
    """The token of a lease to be acquired, and the holder to show to others."""

    token: str
    holder: Holder


class Refusal(NamedTuple):
    """The holder is not the expected one, so nothing was taken."""

    fence: int
    holder: Holder | None


class Ended(Enum):
    """The lease has ended in the store, and why."""

    EXPIRED = "expired"
    TAKEN = "taken"


class Done(Enum):
    """The store has done what was asked."""

    DONE = "done"


DONE = Done.DONE

RenewReply = Done | Ended | StoreError
ReleaseReply = Done | Ended


class LeaseKey(NamedTuple):
    """What the store needs to find one lease."""

    name: str
    token: str
    fence: int


class Renewal(NamedTuple):
    """One lease to renew. ``shortens``: it may end later in the store than this ttl would let it."""

    name: str
    token: str
    fence: int
    ttl: float
    shortens: bool = False


@dataclass(frozen=True, slots=True)
class Hold:
    """One lease in public. ``held_since`` is Unix time; ``remaining`` was left when the store replied."""

    holder: Holder
    held_since: float
    remaining: float
    fence: int


@dataclass(frozen=True, slots=True)
class LockInfo:
    """The public state of a lock. Tokens are never part of it.

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
        """Whether the lock was held when the store replied."""
        return self.mode is not None

    @property
    def holder(self) -> Holder | None:
        """The holder; of several readers the one who has held it longest."""
        return self._first.holder if self.holds else None

    @property
    def held_since(self) -> float | None:
        """The start of the longest hold, in Unix time."""
        return self._first.held_since if self.holds else None

    @property
    def remaining(self) -> float | None:
        """Seconds until the lock is free at the latest, unless a lease is renewed."""
        return max(hold.remaining for hold in self.holds) if self.holds else None

    @property
    def _first(self) -> Hold:
        return min(self.holds, key=lambda hold: hold.held_since)
