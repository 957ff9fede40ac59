"""How often one caller may ask. Counted by each worker for itself: with N workers the true limit is up to N times that.

Budgets are separate, so that whoever asks for too many locks can still extend, give back and save what is held. That
of content is counted in bytes: every save is kept for good, as a version or as a draft.
"""

from __future__ import annotations

import time
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Literal

from limits import RateLimitItem, parse
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter

from leasehold.errors import RateLimited
from leasehold.server.settings import OFF

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import HTTPConnection

    from leasehold.server.settings import Settings

Budget = Literal["acquire", "keep", "content", "sign_in", "other"]

_SWEEP_ABOVE = 10_000


class Windows(Storage):
    """Counters that end with their window.

    The library's own has a timer thread look through all counters a hundred times a second while requests come in.
    Here what has ended is removed when it is asked for, and the rest of it whenever the number has doubled.
    """

    STORAGE_SCHEME = None

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[str, tuple[int, float]] = {}
        self._sweep_above = _SWEEP_ABOVE

    @property
    def base_exceptions(self) -> type[Exception]:
        """None of its own."""
        return ValueError

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Count, in the window that is open or in a new one."""
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
        """When the window ends, on the clock that was given."""
        return self._counts.get(key, (0, self._clock()))[1]

    def check(self) -> bool:
        """It is always there."""
        return True

    def reset(self) -> int:
        """Forget everything; how much that was."""
        size = len(self._counts)
        self._counts.clear()
        return size

    def clear(self, key: str) -> None:
        """Forget one counter."""
        self._counts.pop(key, None)

    def __len__(self) -> int:
        return len(self._counts)

    def _sweep(self, now: float) -> None:
        self._counts = {key: count for key, count in self._counts.items() if count[1] > now}
        self._sweep_above = max(_SWEEP_ABOVE, 2 * len(self._counts))


class Limiter:
    """Counts what each principal asks for, budget by budget."""

    def __init__(self, rates: dict[Budget, str], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._windows = Windows(clock)
        self._strategy = FixedWindowRateLimiter(self._windows)
        self._items: dict[Budget, RateLimitItem] = {
            budget: parse(rate) for budget, rate in rates.items() if rate != OFF
        }

    def spend(self, budget: Budget, principal: str, cost: int = 1) -> None:
        """Count one request of ``principal``, or what it costs; `RateLimited` if its budget is used up.

        What is refused costs nothing: one that is too large leaves the rest to those that are not.
        """
        item = self._items.get(budget)
        if item is None:
            return
        if not self._strategy.test(item, budget, principal, cost=cost):
            ends_at = self._windows.get_expiry(item.key_for(budget, principal))
            why = "too much content at once" if budget == "content" else "too many requests of this kind"
            raise RateLimited(why, retry_after=max(0.0, ends_at - self._clock()))
        self._strategy.hit(item, budget, principal, cost=cost)


def make_limiter(settings: Settings) -> Limiter:
    """With the rates that were set."""
    return Limiter(
        {
            "acquire": settings.rate_acquire,
            "keep": settings.rate_keep,
            "content": settings.rate_content_bytes,
            "sign_in": settings.rate_sign_in,
            "other": settings.rate_other,
        }
    )


def address_of(connection: HTTPConnection) -> str:
    """Where a request comes from. Whoever has one IPv6 address has 2⁶⁴ of them, so those count as one."""
    client = connection.client
    if client is None:
        return "unknown"
    try:
        address = ip_address(client.host)
    except ValueError:
        return client.host
    return str(IPv6Address(int(address) >> 64 << 64)) if isinstance(address, IPv6Address) else client.host
