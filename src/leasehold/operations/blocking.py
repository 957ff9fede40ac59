"""Operations under locks of a named purpose, for threads: the same names and arguments."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold import blocking
from leasehold.errors import InvalidRequest
from leasehold.operations.guarded_functions import GuardedFunction
from leasehold.operations.purposes import STANDARD, Purpose, Purposes, check_purposes

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.blocking import Client, Lease, LockContext

R = TypeVar("R")


class Operations:
    """The locks of an application by purpose; as `leasehold.operations.Operations`, for a blocking client."""

    def __init__(self, locks: Client, purposes: Purposes = STANDARD) -> None:
        if not isinstance(locks, blocking.Client):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest(
                "leasehold.operations.blocking.Operations needs a client of leasehold.blocking.connect(...), not "
                f"{type(locks).__module__}.{type(locks).__name__}; for asyncio use leasehold.operations.Operations"
            )
        self.locks = locks
        self.purposes = check_purposes(purposes)

    def purpose(self, name: str, /, **parameters: object) -> LockContext[Lease]:
        """Hold the lock of this purpose inside ``with``; see `leasehold.operations.Operations.purpose`."""
        purpose = self.purposes.find(name)
        return self.hold(purpose, purpose.lock_name(**parameters))

    def guarded(
        self, name: str, /, **keys: Callable[..., object]
    ) -> Callable[[Callable[..., R]], Callable[..., R]]:
        """Run the decorated function under the lock; see `leasehold.operations.Operations.guarded`.

        Threads cannot be cancelled: if the lease is lost, `LeaseLost` is raised when the function returns.
        """
        purpose = self.purposes.find(name)

        def decorate(function: Callable[..., R]) -> Callable[..., R]:
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
                raise InvalidRequest(f"guarded() needs a plain function, got {function!r}, which is async")
            if inspect.isgeneratorfunction(function):
                raise InvalidRequest(f"{function!r} is a generator: it would run after the lock is released")
            guarded = GuardedFunction(function, purpose, keys)

            @functools.wraps(function)
            def run(*args: Any, **kwargs: Any) -> R:
                with self.hold(purpose, guarded.lock_name(args, kwargs)) as lease:
                    if guarded.takes_lease:
                        kwargs["lease"] = lease
                    return function(*args, **kwargs)

            run.__signature__ = guarded.signature  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess] - read by inspect
            return run

        return decorate

    def hold(self, purpose: Purpose, lock_name: str) -> LockContext[Lease]:
        """Hold the lock of this name inside ``with``, with the times of ``purpose``."""
        return self.locks.lock(lock_name, **purpose.options())
