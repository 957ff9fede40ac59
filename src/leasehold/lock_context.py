"""The context manager that holds a lock inside ``async with``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from leasehold.core.leases.lease import LeaseState
from leasehold.errors import LeaseLost, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from types import TracebackType
    from typing import NoReturn

    from leasehold.core.engine import Engine
    from leasehold.core.replies import OnLoss


class Held(Protocol):
    """A lease, or several that are held together."""

    @property
    def is_abandoned(self) -> bool:
        """Whether nothing is to be released."""
        ...

    def check(self) -> None:
        """Raise `LeaseLost` if it is not held."""
        ...

    def release(self) -> Coroutine[Any, Any, None]:
        """Release it."""
        ...


H = TypeVar("H", bound=Held)


class AsyncOnly:
    """A context manager that explains what to write instead of ``with``."""

    if not TYPE_CHECKING:  # a type checker is to report ``with``, too

        def __enter__(self) -> NoReturn:
            raise TypeError("use 'async with' here; for threads, use leasehold.blocking.connect() and 'with'")

        def __exit__(self, *_: object) -> None:
            """Python looks for it before it calls `__enter__`."""


class LockContext(AsyncOnly, Generic[H]):
    """The context manager of ``async with locks.lock(...)``: a lease (or several) that is renewed inside.

    If the lease is lost, the body is cancelled (``on_loss="cancel"``) and `LeaseLost` is raised; with
    ``on_loss="signal"`` the body runs on, may check ``lease.is_lost``, and `LeaseLost` is raised at its end.
    An exception of the body is never hidden.
    """

    def __init__(
        self, engine: Engine[Any], acquire: Callable[[], Coroutine[Any, Any, H]], on_loss: OnLoss
    ) -> None:
        self._engine = engine
        self._acquire = acquire
        self._on_loss = on_loss
        self._held: H | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling_before = 0
        self._has_cancelled = False

    async def __aenter__(self) -> H:
        self._engine.concurrency.check()
        held = await self._acquire()
        self._has_cancelled = False
        self._task = asyncio.current_task()
        if self._task is not None:
            self._cancelling_before = self._task.cancelling()
        self._held = held
        for lease in _each(held):
            lease.scope = self
            self._engine.watch(lease)
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        held = self._held
        assert held is not None
        was_our_cancel = self.let_go() and isinstance(error, asyncio.CancelledError)
        try:
            if not held.is_abandoned:
                await held.release()
            elif was_our_cancel:
                held.check()
        except LeaseLost as lost:
            if error is None or was_our_cancel:
                raise lost from error
            if not isinstance(error, LeaseLost):
                error.add_note(f"In addition, {lost}.")
        except StoreError as failure:
            if error is None:
                raise
            error.add_note(f"{held!r} could not be released: {failure}.")

    def let_go(self) -> bool:
        """Do not cancel the body from now on. Return whether we, and no one else, have cancelled it.

        The way of `asyncio.timeout`.
        """
        assert self._held is not None
        for lease in _each(self._held):
            lease.scope = None
        if not self._has_cancelled or self._task is None:
            return False
        self._has_cancelled = False
        return self._task.uncancel() <= self._cancelling_before

    def lease_ended(self, lease: LeaseState) -> None:
        """Cancel the body, unless it is the body itself that has noticed the end."""
        task = self._task
        if task is None or self._has_cancelled or lease.ended == "released" or self._on_loss != "cancel":
            return
        if _current_task() is not task:
            self._has_cancelled = True
            task.cancel()


def _each(held: Any) -> Iterable[Any]:
    return (held,) if isinstance(held, LeaseState) else held


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # called by the event loop itself, with a notification
        return None
