"""``leasehold run`` and others: a command under a lock."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from leasehold import Lease
from leasehold.cli.errors import command_error, explain, warn
from leasehold.cli.exit_codes import AFTER_SIGNAL
from leasehold.cli.format import busy_line
from leasehold.cli.run.command import Command, find_executable
from leasehold.cli.run.signals import Signals
from leasehold.errors import FileBusy, InvalidRequest, LeaseLost, LockBusy, LossReason, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from leasehold import Client
    from leasehold.core.replies import Mode


@dataclass(frozen=True, slots=True)
class Terms:
    """How to hold the lock, and for how long a command that has to stop may clean up."""

    ttl: float
    wait: float | None
    mode: Mode
    holder: str | None
    max_hold: float | None
    grace: float

    def __post_init__(self) -> None:
        if not self.grace >= 0:  # NaN is not, either
            raise InvalidRequest(f"grace must be a number of seconds from 0, not {self.grace!r}")

    @property
    def margin(self) -> float:
        """How long before the end of a lease that is not being renewed the command is told to stop.

        So it has ended when the lease has, and not a grace time later. At most a third of the lease: one
        that is renewed as it should be always has more left.
        """
        return min(self.grace, self.ttl / 3, self.ttl if self.max_hold is None else self.max_hold / 3)


class Held(Protocol):
    """What a command runs under: a lease, or several that count as one."""

    @property
    def fence(self) -> int:
        """What the command is told."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether it has ended."""
        ...

    def loss(self) -> LossReason | None:
        """Why it has ended, if it has."""
        ...

    def remaining(self) -> float:
        """Seconds for which it can be relied on."""
        ...

    async def renew(self, ttl: float | None = None) -> None:
        """Have the whole ttl again."""
        ...

    async def lost(self, timeout: float | None = None) -> LossReason | None:
        """Wait for its end."""
        ...


async def hold_and_run(client: Client, name: str, command: list[str], terms: Terms) -> int:
    """The exit code of ``command``, run while holding ``name``. It learns the fence, never the token."""

    async def run(signals: Signals) -> int:
        async with client as locks:
            lock = locks.lock(
                name,
                ttl=terms.ttl,
                wait=terms.wait,
                mode=terms.mode,
                holder=terms.holder,
                max_hold=terms.max_hold,
                on_loss="signal",
            )
            return await run_under(lock, name, command, terms, signals)

    find_executable(command[0])
    return await with_signals(run)


async def with_signals(work: Callable[[Signals], Coroutine[Any, Any, int]]) -> int:
    """The exit code that ``work`` returns; that of the signal if one ended it before there was a command."""
    with Signals() as signals:
        try:
            return await work(signals)
        except asyncio.CancelledError:
            if signals.stopped_by is None:
                raise
            return AFTER_SIGNAL + signals.stopped_by


async def run_under(
    lock: AbstractAsyncContextManager[Held], name: str, command: list[str], terms: Terms, signals: Signals
) -> int:
    """The exit code of ``command``, run inside ``lock``. It finds ``name`` and the fence in its environment."""
    code: int | None = None
    try:
        async with lock as lease:
            await _claim(lease, terms)
            environ = os.environ | {"LEASEHOLD_NAME": name, "LEASEHOLD_FENCE": str(lease.fence)}
            signals.command = await Command.start(command, environ)
            code = await _attend(signals.command, name, lease, terms)
    except FileBusy:
        raise  # it says itself who has it and what to do
    except LockBusy as busy:
        raise command_error(busy, busy_line(busy)) from busy
    except LeaseLost as lost:
        if code is None:
            raise
        # Found out when giving it back: the command may have worked without the lock for a while.
        raise command_error(lost, f"{lost}; the command had ended by then, with {code}") from lost
    except StoreError as error:
        if code is None:
            raise
        warn(f"the command has ended, but the lock stays held until its ttl is over: {explain(error)}")
    assert code is not None
    return code


async def _claim(lease: Held, terms: Terms) -> None:
    """Have the whole ttl before the command starts.

    Whoever waited gets a short lease at first, which the first renewal makes a full one. To `_loss` it would
    look like one that is about to end.
    """
    if lease.remaining() < 2 * terms.margin:
        await lease.renew()


async def _attend(command: Command, name: str, lease: Held, terms: Terms) -> int:
    """Wait for the command's end, or bring it about when the lease ends first."""
    ended = asyncio.create_task(command.wait())
    lost = asyncio.create_task(_loss(lease, terms.margin))
    await asyncio.wait({ended, lost}, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        lost.cancel()
        return ended.result()
    reason = lost.result()
    is_in_time = not lease.is_lost
    is_stopped = await command.stop(terms.margin if is_in_time else terms.grace)
    error = LeaseLost(name, reason)
    if is_stopped:
        raise command_error(error, f"{error}; the command was stopped")
    raise command_error(error, f"{error}; the command runs on, because this user may not stop it")


async def _loss(lease: Held, margin: float) -> LossReason:
    """Return when the lease is lost, or will be in ``margin`` seconds unless a late renewal succeeds."""
    while (left := lease.remaining() - margin) > 0:
        if reason := await lease.lost(timeout=left):
            return reason
    is_over = isinstance(lease, Lease) and lease.valid_until == lease.hold_until
    return lease.loss() or ("max_hold" if is_over else "expired")
