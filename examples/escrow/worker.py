"""A worker: processes messages, delivers notifications, and checks the books at intervals.

One task at a time; for more throughput, run more workers. A message is acknowledged only when its work is done.
After errors of a lock and transient errors of the database it stays unacknowledged and is redelivered, to this
worker or another. A message that can never succeed is put aside, because it must not end one worker after another.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from examples.escrow.database import is_transient
from examples.escrow.deals import NotYetError
from examples.escrow.deposits import receive
from examples.escrow.notifications import deliver
from examples.escrow.payouts import pay_out
from examples.escrow.reconciliation import reconcile
from examples.escrow.refunds import refund
from redis.exceptions import RedisError
from sqlalchemy.exc import DBAPIError

from leasehold import InvalidRequest, LeaseholdError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from examples.escrow.messages import Message, Queue
    from examples.escrow.service import Escrow

HANDLERS: dict[str, Callable[..., Awaitable[str]]] = {"deposit": receive, "payout": pay_out, "refund": refund}


class Worker:
    def __init__(
        self, escrow: Escrow, queue: Queue, name: str, tell: Callable[..., None] = lambda **_: None
    ) -> None:
        self._escrow = escrow
        self._queue = queue
        self._name = name
        self._tell = tell
        self._due_at: dict[str, float] = {}

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                for message in await self._queue.receive(self._name):
                    await self._handle(message)
                await self._run_every(0.5, "notifications", deliver)
                await self._run_every(2.0, "reconciliation", reconcile)
            except RedisError as error:
                self._tell(event="trouble", what="queue", why=repr(error))
                await asyncio.sleep(0.2)

    async def _handle(self, message: Message) -> None:
        try:
            outcome = await HANDLERS[message.kind](self._escrow, **message.fields)
        except Exception as error:  # noqa: BLE001 - no message may block the others
            if is_retryable(error):
                self._tell(event="put off", what=message.kind, why=_name_of(error))
            else:
                await self._queue.put_aside(message, repr(error))
                self._tell(event="put aside", what=message.kind, why=repr(error))
            return
        await self._queue.acknowledge(message)
        self._tell(event="done", what=message.kind, outcome=outcome)

    async def _run_every(self, interval: float, what: str, work: Callable[[Escrow], Awaitable[Any]]) -> None:
        if time.monotonic() < self._due_at.get(what, 0.0):
            return
        try:
            found = await work(self._escrow)
        except Exception as error:
            if not is_retryable(error):
                raise
            self._tell(event="put off", what=what, why=_name_of(error))
        else:
            self._tell(event="checked", what=what, found=found)
        self._due_at[what] = time.monotonic() + interval


def is_retryable(error: Exception) -> bool:
    """Whether a retry can succeed: a lock was busy, or the deal or the database was not ready."""
    if isinstance(error, DBAPIError):
        return is_transient(error)
    return isinstance(error, LeaseholdError | NotYetError) and not isinstance(error, InvalidRequest)


def _name_of(error: BaseException) -> str:
    return type(getattr(error, "orig", None) or error).__name__
