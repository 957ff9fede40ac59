"""The verbs, once for everybody: what it takes to acquire, renew, release, take and inspect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from leasehold.core import bounds
from leasehold.core.acquiring import Attempt, acquire
from leasehold.core.answers import Done, Ended, Refusal
from leasehold.core.keeping import Keeper, renewal_of
from leasehold.core.lease import LeaseState
from leasehold.core.settling import Orphan, Settler
from leasehold.core.validity import trusted_for, ttl_for
from leasehold.errors import LeaseLost, LockBusy, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.answers import LockInfo
    from leasehold.core.backoff import Backoff
    from leasehold.core.ports import Clock, Concurrency, Random, Store
    from leasehold.errors import Holder, LossReason

L = TypeVar("L", bound=LeaseState)
L_co = TypeVar("L_co", bound=LeaseState, covariant=True)
T = TypeVar("T")


class LeaseMaker(Protocol[L_co]):
    """Makes the kind of lease that a client hands out; see `LeaseState` for the arguments."""

    def __call__(self, *args: Any) -> L_co: ...


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
        make_lease: LeaseMaker[L],
        holder: Callable[[], Holder],
        patience: float,
        retry: Backoff,
    ) -> None:
        self.store = store
        self.clock = clock
        self.concurrency = concurrency
        self.generation = 0
        self._random = random
        self._make_lease = make_lease
        self._default_holder = holder
        self._patience = patience
        self._retry = retry
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._holder = self._default_holder()
        self._encoded_holder = bounds.encode_holder(self._holder)
        self._keeper = Keeper(self.store, self.clock, self._random, self.concurrency)
        self._settler = Settler(self.store, self.clock, self.concurrency, patience=self._patience)
        self._keeper_runs = False
        self._settler_runs = False

    def after_fork(self) -> None:
        """In a child process: own nothing of what the parent holds."""
        self.generation += 1
        self._start_afresh()

    async def acquire(
        self,
        name: str,
        *,
        ttl: float,
        wait: float | None,
        mode: str,
        holder: Holder | None,
        renew: bool,
        max_hold: float | None,
        floor: int | None,
    ) -> L:
        """A lease, or one of the exceptions that `leasehold.core.acquiring.acquire` raises."""
        bounds.check_wait(wait)
        attempt, shown = self._attempt(name, ttl, mode, holder, max_hold, floor)
        try:
            fence, valid_until = await acquire(
                attempt,
                self.store,
                self.clock,
                self._random,
                wait=wait,
                patience=self._patience,
                retry=self._retry,
            )
        except BaseException as error:
            self._give_up(attempt, error)
            raise
        return self._lease(attempt, shown, ttl, fence, valid_until, renew=renew, max_hold=max_hold)

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
        attempt, shown = self._attempt(name, ttl, mode, holder, max_hold, floor)
        expected = None if expect_fence is None else bounds.check_floor(expect_fence)

        async def ask() -> tuple[int, float] | Refusal:
            attempt.is_unsettled = True
            attempt.asked_at = sent_at = self.clock.now()
            answer = await self.store.take(
                name,
                token=attempt.token,
                ttl=attempt.ttl,
                floor=attempt.floor,
                holder=attempt.holder,
                expect_fence=expected,
            )
            attempt.is_unsettled = False
            if isinstance(answer, Refusal):
                return answer
            return answer.fence, sent_at + trusted_for(answer.remaining)

        try:
            answer, _ = await self._insist(ask)
        except BaseException as error:
            self._give_up(attempt, error)
            raise
        if isinstance(answer, Refusal):
            raise LockBusy(name, holder=answer.holder)
        fence, valid_until = answer
        return self._lease(attempt, shown, ttl, fence, valid_until, renew=renew, max_hold=max_hold)

    async def renew(self, lease: LeaseState, ttl: float | None = None) -> None:
        """Extend ``lease`` to ``ttl`` from now; `LeaseLost` if there is nothing left to extend."""
        if ttl is not None:
            bounds.check_ttl(ttl)
        if lease.renewal is not None:
            # Two renewals at once, over two sockets, could be applied in either order.
            await lease.renewal.wait()

        async def ask() -> tuple[Done | Ended, float]:
            self._check(lease)
            sent_at = self.clock.now()
            renewal = renewal_of(lease, sent_at, ttl)
            (answer,) = await self.store.renew([renewal])
            if isinstance(answer, Done | Ended):
                return answer, sent_at + trusted_for(renewal.ttl)
            raise answer

        (answer, valid_until), _ = await self._insist(ask)
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
            if lease.generation == self.generation and loss != "taken":
                # Nothing depends on it any more, so nobody needs to wait for it either.
                self._adopt(lease, look_again=False)
            raise LeaseLost(lease.name, loss)
        try:
            answer, tries = await self._insist(
                lambda: self.store.release(lease.name, token=lease.token, fence=lease.fence)
            )
        except BaseException as error:
            self._adopt(lease, look_again=isinstance(error, StoreUnavailable))
            raise
        # Gone when asked again means that the earlier request, whose reply was lost, has done it.
        if isinstance(answer, Ended) and tries == 1:
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
        info, _ = await self._insist(lambda: self.store.inspect(name))
        return info

    async def open(self) -> None:
        """Make sure that the store can be reached, or say why not."""
        await self._insist(self.store.open)

    async def close(self) -> None:
        """Stop renewing, after a bounded wait for what is in doubt. Leases still held end with their ttl."""
        await self._settler.all_clear(self._patience)
        self._keeper.stop()
        self._settler.stop()

    def _attempt(
        self,
        name: str,
        ttl: float,
        mode: str,
        holder: Holder | None,
        max_hold: float | None,
        floor: int | None,
    ) -> tuple[Attempt, Holder]:
        """Everything checked, nothing sent."""
        bounds.check_name(name)
        bounds.check_ttl(ttl)
        bounds.check_mode(mode)
        if max_hold is not None:
            bounds.check_max_hold(max_hold)
            ttl = max(bounds.MIN_TTL, min(ttl, ttl_for(max_hold)))
        if holder is None:
            shown, encoded = self._holder, self._encoded_holder
        else:
            shown, encoded = holder, bounds.encode_holder(holder)
        least = 0 if floor is None else bounds.check_floor(floor)
        return Attempt(name, token=self._random.token(), ttl=ttl, floor=least, holder=encoded), shown

    def _lease(
        self,
        attempt: Attempt,
        holder: Holder,
        ttl: float,
        fence: int,
        valid_until: float,
        *,
        renew: bool,
        max_hold: float | None,
    ) -> L:
        lease = self._make_lease(
            self, attempt.name, attempt.token, fence, "exclusive", holder, ttl, valid_until, self.generation
        )
        if max_hold is not None:
            lease.hold_until = attempt.asked_at + max_hold
            lease.extend(valid_until)
        if renew:
            lease.renews = True
            self.watch(lease)
        return lease

    def _check(self, lease: LeaseState) -> None:
        reason = lease.loss()
        if reason is not None:
            lease.end(reason)
            raise LeaseLost(lease.name, reason)

    def _give_up(self, attempt: Attempt, error: BaseException) -> None:
        if attempt.is_unsettled:
            self._adopt(attempt, look_again=isinstance(error, StoreUnavailable))

    def _adopt(self, grant: Attempt | LeaseState, *, look_again: bool) -> None:
        """Leave a grant that may still be in the store to the settler.

        On a connection that still answers, order settles it: what we ask next is done after what we
        asked before. Only if the store was silent may the request arrive later than the clean-up.
        """
        if not self._settler_runs:
            self._settler_runs = True
            self.concurrency.background(self._settler.run)
        until = self.clock.now() + grant.ttl
        self._settler.adopt(Orphan(grant.name, grant.token, until=until, look_again=look_again))

    async def _insist(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, int]:
        """The answer to an idempotent question, and how often it was asked to get one."""
        started_at = self.clock.now()
        tries = 0
        while True:
            tries += 1
            try:
                return await ask(), tries
            except StoreUnavailable:
                left = started_at + self._patience - self.clock.now()
                if left <= 0:
                    raise
                await self.clock.sleep(min(left, self._retry.pause(tries, self._random.fraction())))
