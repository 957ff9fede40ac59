"""The verbs, once for everybody: what it takes to acquire, renew, release, take and inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core import bounds
from leasehold.core.acquiring import persevere, trusted_grant
from leasehold.core.answers import DONE, Done, Ended, Refusal
from leasehold.core.keeping import Keeper, renewal_of
from leasehold.core.lease import LeaseState
from leasehold.core.settling import Orphan, Settler
from leasehold.core.validity import trusted_for, ttl_for
from leasehold.errors import LeaseLost, LockBusy, StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.answers import Grant, LockInfo
    from leasehold.core.backoff import Backoff
    from leasehold.core.ports import Clock, Concurrency, Random, Store
    from leasehold.errors import Holder, LossReason

L = TypeVar("L", bound=LeaseState)
T = TypeVar("T")


class Engine(Generic[L]):
    """All that a client does, over its ports.

    ``generation`` counts forks: a lease of an earlier generation belongs to the parent process, and
    this one must neither use it nor give it back.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random: Random,
        concurrency: Concurrency,
        *,
        make_lease: Callable[..., L],
        holder: Callable[[], Holder],
        patience: float,
        retry: Backoff,
    ) -> None:
        self.store = store
        self.clock = clock
        self.concurrency = concurrency
        self.generation = 0
        self.random = random
        self._make_lease = make_lease
        self._default_holder = holder
        self.patience = patience
        self.retry = retry
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._holder = self._default_holder()
        self._encoded_holder = bounds.encode_holder(self._holder)
        self._keeper = Keeper(self.store, self.clock, self.random, self.concurrency)
        self._settler = Settler(self.store, self.clock, self.concurrency, patience=self.patience)
        self._keeper_runs = False
        self._settler_runs = False

    def after_fork(self, concurrency: Concurrency) -> None:
        """In a child process: own nothing of what the parent holds."""
        self.concurrency = concurrency
        self.generation += 1
        self._start_afresh()

    async def open(self) -> None:
        """Make sure that the store can be reached, or say why not."""
        await self._insist(self.store.open)

    async def acquire(
        self,
        name: str,
        ttl: float,
        wait: float | None,
        mode: str,
        holder: Holder | None,
        renew: bool,  # noqa: FBT001 - by position, because this is the hot path
        max_hold: float | None,
        floor: int | None,
    ) -> L:
        """A lease, or one of the exceptions that `leasehold.core.acquiring.persevere` raises."""
        bounds.check_request(name, ttl, wait, mode)
        asked_ttl, encoded, least = ttl, self._encoded_holder, 0
        if max_hold is not None or holder is not None or floor is not None:
            asked_ttl, encoded, least = self._terms(ttl, holder, max_hold, floor)
        token = self.random.token()
        # Read before the request is sent: a slow reply must shorten the lease, never lengthen it.
        sent_at = self.clock.now()
        try:
            answer = await self.store.acquire(name, token, asked_ttl, least, encoded)
        except BaseException as error:  # noqa: BLE001 - `persevere` decides, and raises what it does not handle
            answer = error
        grant = trusted_grant(answer, sent_at, self.clock.now())
        if grant is None:
            grant = await persevere(self, answer, sent_at, wait, name, token, asked_ttl, least, encoded)
        fence, valid_until, receipt = grant
        lease = self._make_lease(
            self, name, token, fence, mode, holder or self._holder, ttl, valid_until, receipt
        )
        if renew or max_hold is not None:
            self._look_after(lease, asked_ttl, renew=renew, max_hold=max_hold)
        return lease

    async def take(
        self,
        name: str,
        *,
        ttl: float,
        mode: str,
        holder: Holder | None,
        renew: bool,
        max_hold: float | None,
        floor: int | None,
        expect_fence: int | None,
    ) -> L:
        """A lease on a lock, whoever held it; `LockBusy` if that was not the holder of ``expect_fence``."""
        bounds.check_request(name, ttl, None, mode)
        expected = None if expect_fence is None else bounds.check_fence(expect_fence, "expect_fence")
        asked_ttl, encoded, least = self._terms(ttl, holder, max_hold, floor)
        token = self.random.token()
        sent_at = 0.0

        def take() -> Coroutine[Any, Any, Grant | Refusal]:
            nonlocal sent_at
            sent_at = self.clock.now()
            return self.store.take(name, token, asked_ttl, least, encoded, expected)

        try:
            answer = await self._insist(take)
        except StoreRefused:
            raise
        except BaseException as error:
            self.disown(name, token, asked_ttl, error)
            raise
        if isinstance(answer, Refusal):
            raise LockBusy(name, holder=answer.holder)
        fence, remaining, receipt = answer
        valid_until = sent_at + trusted_for(remaining)
        lease = self._make_lease(
            self, name, token, fence, mode, holder or self._holder, ttl, valid_until, receipt
        )
        if renew or max_hold is not None:
            self._look_after(lease, asked_ttl, renew=renew, max_hold=max_hold)
        return lease

    async def renew(self, lease: LeaseState, ttl: float | None = None) -> None:
        """Extend ``lease`` to ``ttl`` from now; `LeaseLost` if there is nothing left to extend."""
        if ttl is not None:
            bounds.check_ttl(ttl)
        if lease.renewal is not None:
            # Two renewals at once, over two sockets, could be applied in either order.
            await lease.renewal.wait()
        valid_until = 0.0

        async def ask() -> Done | Ended:
            nonlocal valid_until
            self._check(lease)
            sent_at = self.clock.now()
            renewal = renewal_of(lease, sent_at, ttl)
            valid_until = sent_at + trusted_for(renewal.ttl)
            (answer,) = await self.store.renew([renewal])
            if isinstance(answer, Done | Ended):
                return answer
            raise answer

        answer = await self._insist(ask)
        if isinstance(answer, Ended):
            lease.end(answer.value)
        # An answer that came after the deadline does not bring a lost lease back: lost is for good.
        self._check(lease)
        lease.ttl = ttl or lease.ttl
        lease.extend(valid_until)
        if lease.is_watched:
            self._keeper.watch(lease)

    async def release(self, lease: LeaseState) -> None:
        """Give ``lease`` back. Harmless when repeated; `LeaseLost` if it had been lost before."""
        if lease.ended == "released":
            return
        if lease.is_watched or lease.renewal is not None:
            await self._keeper.forget(lease)
        loss = lease.loss()
        if loss is not None:
            lease.end(loss)
            if lease.is_ours and loss != "taken":
                # Nothing depends on it any more, so nobody needs to wait for it either.
                self._adopt(lease.name, lease.token, lease.ttl, look_again=False)
            raise LeaseLost(lease.name, loss)
        try:
            try:
                answer = await self.store.release(lease.name, lease.token, lease.fence, lease.receipt)
            except StoreUnavailable:
                await self._insist(
                    lambda: self.store.release(lease.name, lease.token, lease.fence, lease.receipt)
                )
                # Gone when asked again means that the first request, whose reply was lost, has done it.
                answer = DONE
        except BaseException as error:
            self.disown(lease.name, lease.token, lease.ttl, error)
            raise
        if isinstance(answer, Ended):
            lease.end(answer.value)
            raise LeaseLost(lease.name, answer.value)
        lease.end("released")

    def abandon(self, lease: LeaseState) -> None:
        """Stop renewing ``lease`` without giving it back: it ends with its ttl."""
        lease.is_abandoned = True
        lease.renews = False
        if lease.is_watched:
            self._keeper.watch(lease)

    async def lost(self, lease: LeaseState, timeout: float | None = None) -> LossReason | None:
        """Wait until ``lease`` has ended, and say why; None if ``timeout`` seconds passed first."""
        if lease.loss() is None:
            if lease.lost_signal is None:
                lease.lost_signal = self.concurrency.signal()
            self.watch(lease)
            await lease.lost_signal.wait(timeout)
        return lease.loss()

    def watch(self, lease: LeaseState) -> None:
        """Have ``lease`` renewed if it wants that, and told when it is lost."""
        if not self._keeper_runs:
            self._keeper_runs = True
            self.concurrency.background(self._keeper.run)
        if not lease.is_watched:
            self._keeper.watch(lease)

    async def inspect(self, name: str) -> LockInfo:
        """Who holds the lock now."""
        bounds.check_name(name)
        return await self._insist(lambda: self.store.inspect(name))

    async def close(self) -> None:
        """Stop renewing, after a bounded wait for what is in doubt. Leases still held end with their ttl."""
        await self._settler.all_clear(self.patience)
        self._keeper.stop()
        self._settler.stop()

    def _terms(
        self, ttl: float, holder: Holder | None, max_hold: float | None, floor: int | None
    ) -> tuple[float, str, int]:
        """What to ask the store for: ttl, encoded holder, least fence. Checked, and nothing sent."""
        if max_hold is not None:
            bounds.check_max_hold(max_hold)
            # The store must not hold the lock any longer than the holder may.
            ttl = max(bounds.MIN_TTL, min(ttl, ttl_for(max_hold)))
        encoded = self._encoded_holder if holder is None else bounds.encode_holder(holder)
        return ttl, encoded, 0 if floor is None else bounds.check_fence(floor, "floor")

    def _look_after(self, lease: LeaseState, ttl: float, *, renew: bool, max_hold: float | None) -> None:
        if max_hold is not None:
            lease.hold_until = lease.valid_until - trusted_for(ttl) + max_hold
            lease.extend(lease.valid_until)
        if renew:
            lease.renews = True
            self.watch(lease)

    def _check(self, lease: LeaseState) -> None:
        reason = lease.loss()
        if reason is not None:
            lease.end(reason)
            raise LeaseLost(lease.name, reason)

    def disown(self, name: str, token: str, ttl: float, error: BaseException) -> None:
        """Leave a grant that may still be in the store to the settler.

        On a connection that still answers, order settles it: what we ask next is done after what we
        asked before. Only if the store was silent may the request arrive later than the clean-up.
        """
        self._adopt(name, token, ttl, look_again=isinstance(error, StoreUnavailable))

    def _adopt(self, name: str, token: str, ttl: float, *, look_again: bool) -> None:
        if not self._settler_runs:
            self._settler_runs = True
            self.concurrency.background(self._settler.run)
        self._settler.adopt(Orphan(name, token, until=self.clock.now() + ttl, look_again=look_again))

    async def _insist(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to an idempotent question, asked until there is one or patience ends."""
        started_at = self.clock.now()
        tries = 0
        while True:
            tries += 1
            try:
                return await ask()
            except StoreUnavailable:
                left = started_at + self.patience - self.clock.now()
                if left <= 0:
                    raise
                await self.clock.sleep(min(left, self.retry.pause(tries, self.random.fraction())))
