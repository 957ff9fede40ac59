"""The verbs of a client over its ports: acquire, take, renew, release, inspect and list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core import validation
from leasehold.core.acquire import AcquireLoop, late_grant, trusted_grant
from leasehold.core.leases.lease import LeaseState
from leasehold.core.leases.lease_check import LeaseChecker
from leasehold.core.leases.release import release
from leasehold.core.leases.renewal import Renewer, renewal_of, send_renewal
from leasehold.core.not_after import NotAfterRetry
from leasehold.core.notifications import NotificationRouter
from leasehold.core.observer import Notes, Observers, Operation, observed
from leasehold.core.orphan_cleanup import Orphan, OrphanCleaner
from leasehold.core.replies import Done, Ended, Refusal, Request
from leasehold.core.validity import trusted_for, ttl_for
from leasehold.core.waiters import WaiterPoller
from leasehold.errors import InvalidRequest, LeaseLost, LockBusy, StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from leasehold.core.acquire import TrustedGrant
    from leasehold.core.backoff import Backoff
    from leasehold.core.observer import Kind, Verb
    from leasehold.core.ports import Clock, Concurrency, Random, Store
    from leasehold.core.replies import LockInfo, Mode, NotAfter
    from leasehold.errors import Holder

L = TypeVar("L", bound=LeaseState)
T = TypeVar("T")


class Engine(Generic[L]):
    """Implements the verbs of a client for locks of one ``kind``.

    ``generation`` counts forks: a lease of an earlier generation belongs to the parent process, and this one must
    neither use nor release it. ``notifications`` are those of another engine on the same transport, which listens
    for both.
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
        timeout: float,
        backoff: Backoff,
        notifications: NotificationRouter | None = None,
        kind: Kind = "lock",
        observers: Observers | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.observers = observers or Observers()
        self.store = store
        self.clock = clock
        self.concurrency = concurrency
        self.generation = 0
        self.random = random
        self._make_lease = make_lease
        self._default_holder = holder
        self.timeout = timeout
        self.backoff = backoff
        self._listens = notifications is None
        self.notifications = notifications or NotificationRouter()
        self._reset()

    def _reset(self) -> None:
        self.holder = self._default_holder()
        self._encoded_holder = validation.encode_holder(self.holder)
        self.renewer = Renewer(self.store, self.clock, self.random, self.concurrency)
        self.lease_checker = LeaseChecker(self.store, self.clock, self.random, self.concurrency)
        self._orphan_cleaner = OrphanCleaner(self.store, self.clock, self.concurrency, timeout=self.timeout)
        if self._listens:
            self.notifications.clear()
            self.store.listen(self.notifications.deliver, self.notifications.report_gap)
        self.waiter_poller = WaiterPoller(
            self.store, self.clock, self.random, self.concurrency, interval=self.backoff.cap
        )
        self._is_closed = False

    def after_fork(self) -> None:
        """In a child process: own no lease of the parent."""
        self.generation += 1
        self._reset()

    async def open(self) -> None:
        """Make sure that the store can be reached; `StoreError` with the reason if not."""
        await self.retry(self.store.open)

    def acquire(
        self,
        name: str,
        ttl: float,
        wait: float | None,
        mode: Mode,
        holder: Holder | None,
        renew: bool,  # noqa: FBT001 - by position, because this is the hot path
        max_hold: float | None,
        floor: int | None,
        retry_interval: float | None = None,
        token: str | None = None,
    ) -> Coroutine[Any, Any, L]:
        """Return a lease, or raise as `leasehold.core.acquire.AcquireLoop`.

        ``token`` is for callers that must know it before; it must not have been used in a request before.
        """
        # Handed out as it is, because a coroutine around it would cost more than all that is decided here.
        if self.observers.observer is None:
            return self._acquire(name, ttl, wait, mode, holder, renew, max_hold, floor, retry_interval, token)
        notes = Notes()
        return self.observed(
            "try_acquire" if wait == 0 else "acquire",
            name,
            lambda: self._acquire(
                name, ttl, wait, mode, holder, renew, max_hold, floor, retry_interval, token, notes
            ),
            mode=mode,
            notes=notes,
            undo=self.release_in_background,
        )

    async def _acquire(
        self,
        name: str,
        ttl: float,
        wait: float | None,
        mode: Mode,
        holder: Holder | None,
        renew: bool,  # noqa: FBT001 - as `acquire`
        max_hold: float | None,
        floor: int | None,
        retry_interval: float | None,
        token: str | None = None,
        notes: Notes | None = None,
    ) -> L:
        validation.check_request(name, ttl, wait, mode)
        if retry_interval is not None:
            validation.check_duration(retry_interval, "retry_interval")
        asked_ttl, encoded, least = ttl, self._encoded_holder, 0
        if max_hold is not None or holder is not None or floor is not None:
            asked_ttl, encoded, least = self.grant_terms(ttl, holder, max_hold, floor)
        token = token or self.random.token()
        ticket = self.notifications.new_ticket()
        # Read before the request is sent: a slow reply must shorten the lease, never lengthen it.
        sent_at = self.clock.now()
        loop: AcquireLoop | None = None
        lease: L | None = None
        try:
            try:
                reply = await self.store.acquire(name, token, ticket, asked_ttl, least, encoded, mode, wait)
            except BaseException as error:  # noqa: BLE001 - `AcquireLoop` decides, and raises what it does not handle
                reply = error
            grant = trusted_grant(reply, sent_at, self.clock.now())
            if grant is None:
                request = Request(name, token, ticket, asked_ttl, least, encoded, mode)
                loop = AcquireLoop(
                    self, request, wait, will_renew=renew, retry_interval=retry_interval, notes=notes
                )
                grant = await loop.run(reply, sent_at)
            # As `new_lease`, without the call.
            fence, valid_until, receipt, granted = grant
            lease = self._make_lease(
                self,
                name,
                token,
                fence,
                mode,
                self.holder if holder is None else holder,
                ttl,
                valid_until,
                receipt,
                ticket,
            )
            if notes is not None:
                lease.held_from, notes.fence = self.clock.now(), fence
            self.notifications.register(ticket, lease)
            if renew or max_hold is not None:
                self._start_renewal(lease, granted, renew=renew, max_hold=max_hold)
        except BaseException:
            if lease is not None:
                self._discard(lease)
            elif loop is None or not loop.has_cleaned_up:
                self._discard_grant(name, token, ticket, asked_ttl)
            raise
        return lease

    def take(
        self,
        name: str,
        ttl: float,
        mode: Mode,
        holder: Holder | None,
        renew: bool,  # noqa: FBT001 - as `acquire`
        max_hold: float | None,
        floor: int | None,
        expect_fence: int | None,
    ) -> Coroutine[Any, Any, L]:
        """Take the lock by force; `LockBusy` if its holder does not have ``expect_fence``."""
        notes = Notes()
        return self.observed(
            "take",
            name,
            lambda: self._take(name, ttl, mode, holder, renew, max_hold, floor, expect_fence, notes),
            mode=mode,
            notes=notes,
            undo=self.release_in_background,
        )

    def new_lease(
        self,
        name: str,
        token: str,
        ticket: int,
        mode: Mode,
        holder: Holder,
        ttl: float,
        grant: TrustedGrant,
        *,
        renew: bool,
        max_hold: float | None = None,
    ) -> L:
        """Return the lease for a grant of the store, registered and renewed if it wants that."""
        fence, valid_until, receipt, granted = grant
        lease: L | None = None
        try:
            lease = self._make_lease(
                self, name, token, fence, mode, holder, ttl, valid_until, receipt, ticket
            )
            if self.observers.observer is not None:
                lease.held_from = self.clock.now()
            self.notifications.register(ticket, lease)
            if renew or max_hold is not None:
                self._start_renewal(lease, granted, renew=renew, max_hold=max_hold)
        except BaseException:
            if lease is not None:
                self._discard(lease)
            raise
        return lease

    async def _take(
        self,
        name: str,
        ttl: float,
        mode: Mode,
        holder: Holder | None,
        renew: bool,  # noqa: FBT001 - as `acquire`
        max_hold: float | None,
        floor: int | None,
        expect_fence: int | None,
        notes: Notes,
    ) -> L:
        validation.check_request(name, ttl, None, mode)
        expected = None if expect_fence is None else validation.check_fence(expect_fence, "expect_fence")
        asked_ttl, encoded, least = self.grant_terms(ttl, holder, max_hold, floor)
        token = self.random.token()
        ticket = self.notifications.new_ticket()
        retry = NotAfterRetry(self)

        async def ask(not_after: NotAfter) -> TrustedGrant | Refusal:
            sent_at = self.clock.now()
            reply = await self.store.take(
                name, token, ticket, asked_ttl, least, encoded, mode, expected, not_after
            )
            if isinstance(reply, Refusal):
                return reply
            grant = trusted_grant(reply, sent_at, self.clock.now())
            if grant is None:
                raise late_grant(name, asked_ttl)
            return grant

        lease: L | None = None
        try:
            reply = await retry.run(ask)
            if isinstance(reply, Refusal):
                gone = f"{name!r} is no longer held by fence {expected}, and is free now"
                raise LockBusy(name, holder=reply.holder, message=None if reply.fence else gone)
            shown = self.holder if holder is None else holder
            lease = self.new_lease(
                name, token, ticket, mode, shown, ttl, reply, renew=renew, max_hold=max_hold
            )
            notes.fence = lease.fence
        except LockBusy:
            raise
        except BaseException as error:
            if lease is not None:
                self._discard(lease)
            was_silent = retry.was_silent or isinstance(error, StoreUnavailable)
            if was_silent or not isinstance(error, StoreRefused | InvalidRequest):
                self.schedule_cleanup(name, token, asked_ttl, was_silent=was_silent)
            raise
        return lease

    def renew(self, lease: LeaseState, ttl: float | None = None) -> Coroutine[Any, Any, None]:
        """Extend ``lease`` to ``ttl`` from now; `LeaseLost` if it has ended."""
        if self.observers.observer is None:
            return self._renew(lease, ttl)
        return self.observed("renew", lease.name, lambda: self._renew(lease, ttl), mode=lease.mode)

    async def _renew(self, lease: LeaseState, ttl: float | None) -> None:
        if ttl is not None:
            validation.check_ttl(ttl)
        self._check(lease)

        async def renew() -> None:
            valid_until = await self._ask_to_renew(lease, ttl)
            # Before the turn is given back: the renewer may be another thread, and must see the new ttl.
            lease.ttl = ttl or lease.ttl
            lease.extend(valid_until)
            if lease.is_watched:
                self.renewer.watch(lease)

        try:
            await lease.run_in_turn(renew)
        except BaseException:
            if lease.is_watched:  # an exception in `watch` may have left it without a timer
                self.renewer.watch(lease)
            raise

    async def _ask_to_renew(self, lease: LeaseState, ttl: float | None) -> float:
        """Return until when the lease can be trusted now."""
        valid_until = 0.0

        async def ask() -> Done | Ended:
            nonlocal valid_until
            self._check(lease)
            sent_at = self.clock.now()
            renewal = renewal_of(lease, sent_at, ttl)
            valid_until = sent_at + trusted_for(renewal.ttl)
            if valid_until < lease.valid_until:
                # Shorter from the moment it is asked for: the reply may never come.
                lease.valid_until = valid_until
                if lease.is_watched:
                    self.renewer.watch(lease)
                elif lease.lost_signal is not None:
                    self.watch(lease)  # a caller waits for its end, by the old deadline
            return await send_renewal(self.store, self.clock, lease, renewal, sent_at, self.timeout)

        reply = await self.retry(ask)
        if isinstance(reply, Ended):
            lease.end(reply.value)
        # A reply that came after the deadline does not bring a lost lease back: lost is final.
        self._check(lease)
        return valid_until

    def release(self, lease: LeaseState) -> Coroutine[Any, Any, None]:
        """Release ``lease``. Harmless when repeated; `LeaseLost` if it had been lost before.

        From this call on the lease no longer counts as held, whatever the reply: another client may have the lock
        before the reply arrives.
        """
        if self.observers.observer is None:
            return release(self, lease)
        return self.observed("release", lease.name, lambda: release(self, lease), mode=lease.mode)

    def release_in_background(self, lease: LeaseState) -> None:
        """Release ``lease`` without waiting for it: the orphan cleaner does it."""
        lease.is_watched = False
        if lease.ended is None:
            lease.end("released")
        self.schedule_cleanup(lease.name, lease.token, lease.ttl, was_silent=False)

    def _discard(self, lease: LeaseState) -> None:
        """Release a lease that its caller never got, because a signal handler raised."""
        # First, and without a call, so that nothing can come before it: no lease is renewed that no caller has.
        lease.renews = False
        self.release_in_background(lease)

    def _discard_grant(self, name: str, token: str, ticket: int, ttl: float) -> None:
        """Release a grant that the store may have made, without a lease in this client."""
        self.notifications.unregister(ticket)
        self.schedule_cleanup(name, token, ttl, was_silent=False)

    def abandon(self, lease: LeaseState) -> None:
        """Stop renewing ``lease`` without releasing it: it ends with its ttl."""
        lease.is_abandoned = True
        lease.renews = False
        if lease.is_watched:
            self.renewer.watch(lease)

    def watch(self, lease: LeaseState, *, granted: float | None = None) -> None:
        """Have ``lease`` renewed if it wants that, and ended when it is lost."""
        if not lease.is_watched:
            self.renewer.watch(lease, granted=granted)

    def is_holding(self, name: str) -> bool:
        """Return whether a lease of this client holds the lock."""
        return any(lease.is_for(self, name) for lease in self.notifications.recipients())

    async def inspect(self, name: str) -> LockInfo:
        """Return the public state of the lock."""
        validation.check_name(name)
        return await self.observed("inspect", name, lambda: self.retry(lambda: self.store.inspect(name)))

    async def page(self, pattern: str, cursor: object) -> tuple[object, Sequence[LockInfo]]:
        """Return the next cursor and some of the locks whose names match ``pattern``; cursor 0 begins and ends."""
        validation.check_pattern(pattern)
        return await self.observed(
            "list", pattern, lambda: self.retry(lambda: self.store.page(pattern, cursor))
        )

    async def close(self) -> None:
        """Stop renewing, after a bounded wait for the clean-up. Leases that are still held end with their ttl."""
        self._is_closed = True
        self.lease_checker.stop()
        try:
            self.waiter_poller.stop()
            await self._orphan_cleaner.wait_until_clean(self.timeout)
        finally:
            self.stop()

    def stop(self) -> None:
        """End the background work without waiting for anything."""
        self._is_closed = True
        self.renewer.stop()
        self.waiter_poller.stop()
        self.lease_checker.stop()
        self._orphan_cleaner.stop()

    def grant_terms(
        self, ttl: float, holder: Holder | None, max_hold: float | None, floor: int | None
    ) -> tuple[float, str, int]:
        """Check the arguments; return the ttl, the encoded holder and the least fence to ask the store for."""
        if max_hold is not None:
            validation.check_max_hold(max_hold)
            # The store must not hold the lock for longer than the holder may.
            ttl = max(validation.MIN_TTL, min(ttl, ttl_for(max_hold)))
        encoded = self._encoded_holder if holder is None else validation.encode_holder(holder)
        return ttl, encoded, 0 if floor is None else validation.check_fence(floor, "floor")

    def _start_renewal(
        self, lease: LeaseState, granted: float, *, renew: bool, max_hold: float | None
    ) -> None:
        if max_hold is not None:
            lease.hold_until = lease.valid_until - trusted_for(granted) + max_hold
            lease.extend(lease.valid_until)
        if renew:
            lease.renews = True
            self.watch(lease, granted=granted)

    def _check(self, lease: LeaseState) -> None:
        reason = lease.loss()
        if reason is not None:
            lease.end(reason)
            raise LeaseLost(lease.name, reason)

    def observed(
        self,
        verb: Verb,
        name: str,
        work: Callable[[], Coroutine[Any, Any, T]],
        *,
        mode: Mode | None = None,
        notes: Notes | None = None,
        undo: Callable[[T], None] | None = None,
    ) -> Coroutine[Any, Any, T]:
        """Do ``work`` as an operation that observers see; ``undo`` its result if they are interrupted."""
        operation = Operation(self.kind, verb, name, mode)
        return observed(self.observers, self.clock.now, operation, work, notes=notes, undo=undo)

    def schedule_cleanup(self, name: str, token: str, ttl: float, *, was_silent: bool) -> None:
        """Have the orphan cleaner release a grant that the store may hold.

        On a connection that still answers, one release is enough: the store handles it after the request. If the
        store was silent, or keeps no order, the request may arrive later than the release, which is then repeated.
        """
        self.add_orphan(name, token, ttl, look_again=was_silent or not self.store.keeps_order)

    def add_orphan(self, name: str, token: str, ttl: float, *, look_again: bool) -> None:
        """Have the orphan cleaner release a grant; ``look_again`` repeats it later."""
        if self._is_closed:
            return  # the cleaner has been stopped; the grant ends with its ttl
        self._orphan_cleaner.add(Orphan(name, token, until=self.clock.now() + ttl, look_again=look_again))

    async def retry(self, ask: Callable[[], Coroutine[Any, Any, T]], started_at: float | None = None) -> T:
        """Return the reply to an idempotent request, repeated until there is one or the timeout has passed."""
        give_up_at = self.timeout + (self.clock.now() if started_at is None else started_at)
        tries = 0
        while True:
            tries += 1
            try:
                return await ask()
            except StoreUnavailable:
                left = give_up_at - self.clock.now()
                if left <= 0:
                    raise
                await self.clock.sleep(min(left, self.backoff.pause(tries, self.random.fraction())))
