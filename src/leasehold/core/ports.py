"""The ports of the core: clock, random numbers, concurrency and stores.

A core coroutine awaits nothing else. An asynchronous port suspends; a blocking one does its work and returns
without ever suspending, so `leasehold.core.sync_runner` can drive the same coroutine in a plain thread; the
simulator's ports run in virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from leasehold.core.replies import (
        Busy,
        Done,
        Ended,
        Grant,
        LeaseKey,
        LockInfo,
        LockWaiters,
        Mode,
        NotAfter,
        Notification,
        QueueState,
        Refusal,
        ReleaseReply,
        Renewal,
        RenewReply,
        Request,
    )
    from leasehold.errors import StoreError

T = TypeVar("T")


class Clock(Protocol):
    """A clock that never steps and that runs while the machine sleeps."""

    def now(self) -> float:
        """Return the seconds since some fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after ``seconds``, or a little later."""
        ...


class Random(Protocol):
    """The source of secrets and jitter."""

    def token(self) -> str:
        """Return a fresh 128-bit secret as 32 hexadecimal digits."""
        ...

    def fraction(self) -> float:
        """Return a number in [0, 1), for spreading retries."""
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
    """Runs work beside the caller."""

    def check(self) -> None:
        """Raise `InvalidRequest` if work cannot run beside this caller."""
        ...

    def signal(self) -> Signal:
        """Return a new flag."""
        ...

    def background(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run ``loop()`` beside everything else until it returns."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` beside the caller where that is possible, else at once."""
        ...

    def after_fork(self) -> None:
        """In a child process: drop the work of the parent."""
        ...

    async def close(self) -> None:
        """End the work that can be ended from outside."""
        ...

    async def run_blocking(self, work: Callable[[], T]) -> T:
        """The result of ``work``, which blocks. It has ended when this returns or raises, even when cancelled."""
        ...

    async def gather(self, works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """The results of all ``works``, run side by side; none of them raises."""
        ...


class Store(Protocol):
    """The store of leases. Every method raises `StoreUnavailable` when the outcome is unknown.

    A *token* is the secret of one lease or waiter, a *ticket* this client's number for it; a `Notification` names
    tickets only.
    """

    @property
    def keeps_order(self) -> bool:
        """Whether a later request is also done later, even if the first reply was not waited for."""
        ...

    def part_of(self, name: str) -> object:
        """Return the part of the store that keeps the lock. Locks of different parts are not asked for together, so that a
        part that gives no reply delays no lock of another one."""
        ...

    def listen(self, deliver: Callable[[Notification], None], on_gap: Callable[[], None]) -> None:
        """Call ``deliver`` with each notification from now on, and ``on_gap`` when some may have been missed before.

        Both are called from another thread where there is one.
        """
        ...

    async def open(self) -> None:
        """Return when the store can be reached."""
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
        """Grant the lock to ``token`` if it is free and no waiter comes first, else queue it for ``wait`` seconds.

        A repeated request with the same token gets the same fence, or the same place. It also claims a grant that was
        handed over. With ``wait=0`` the token leaves the queue.
        """
        ...

    async def acquire_all(
        self, requests: Sequence[Request], not_after: NotAfter
    ) -> Sequence[Grant] | str | None:
        """Grant all of these locks, exclusively, if every one is free; else return the name of one that is not.

        None if the store cannot do that in one step, because it keeps them in several places; then nothing was asked.
        This, `shorten` and `take` raise `TooLate`, and do nothing, if the request reaches the store after ``not_after``.
        """
        ...

    async def look(self, polled: Sequence[LockWaiters]) -> Sequence[QueueState | StoreError]:
        """Keep waiters alive, advance the queues that can advance, and return the place of each waiter."""
        ...

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[RenewReply]:
        """Extend many leases at once, never to an earlier end; an unknown outcome is a reply here, not an exception."""
        ...

    async def shorten(self, renewal: Renewal, not_after: NotAfter) -> Done | Ended:
        """Renew one lease to a ttl that may end earlier than it does now."""
        ...

    async def check(self, leases: Sequence[LeaseKey]) -> Sequence[RenewReply]:
        """Tell of each lease whether it has ended, and why; an unknown outcome is a reply here, not an exception."""
        ...

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> ReleaseReply:
        """End the lease of ``token``, or its wait, and only that; the next in the queue gets the lock.

        With fence 0 a request for ``token`` is in doubt: where the store keeps order, it is done before this.
        """
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
        not_after: NotAfter,
    ) -> Grant | Refusal:
        """Grant the lock even if it is held, unless the holder's fence is not the expected one; waiters keep their places."""
        ...

    async def inspect(self, name: str) -> LockInfo:
        """Return the public state of the lock."""
        ...

    async def page(self, pattern: str, cursor: object) -> tuple[object, Sequence[LockInfo]]:
        """Return the next cursor and some of the locks whose names match ``pattern``; cursor 0 begins and ends.

        Any other cursor is the store's own.
        """
        ...


class Results(Protocol):
    """The store of results of `once`. Every method raises `StoreUnavailable` when the outcome is unknown."""

    async def recall(self, key: str) -> str | None:
        """Return the value kept under ``key``, None if there is none."""
        ...

    async def keep(self, key: str, token: str, value: str, ttl: float) -> bool:
        """Keep ``value`` and end the lease of ``token``, in one step; False if that lease has ended.

        A repeated request with the same value returns True again.
        """
        ...

    async def mark(self, key: str, mark: str, ttl: float) -> bool:
        """Mark ``key``; False if it has another mark already, or a value."""
        ...

    async def unmark(self, key: str, mark: str) -> None:
        """Remove this ``mark``, and no other, from ``key``."""
        ...
