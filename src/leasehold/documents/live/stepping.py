"""Sending to very many at once, without a task for each.

A socket that keeps up takes a message without waiting, so its ``send`` runs through in one step. Only one that
does not keep up is worth a task: the rest of its ``send`` is awaited there.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator


def step(coroutine: Coroutine[Any, Any, None]) -> Awaitable[None] | None:
    """Run ``coroutine`` until it waits for something. None if it never did, else what remains of it.

    The remains must be awaited by a task, at once. What the coroutine raises in the first step is raised here.
    """
    try:
        awaited = coroutine.send(None)
    except StopIteration:
        return None
    return _remains(coroutine, awaited)


@types.coroutine
def _remains(coroutine: Coroutine[Any, Any, None], awaited: Any) -> Generator[Any, Any, None]:
    """As if the task that awaits this had run ``coroutine`` from its beginning."""
    try:
        while True:
            try:
                answer = yield awaited
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is for the coroutine
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(answer)
    except StopIteration:
        return
