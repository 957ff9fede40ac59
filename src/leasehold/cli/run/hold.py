"""Runs a command while a lock is held, for ``leasehold run`` and ``leasehold files lock``."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from leasehold import Lease
from leasehold.cli.errors import as_cli_error, message_of, warn
from leasehold.cli.exit_codes import AFTER_SIGNAL
from leasehold.cli.format import describe_busy
from leasehold.cli.run.command import ChildProcess, find_executable
from leasehold.cli.run.signals import SignalForwarder
from leasehold.errors import FileBusy, InvalidRequest, LeaseLost, LockBusy, LossReason, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from contextlib import AbstractAsyncContextManager

    from leasehold import Client
    from leasehold.core.replies import Mode


@dataclass(frozen=True, slots=True)
class HoldOptions:
    """The options of the lock, and the ``grace`` seconds for the clean-up of a command that has to stop."""

    ttl: float
    wait: float | None
    mode: Mode
    holder: str | None
    max_hold: float | None
    grace: float

    def __post_init__(self) -> None:
        if not self.grace >= 0:  # also refuses NaN
            raise InvalidRequest(f"grace must be a number of seconds from 0, not {self.grace!r}")

    @property
    def margin(self) -> float:
        """Seconds before the end of an unrenewed lease at which the command is stopped.

        So the command has ended when the lease ends, and not a grace time later. At most a third of the lease,
        because a lease that is renewed on time always has more left.
        """
        return min(self.grace, self.ttl / 3, self.ttl if self.max_hold is None else self.max_hold / 3)


class HeldLock(Protocol):
    """The lock that a command runs under: one lease, or several that count as one."""

    @property
    def fence(self) -> int:
        """The fence passed to the command."""
        ...

    @property
    def is_lost(self) -> bool:
        """Whether the lease has ended."""
        ...

    def loss(self) -> LossReason | None:
        """The reason why it has ended; None if it has not."""
        ...

    def remaining(self) -> float:
        """Seconds until it ends."""
        ...

    async def renew(self, ttl: float | None = None) -> None:
        """Extend it to the whole ttl."""
        ...

    async def lost(self, timeout: float | None = None) -> LossReason | None:
        """Wait for its end; None after ``timeout`` seconds."""
        ...


async def hold_and_run(client: Client, name: str, command: list[str], options: HoldOptions) -> int:
    """Run ``command`` while holding ``name`` and return its exit code. It gets the fence, never the token."""

    async def run(signals: SignalForwarder) -> int:
        async with client as locks:
            lock = locks.lock(
                name,
                ttl=options.ttl,
                wait=options.wait,
                mode=options.mode,
                holder=options.holder,
                max_hold=options.max_hold,
                on_loss="signal",
            )
            return await run_under_lock(lock, name, command, options, signals)

    find_executable(command[0])
    return await run_with_signals(run)


async def run_with_signals(work: Callable[[SignalForwarder], Coroutine[Any, Any, int]]) -> int:
    """The exit code that ``work`` returns, or of the signal that cancelled it before the command was started."""
    with SignalForwarder() as signals:
        try:
            return await work(signals)
        except asyncio.CancelledError:
            if signals.stopped_by is None:
                raise
            return AFTER_SIGNAL + signals.stopped_by


async def run_under_lock(
    lock: AbstractAsyncContextManager[HeldLock],
    name: str,
    command: list[str],
    options: HoldOptions,
    signals: SignalForwarder,
    *,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run ``command`` inside ``lock`` and return its exit code.

    Its environment is ``environ`` (by default ours) with ``name`` and the fence.
    """
    code: int | None = None
    try:
        async with lock as lease:
            await _renew_if_short(lease, options)
            told = {"LEASEHOLD_NAME": name, "LEASEHOLD_FENCE": str(lease.fence)}
            inherited = os.environ if environ is None else environ
            signals.command = await ChildProcess.start(command, {**inherited, **told})
            code = await _wait_or_stop(signals.command, name, lease, options)
    except FileBusy:
        raise  # its message already names the holder and what to do
    except LockBusy as busy:
        raise as_cli_error(busy, describe_busy(busy)) from busy
    except LeaseLost as lost:
        if code is None:
            raise
        # Found out on release: the command may have run without the lock for a while.
        raise as_cli_error(lost, f"{lost}; the command had ended by then, with {code}") from lost
    except StoreError as error:
        if code is None:
            raise
        warn(f"the command has ended, but the lock stays held until its ttl is over: {message_of(error)}")
    assert code is not None
    return code


async def _renew_if_short(lease: HeldLock, options: HoldOptions) -> None:
    """Extend the lease to the whole ttl before the command starts.

    After a wait the lease is short until its first renewal; `_wait_for_loss` would take it for one about to end.
    """
    if lease.remaining() < 2 * options.margin:
        await lease.renew()


async def _wait_or_stop(command: ChildProcess, name: str, lease: HeldLock, options: HoldOptions) -> int:
    """Wait for the command's end, or stop it when the lease ends first."""
    ended = asyncio.create_task(command.wait())
    lost = asyncio.create_task(_wait_for_loss(lease, options.margin))
    await asyncio.wait({ended, lost}, return_when=asyncio.FIRST_COMPLETED)
    if ended.done():
        lost.cancel()
        return ended.result()
    reason = lost.result()
    is_in_time = not lease.is_lost
    is_stopped = await command.stop(options.margin if is_in_time else options.grace)
    error = LeaseLost(name, reason)
    if is_stopped:
        raise as_cli_error(error, f"{error}; the command was stopped")
    raise as_cli_error(error, f"{error}; the command is still running, because this user may not stop it")


async def _wait_for_loss(lease: HeldLock, margin: float) -> LossReason:
    """Return when the lease is lost, or ends in ``margin`` seconds unless a late renewal succeeds."""
    while (left := lease.remaining() - margin) > 0:
        if reason := await lease.lost(timeout=left):
            return reason
    is_over = isinstance(lease, Lease) and lease.valid_until == lease.hold_until
    return lease.loss() or ("max_hold" if is_over else "expired")
