"""Waits for a condition, with a limit that only a hang exceeds."""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

LIMIT = 60.0
"""Seconds that only a hang takes, also on a machine that is busy with other work. No promise is judged by it."""


def eventually(
    predicate: Callable[[], T], within: float = LIMIT, every: float = 0.01, message: str | None = None
) -> T:
    """Return the predicate's first truthy answer; a predicate may also assert. Fails after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        try:
            answer = predicate()
        except AssertionError as error:
            last: object = error
        else:
            if answer:
                return answer
            last = answer
        if time.monotonic() >= deadline:
            raise AssertionError(_complaint(predicate, within, last, message))
        time.sleep(every)


async def eventually_async(
    predicate: Callable[[], T | Awaitable[T]],
    within: float = LIMIT,
    every: float = 0.01,
    message: str | None = None,
) -> T:
    """Like `eventually`, without blocking the loop; the predicate may be plain or a coroutine function."""
    deadline = time.monotonic() + within
    while True:
        try:
            answer: Any = predicate()
            if inspect.isawaitable(answer):
                answer = await asyncio.wait_for(answer, max(every, deadline - time.monotonic()))
        except AssertionError as error:
            last: object = error
        except TimeoutError:
            last = "no answer from the predicate"
        else:
            if answer:
                return cast("T", answer)
            last = answer
        if time.monotonic() >= deadline:
            raise AssertionError(_complaint(predicate, within, last, message))
        await asyncio.sleep(every)


def _complaint(predicate: Callable[[], object], within: float, last: object, message: str | None) -> str:
    if message is None:
        try:
            message = inspect.getsource(predicate).strip()
        except (OSError, TypeError):
            message = repr(predicate)
    return f"not true within {within:g} s: {message}\nlast answer: {last!r}"
