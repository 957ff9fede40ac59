"""Operations under locks of a named purpose, for asyncio."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold import client
from leasehold.errors import InvalidRequest
from leasehold.operations.guarded_functions import GuardedFunction
from leasehold.operations.purposes import STANDARD, Purpose, Purposes, check_purposes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.client import Client, Lease, LockContext

R = TypeVar("R")


class Operations:
    """The locks of an application by purpose: ``Operations(locks, purposes)``.

    ``async with ops.purpose("payout", deal_id=42) as lease`` is ``locks.lock(...)`` with the name and the times
    of that purpose, and promises the same.
    """

    def __init__(self, locks: Client, purposes: Purposes = STANDARD) -> None:
        if not isinstance(locks, client.Client):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest(
                "leasehold.operations.Operations needs a client of leasehold.connect(...), not "
                f"{type(locks).__module__}.{type(locks).__name__}; for threads use leasehold.operations.blocking.Operations"
            )
        self.locks = locks
        self.purposes = check_purposes(purposes)

    def purpose(self, name: str, /, **parameters: object) -> LockContext[Lease]:
        """Hold the lock of this purpose and these parameters inside ``async with``.

        Raises `InvalidRequest` at once, before any request, for an unknown purpose, a missing or surplus parameter,
        or a value that cannot be part of a name (None, "", floats, objects).
        """
        purpose = self.purposes.find(name)
        return self.hold(purpose, purpose.lock_name(**parameters))

    def guarded(
        self, name: str, /, **keys: Callable[..., object]
    ) -> Callable[[Callable[..., Coroutine[Any, Any, R]]], Callable[..., Coroutine[Any, Any, R]]]:
        """Run each call of the decorated function under the lock of this purpose and the call's parameters.

        A key function such as ``deal_id=lambda event: event.deal_id`` computes a parameter: it gets the call's
        arguments with the names of its own parameters (if it has one parameter of another name: the first argument).
        A parameter without a key function is the argument of the same name. If the function has a parameter
        ``lease``, it gets the lease. All of that is checked on decoration. If a key function returns None, the call
        raises `InvalidRequest` and the function is not run.
        """
        purpose = self.purposes.find(name)

        def decorate(
            function: Callable[..., Coroutine[Any, Any, R]],
        ) -> Callable[..., Coroutine[Any, Any, R]]:
            if not inspect.iscoroutinefunction(function):
                raise InvalidRequest(f"guarded() needs an async function, got {function!r}")
            guarded = GuardedFunction(function, purpose, keys)

            @functools.wraps(function)
            async def run(*args: Any, **kwargs: Any) -> R:
                async with self.hold(purpose, guarded.lock_name(args, kwargs)) as lease:
                    if guarded.takes_lease:
                        kwargs["lease"] = lease
                    return await function(*args, **kwargs)

            run.__signature__ = guarded.signature  # pyright: ignore[reportAttributeAccessIssue, reportFunctionMemberAccess] - read by inspect
            return run

        return decorate

    def hold(self, purpose: Purpose, lock_name: str) -> LockContext[Lease]:
        """Hold the lock of this name inside ``async with``, with the times of ``purpose``."""
        return self.locks.lock(lock_name, **purpose.options())
