"""Rate limits per caller. Each worker counts by itself, so with N workers the effective limit is up to N times higher.

Budgets are separate, so that a client that asks for too many locks can still extend, release and save what it holds.
The content budget counts bytes, because every save is stored for good, as a version or as a draft.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from limits import RateLimitItem, parse
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter

from leasehold.documents.http.client_address import address_group
from leasehold.errors import RateLimited
from leasehold.server.settings import OFF

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import HTTPConnection

    from leasehold.server.settings import Settings

Budget = Literal["acquire", "keep", "content", "sign_in", "password", "add_member", "other"]

_MESSAGES: dict[Budget, str] = {
    "content": "too much content at once",
    "password": "too many attempts to sign in to this account: wait, or use a browser that has signed in to it before",
}

_SWEEP_ABOVE = 10_000


class Windows(Storage):
    """Counters of fixed windows, for the `limits` library.

    The library's own storage has a timer thread that scans all counters a hundred times a second while requests come
    in. Here an expired counter is replaced when it is used, and all are removed whenever their number has doubled.
    """

    STORAGE_SCHEME = None

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[str, tuple[int, float]] = {}
        self._sweep_above = _SWEEP_ABOVE

    @property
    def base_exceptions(self) -> type[Exception]:
        """It raises none of its own."""
        return ValueError

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Count in the open window, or in a new one."""
        now = self._clock()
        count, until = self._counts.get(key, (0, 0.0))
        if until <= now:
            count, until = 0, now + expiry
        self._counts[key] = count + amount, until
        if len(self._counts) > self._sweep_above:
            self._sweep(now)
        return count + amount

    def get(self, key: str) -> int:
        """The count in the open window."""
        count, until = self._counts.get(key, (0, 0.0))
        return count if until > self._clock() else 0

    def get_expiry(self, key: str) -> float:
        """The end of the window on our clock."""
        return self._counts.get(key, (0, self._clock()))[1]

    def check(self) -> bool:
        """Always available."""
        return True

    def reset(self) -> int:
        """Remove all counters; their number."""
        size = len(self._counts)
        self._counts.clear()
        return size

    def clear(self, key: str) -> None:
        """Remove one counter."""
        self._counts.pop(key, None)

    def __len__(self) -> int:
        return len(self._counts)

    def _sweep(self, now: float) -> None:
        self._counts = {key: count for key, count in self._counts.items() if count[1] > now}
        self._sweep_above = max(_SWEEP_ABOVE, 2 * len(self._counts))


class RateLimiter:
    """Counts the requests of each principal per budget."""

    def __init__(self, rates: dict[Budget, str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows = Windows(clock)
        self._strategy = FixedWindowRateLimiter(self._windows)
        self._items: dict[Budget, RateLimitItem] = {
            budget: parse(rate) for budget, rate in rates.items() if rate != OFF
        }

    def spend(self, budget: Budget, principal: str, cost: int = 1) -> None:
        """Count a request of ``principal``; `RateLimited` if its cost exceeds what is left of the budget.

        A refused request costs nothing, so one that is too large leaves the rest to smaller ones.
        """
        item = self._items.get(budget)
        if item is None:
            return
        if not self._strategy.test(item, budget, principal, cost=cost):
            ends_at = self._windows.get_expiry(item.key_for(budget, principal))
            message = _MESSAGES.get(budget, "too many requests of this kind")
            raise RateLimited(message, retry_after=max(0.0, ends_at - self._clock()))
        self._strategy.hit(item, budget, principal, cost=cost)

    def give_back(self, budget: Budget, principal: str) -> None:
        """Undo one `spend`, unless its window has ended."""
        item = self._items.get(budget)
        if item is not None and self._windows.get(key := item.key_for(budget, principal)) > 0:
            self._windows.incr(key, item.get_expiry(), -1)


def make_rate_limiter(settings: Settings) -> RateLimiter:
    """A rate limiter with the configured rates."""
    return RateLimiter(
        {
            "acquire": settings.rate_acquire,
            "keep": settings.rate_keep,
            "content": settings.rate_content_bytes,
            "sign_in": settings.rate_sign_in,
            "password": settings.rate_wrong_passwords,
            "add_member": settings.rate_add_member,
            "other": settings.rate_other,
        }
    )


def host_of(connection: HTTPConnection) -> str:
    """The address that a request comes from, for the log."""
    return connection.client.host if connection.client else "unknown"


def address_of(connection: HTTPConnection) -> str:
    """The address that a request comes from, as it is counted: an IPv6 host has a /64 network."""
    return address_group(connection.client.host) if connection.client else "unknown"
