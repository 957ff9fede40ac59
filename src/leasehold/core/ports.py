"""What the core needs from the world.

A core coroutine awaits nothing but these. An asynchronous port suspends; a blocking one does its work
and returns without ever suspending, so `leasehold.core.running` can drive the same coroutine in a plain
thread; the simulator's ports do it all in virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from leasehold.core.answers import (
        Busy,
        Grant,
        LockInfo,
        Refusal,
        ReleaseAnswer,
        Renewal,
        RenewAnswer,
    )


class Clock(Protocol):
    """A clock that never steps and that runs while the machine sleeps."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``, or a little later."""
        ...


class Random(Protocol):
    """Where secrets and jitter come from."""

    def token(self) -> str:
        """A fresh 128-bit secret as 32 hexadecimal digits."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1), for spreading retries."""
        ...


class Signal(Protocol):
    """A flag that can be waited for."""

    def set(self) -> None:
        """Wake every waiter, now and until `clear`."""
        ...

    def clear(self) -> None:
        """Let later waiters wait again."""
        ...

    async def wait(self, timeout: float | None = None) -> bool:
        """Return True once the flag is set, False when ``timeout`` seconds have passed first."""
        ...


class Concurrency(Protocol):
    """How things run side by side."""

    def check(self) -> None:
        """Refuse a caller that these things cannot run beside."""
        ...

    def signal(self) -> Signal:
        """A new flag."""
        ...

    def background(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``loop()`` beside everything else until it returns."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` beside the caller where that is possible, and at once where it is not."""
        ...


class Store(Protocol):
    """The store of leases. Every method raises `StoreUnavailable` when the outcome is unknown."""

    @property
    def keeps_order(self) -> bool:
        """Whether what is asked later is also done later, even if nobody waited for the first answer."""
        ...

    async def open(self) -> None:
        """Return once the store can be reached."""
        ...

    async def acquire(self, name: str, token: str, ttl: float, floor: int, holder: str) -> Grant | Busy:
        """Grant the lock to ``token`` if it is free; asked again with the same token, with the same fence."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[RenewAnswer]:
        """Renew many leases at once; an unknown outcome is an answer here, not an exception."""
        ...

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> ReleaseAnswer:
        """End the lease of ``token``, and only that."""
        ...

    async def take(
        self, name: str, token: str, ttl: float, floor: int, holder: str, expect_fence: int | None
    ) -> Grant | Refusal:
        """Grant the lock whoever holds it, unless the holder's fence is not the expected one."""
        ...

    async def inspect(self, name: str) -> LockInfo:
        """Who holds the lock now."""
        ...
