"""What the core needs from the world.

A core coroutine awaits nothing but these. An asynchronous port suspends; a blocking one does its work
and returns without ever suspending, so `leasehold.core.sync_runner` can drive the same coroutine in a plain
thread; the simulator's ports do it all in virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from leasehold.core.replies import (
        Busy,
        Grant,
        LockInfo,
        LockWaiters,
        Mode,
        Notification,
        QueueState,
        Refusal,
        ReleaseReply,
        Renewal,
        RenewReply,
        Request,
    )
    from leasehold.errors import StoreError


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

    def after_fork(self) -> None:
        """In a child process: drop what runs in the parent."""
        ...

    async def close(self) -> None:
        """End what still runs, as far as it can be ended from outside."""
        ...


class Store(Protocol):
    """The store of leases. Every method raises `StoreUnavailable` when the outcome is unknown.

    A *token* is the secret of one lease or waiter, a *ticket* the number under which this client knows it;
    the store's `Notification` name tickets only.
    """

    @property
    def keeps_order(self) -> bool:
        """Whether what is asked later is also done later, even if nobody waited for the first answer."""
        ...

    def listen(self, tell: Callable[[Notification], None]) -> None:
        """Call ``tell`` with whatever the store says unasked, from now on, possibly from another thread."""
        ...

    async def open(self) -> None:
        """Return once the store can be reached."""
        ...

    async def acquire(
        self,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: Mode,
        wait: float | None,
    ) -> Grant | Busy:
        """Grant the lock to ``token`` if nobody is in the way, else let it wait in the queue for ``wait`` seconds.

        Asked again with the same token: the same fence, or the same place. A grant that was handed over and
        not claimed yet is claimed by asking again. With ``wait=0`` the token leaves the queue.
        """
        ...

    async def acquire_all(self, asks: Sequence[Request]) -> Sequence[Grant] | str:
        """Grant all of these locks to their tokens if every one is free; the name of one that is not otherwise."""
        ...

    async def look(self, lines: Sequence[LockWaiters]) -> Sequence[QueueState | StoreError]:
        """Keep waiters alive, move queues on that can move, and say how each waiter stands."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[RenewReply]:
        """Renew many leases at once; an unknown outcome is an answer here, not an exception."""
        ...

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> ReleaseReply:
        """End the lease of ``token``, or its waiting, and only that; the next in the queue gets the lock."""
        ...

    async def take(
        self,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: Mode,
        expect_fence: int | None,
    ) -> Grant | Refusal:
        """Grant the lock whoever holds it, unless the holder's fence is not the expected one; who waits stays."""
        ...

    async def inspect(self, name: str) -> LockInfo:
        """Who holds the lock now, and how many wait."""
        ...

    async def page(self, pattern: str, cursor: int) -> tuple[int, Sequence[LockInfo]]:
        """Some of the locks whose names match ``pattern``, and where to go on; 0 begins and ends."""
        ...


class Results(Protocol):
    """What is remembered of work that is done once. Raises `StoreUnavailable` when the outcome is unknown."""

    async def recall(self, key: str) -> str | None:
        """What was kept under ``key``, if anything was."""
        ...

    async def keep(self, key: str, token: str, value: str, ttl: float) -> bool:
        """Keep ``value`` and end the lease of ``token``, in one step; False if that lease has ended.

        Asked again with the same value: True again.
        """
        ...

    async def mark(self, key: str, mark: str, ttl: float) -> bool:
        """Mark ``key``; False if somebody else has marked it before, or kept something under it."""
        ...
