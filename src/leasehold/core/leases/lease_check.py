"""Checks leases in the store after notifications may have been missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.core.background import BackgroundLoop, report_unexpected
from leasehold.core.backoff import Backoff
from leasehold.core.replies import Ended, LeaseKey
from leasehold.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.core.leases.lease import LeaseState
    from leasehold.core.ports import Clock, Concurrency, Random, Store
    from leasehold.core.replies import RenewReply

# The leases of one batch, and one batch at a time: other commands of the connection wait for less than a millisecond.
_BATCH = 128
# A store that is a replica now refuses the check, and so replaces the connection, after which all leases are checked
# again: these pauses limit how often.
_BACKOFF = Backoff(first=0.05, cap=1.0)


class LeaseChecker:
    """Asks the store whether leases are still held, and ends those that are not.

    Between the loss of a connection and the subscription on the next one, the notification of a take is lost. So
    every lease that is not over is checked after that, whether it is renewed or not. A check changes no lease: what it
    finds held stays as it was.
    """

    def __init__(self, store: Store, clock: Clock, random: Random, concurrency: Concurrency) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._concurrency = concurrency
        self._loop = BackgroundLoop(concurrency, self.run)
        self._added = concurrency.signal()
        self._stopped = concurrency.signal()
        self._is_stopped = False
        # A dict, because `add` may be called from another thread, and repeatedly for one lease.
        self._pending: dict[LeaseState, None] = {}
        self._postponed: dict[LeaseState, None] = {}

    def add(self, lease: LeaseState) -> None:
        """Check ``lease`` soon."""
        self._pending[lease] = None
        self._added.set()
        self._loop.start()

    def stop(self) -> None:
        """End `run` soon."""
        self._is_stopped = True
        self._stopped.set()
        self._added.set()

    async def run(self) -> None:
        """Work until stopped."""
        tries = 0
        while not self._is_stopped:
            self._added.clear()
            batch = self._next_batch()
            if batch and await self._check(batch):
                tries = 0
            elif batch or self._postponed:
                tries += 1
                # Not ended by another lease that is added, or these pauses would limit nothing.
                await self._stopped.wait(_BACKOFF.pause(tries, self._random.fraction()))
                self._pending.update(self._postponed)
                self._postponed.clear()
            elif not self._is_stopped:
                await self._added.wait()

    def _next_batch(self) -> list[LeaseState]:
        batch: list[LeaseState] = []
        while len(batch) < _BATCH and self._pending:
            lease, _ = self._pending.popitem()
            if not lease.is_over:
                batch.append(lease)
        return batch

    async def _check(self, batch: list[LeaseState]) -> bool:
        """End the leases of ``batch`` that have ended in the store; False if the store must be asked again."""
        is_settled = True
        for lease, reply in zip(batch, await self._ask(batch), strict=True):
            if isinstance(reply, StoreError):
                self._pending[lease] = None
                is_settled = False
            elif isinstance(reply, Ended):
                # A request under way may have ended it without a loss: an upgrade, or the end of a `once`. The turn is
                # not taken for the check, because a silent store would then delay a renewal over another socket.
                if lease.exchanges:
                    self._postponed[lease] = None
                else:
                    lease.end(lease.loss() or reply.value)
        return is_settled

    async def _ask(self, batch: list[LeaseState]) -> Sequence[RenewReply]:
        try:
            return await self._store.check([LeaseKey(it.name, it.token, it.fence) for it in batch])
        except Exception as error:  # noqa: BLE001 - no error may end the checker
            report_unexpected(error)
            return [StoreUnavailable(f"checking failed: {error}")] * len(batch)
