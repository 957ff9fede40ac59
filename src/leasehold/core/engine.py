"""The verbs, once for everybody: what it takes to acquire, renew, release, take and inspect."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core import validation
from leasehold.core.acquire import Quest, Request, arrived_late, trusted_grant
from leasehold.core.background import is_first
from leasehold.core.lease import LeaseState
from leasehold.core.notifications import Tickets
from leasehold.core.observer import Lookout, Notes, Operation, observed
from leasehold.core.orphan_cleanup import Orphan, Settler
from leasehold.core.renewal import Keeper, renewal_of
from leasehold.core.replies import DONE, Ask, Done, Ended, Own, Refusal
from leasehold.core.validity import trusted_for, ttl_for
from leasehold.core.waiters import WaitingRoom
from leasehold.errors import InvalidRequest, LeaseLost, LockBusy, StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from leasehold.core.acquire import TrustedGrant
    from leasehold.core.backoff import Backoff
    from leasehold.core.observer import Kind, Verb
    from leasehold.core.ports import Clock, Concurrency, Random, Store
    from leasehold.core.replies import LockInfo, Mode
    from leasehold.errors import Holder, LossReason

L = TypeVar("L", bound=LeaseState)
T = TypeVar("T")


class Engine(Generic[L]):
    """All that a client does, over its ports.

    ``generation`` counts forks: a lease of an earlier generation belongs to the parent process, and
    this one must neither use it nor give it back. ``tickets`` are those of another engine on the same
    connection, which hears for both. Who watches is told of locks of this ``kind`` through the ``lookout``.
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
        tickets: Tickets | None = None,
        kind: Kind = "lock",
        lookout: Lookout | None = None,
    ) -> None:
        self.kind: Kind = kind
        self.lookout = lookout or Lookout()
        self.store = store
        self.clock = clock
        self.concurrency = concurrency
        self.generation = 0
        self.random = random
        self._make_lease = make_lease
        self._default_holder = holder
        self.patience = patience
        self.retry = retry
        self._listens = tickets is None
        self.tickets = tickets or Tickets()
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._holder = self._default_holder()
        self._encoded_holder = validation.encode_holder(self._holder)
        self._keeper = Keeper(self.store, self.clock, self.random, self.concurrency)
        self._settler = Settler(self.store, self.clock, self.concurrency, patience=self.patience)
        if self._listens:
            self.tickets.clear()
            self.store.listen(self.tickets.tell)
        self.room = WaitingRoom(
            self.store, self.clock, self.random, self.concurrency, interval=self.retry.cap
        )
        self._is_closed = False

    def after_fork(self) -> None:
        """In a child process: own nothing of what the parent holds."""
        self.generation += 1
        self._start_afresh()

    async def open(self) -> None:
        """Make sure that the store can be reached, or say why not."""
        await self.insist(self.store.open, self.clock.now())

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
        """A lease, or one of the exceptions that `leasehold.core.acquire.Quest` raises.

        ``token`` is for whoever must know it before; it must not have been asked with before.
        """
        # Handed out as it is, because a coroutine around it would cost more than all that is decided here.
        if self.lookout.observer is None:
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
            asked_ttl, encoded, least = self._terms(ttl, holder, max_hold, floor)
        token = token or self.random.token()
        ticket = self.tickets.new()
        # Read before the request is sent: a slow reply must shorten the lease, never lengthen it.
        sent_at = self.clock.now()
        try:
            answer = await self.store.acquire(name, token, ticket, asked_ttl, least, encoded, mode, wait)
        except BaseException as error:  # noqa: BLE001 - `Quest` decides, and raises what it does not handle
            answer = error
        grant = trusted_grant(answer, sent_at, self.clock.now())
        if grant is None:
            request = Request(name, token, ticket, asked_ttl, least, encoded, mode)
            quest = Quest(self, request, wait, will_renew=renew, retry_interval=retry_interval, notes=notes)
            grant = await quest.go_on(answer, sent_at)
        fence, valid_until, receipt, granted = grant
        lease = self._make_lease(
            self,
            name,
            token,
            fence,
            mode,
            self._holder if holder is None else holder,
            ttl,
            valid_until,
            receipt,
            ticket,
        )
        if notes is not None:
            lease.held_from, notes.fence = self.clock.now(), fence
        self.tickets.know(ticket, lease)
        if renew or max_hold is not None:
            self._look_after(lease, granted, renew=renew, max_hold=max_hold)
        return lease

    async def attempt_all(
        self,
        names: Sequence[str],
        ttl: float,
        holder: Holder | None,
        renew: bool,  # noqa: FBT001 - as `acquire`
        max_hold: float | None,
        floor: int | None,
        own: Mapping[str, Own] | None = None,
    ) -> list[L] | None:
        """A lease on each of ``names`` if all of them are free now, None if one is not.

        ``own`` is as in `leasehold.core.multi_lock.acquire_in_turn`.
        """
        asked_ttl, encoded, least = self._terms(ttl, holder, max_hold, floor)
        if own is None:
            shown = self._holder if holder is None else holder
            own = {name: Own(self.random.token(), shown) for name in names}
            encoded_of = dict.fromkeys(names, encoded)
        else:
            encoded_of = {name: validation.encode_holder(own[name].holder) for name in names}
        asks = [
            Ask(name, own[name].token, self.tickets.new(), asked_ttl, least, encoded_of[name])
            for name in names
        ]
        tries = 0

        async def ask() -> list[TrustedGrant] | None:
            nonlocal tries
            tries += 1
            sent_at = self.clock.now()
            answer = await self.store.acquire_all(asks)
            if isinstance(answer, str):
                return None
            grants = [trusted_grant(grant, sent_at, self.clock.now()) for grant in answer]
            if None in grants:
                raise arrived_late(names[grants.index(None)], asked_ttl)
            return [grant for grant in grants if grant]

        try:
            grants = await self.insist(ask, self.clock.now())
        except BaseException as error:
            # A no that comes after silence says nothing of the request before it.
            if tries > 1 or not isinstance(error, StoreRefused | InvalidRequest):
                for each in asks:
                    self.disown(each.name, each.token, asked_ttl, was_silent=True)
            raise
        if grants is None:
            if tries > 1:  # an earlier request, whose reply was lost, may have got them
                for each in asks:
                    self.disown(each.name, each.token, asked_ttl, was_silent=True)
            return None
        return [
            self.accept(
                each.name,
                each.token,
                each.ticket,
                "exclusive",
                own[each.name].holder,
                ttl,
                grant,
                renew=renew,
                max_hold=max_hold,
            )
            for each, grant in zip(asks, grants, strict=True)
        ]

    def take(
        self,
        name: str,
        *,
        ttl: float,
        mode: Mode,
        holder: Holder | None,
        renew: bool,
        max_hold: float | None,
        floor: int | None,
        expect_fence: int | None,
    ) -> Coroutine[Any, Any, L]:
        """A lease on a lock, whoever held it; `LockBusy` if that was not the holder of ``expect_fence``."""
        notes = Notes()
        return self.observed(
            "take",
            name,
            lambda: self._take(name, ttl, mode, holder, renew, max_hold, floor, expect_fence, notes),
            mode=mode,
            notes=notes,
        )

    def accept(
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
        """The lease for a grant of the store, whichever way it was got."""
        fence, valid_until, receipt, granted = grant
        lease = self._make_lease(self, name, token, fence, mode, holder, ttl, valid_until, receipt, ticket)
        self._welcome(lease)
        if renew or max_hold is not None:
            self._look_after(lease, granted, renew=renew, max_hold=max_hold)
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
        asked_ttl, encoded, least = self._terms(ttl, holder, max_hold, floor)
        token = self.random.token()
        ticket = self.tickets.new()
        tries = 0

        async def ask() -> TrustedGrant | Refusal:
            nonlocal tries
            tries += 1
            sent_at = self.clock.now()
            answer = await self.store.take(name, token, ticket, asked_ttl, least, encoded, mode, expected)
            if isinstance(answer, Refusal):
                return answer
            grant = trusted_grant(answer, sent_at, self.clock.now())
            if grant is None:
                raise arrived_late(name, asked_ttl)
            return grant

        try:
            answer = await self.insist(ask, self.clock.now())
        except BaseException as error:
            was_silent = tries > 1 or isinstance(error, StoreUnavailable)
            if was_silent or not isinstance(error, StoreRefused | InvalidRequest):
                self.disown(name, token, asked_ttl, was_silent=was_silent)
            raise
        if isinstance(answer, Refusal):
            gone = f"{name!r} is not held by fence {expected} any more, and nobody else holds it"
            raise LockBusy(name, holder=answer.holder, message=None if answer.fence else gone)
        fence, valid_until, receipt, granted = answer
        shown = self._holder if holder is None else holder
        lease = self._make_lease(self, name, token, fence, mode, shown, ttl, valid_until, receipt, ticket)
        notes.fence = fence
        self._welcome(lease)
        if renew or max_hold is not None:
            self._look_after(lease, granted, renew=renew, max_hold=max_hold)
        return lease

    def renew(self, lease: LeaseState, ttl: float | None = None) -> Coroutine[Any, Any, None]:
        """Extend ``lease`` to ``ttl`` from now; `LeaseLost` if there is nothing left to extend."""
        if self.lookout.observer is None:
            return self._renew(lease, ttl)
        return self.observed("renew", lease.name, lambda: self._renew(lease, ttl), mode=lease.mode)

    async def _renew(self, lease: LeaseState, ttl: float | None) -> None:
        if ttl is not None:
            validation.check_ttl(ttl)
        self._check(lease)
        mine = self.concurrency.signal()
        while (turn := lease.begin_exchange(mine)) is not mine:
            await turn.wait()
        try:
            valid_until = await self._ask_to_renew(lease, ttl)
            # Before the turn is given back: the keeper may be another thread, and must see the new ttl.
            lease.ttl = ttl or lease.ttl
            lease.extend(valid_until)
            if lease.is_watched:
                self._keeper.watch(lease)
        finally:
            lease.end_exchange()

    async def _ask_to_renew(self, lease: LeaseState, ttl: float | None) -> float:
        """Until when the lease can be trusted now."""
        valid_until = 0.0

        async def ask() -> Done | Ended:
            nonlocal valid_until
            self._check(lease)
            sent_at = self.clock.now()
            renewal = renewal_of(lease, sent_at, ttl)
            valid_until = sent_at + trusted_for(renewal.ttl)
            if valid_until < lease.valid_until:
                # Shorter from the moment it is asked for: the answer may never come.
                lease.valid_until = valid_until
                if lease.is_watched:
                    self._keeper.watch(lease)
                elif lease.lost_signal is not None:
                    self.watch(lease)  # somebody waits for its end, by the old deadline
            (answer,) = await self.store.renew([renewal])
            if isinstance(answer, Done | Ended):
                return answer
            raise answer

        answer = await self.insist(ask, self.clock.now())
        if isinstance(answer, Ended):
            lease.end(answer.value)
        # An answer that came after the deadline does not bring a lost lease back: lost is for good.
        self._check(lease)
        return valid_until

    def release(self, lease: LeaseState) -> Coroutine[Any, Any, None]:
        """Give ``lease`` back. Harmless when repeated; `LeaseLost` if it had been lost before.

        From the moment it is asked for, the lease does not count as held any more, whatever the answer:
        somebody else may have the lock before we hear of it.
        """
        if self.lookout.observer is None:
            return self._release(lease)
        return self.observed("release", lease.name, lambda: self._release(lease), mode=lease.mode)

    async def _release(self, lease: LeaseState) -> None:
        if not lease.is_ours:
            raise LeaseLost(lease.name, "released")
        if lease.is_watched or lease.exchange is not None or lease.is_releasing:
            await self._wait_for_others(lease)
        if lease.is_given_back:
            return
        is_repeated = lease.ended == "released"
        loss = lease.loss()
        if loss is not None and not is_repeated:
            lease.end(loss)
            if loss != "taken":
                # Nothing depends on it any more, so nobody needs to wait for it either.
                self._adopt(lease.name, lease.token, lease.ttl, look_again=False)
            raise LeaseLost(lease.name, loss)
        lease.end("released")
        lease.is_releasing = True
        started_at = self.clock.now()
        try:
            try:
                answer = await self.store.release(lease.name, lease.token, lease.fence, lease.receipt)
            except StoreUnavailable:
                if self.clock.now() >= started_at + self.patience:
                    raise
                answer = await self.insist(
                    lambda: self.store.release(lease.name, lease.token, lease.fence, None), started_at
                )
                # Gone when asked again means that the first request, whose reply was lost, has done it.
                answer = answer if answer is Ended.TAKEN else DONE
        except BaseException as error:
            self.disown(lease.name, lease.token, lease.ttl, was_silent=isinstance(error, StoreUnavailable))
            raise
        finally:
            lease.is_releasing = False
            if lease.exchange is not None:  # somebody else wants to release it too, and waits for us
                lease.end_exchange()
        if isinstance(answer, Ended) and not is_repeated:
            lease.turn_out_lost(answer.value)
            raise LeaseLost(lease.name, answer.value)
        lease.is_given_back = True

    async def _wait_for_others(self, lease: LeaseState) -> None:
        """Wait until nobody else talks to the store about ``lease``, and keep the keeper from starting."""
        try:
            if lease.is_releasing:
                await lease.begin_exchange(self.concurrency.signal()).wait()
            await self._keeper.forget(lease)
        except BaseException:
            # Nobody will release it after this, so the settler does.
            lease.end("released")
            self.disown(lease.name, lease.token, lease.ttl, was_silent=False)
            raise

    def renew_now(self, lease: LeaseState) -> None:
        """Have the keeper renew ``lease`` at once."""
        self._keeper.look_now(lease)

    def renounce(self, lease: LeaseState) -> None:
        """Give ``lease`` back without waiting for it: the settler does it."""
        if lease.ended is None:
            lease.end("released")
        self.disown(lease.name, lease.token, lease.ttl, was_silent=False)

    def abandon(self, lease: LeaseState) -> None:
        """Stop renewing ``lease`` without giving it back: it ends with its ttl."""
        lease.is_abandoned = True
        lease.renews = False
        if lease.is_watched:
            self._keeper.watch(lease)

    async def lost(self, lease: LeaseState, timeout: float | None = None) -> LossReason | None:
        """Wait until ``lease`` has ended, and say why; None if ``timeout`` seconds passed first.

        Relies on the clock alone for the deadline: a keeper that is stuck in a silent store is no help.
        """
        give_up_at = math.inf if timeout is None else self.clock.now() + timeout
        signal = lease.ensure_lost_signal(self.concurrency.signal())
        while (reason := lease.loss()) is None:
            left = min(lease.valid_until, give_up_at) - self.clock.now()
            if left <= 0 and give_up_at <= lease.valid_until:
                return None
            await signal.wait(max(left, 0))
        return reason

    def watch(self, lease: LeaseState, *, granted: float | None = None) -> None:
        """Have ``lease`` renewed if it wants that, and told when it is lost."""
        if is_first(self._keeper, "run"):
            self.concurrency.background(self._keeper.run)
        if not lease.is_watched:
            self._keeper.watch(lease, granted=granted)

    async def inspect(self, name: str) -> LockInfo:
        """Who holds the lock now."""
        validation.check_name(name)
        return await self.observed(
            "inspect", name, lambda: self.insist(lambda: self.store.inspect(name), self.clock.now())
        )

    async def page(self, pattern: str, cursor: int) -> tuple[int, Sequence[LockInfo]]:
        """Some of the locks whose names match ``pattern``, and where to go on; 0 begins and ends."""
        validation.check_pattern(pattern)
        return await self.observed(
            "list", pattern, lambda: self.insist(lambda: self.store.page(pattern, cursor), self.clock.now())
        )

    async def close(self) -> None:
        """Stop renewing, after a bounded wait for what is in doubt. Leases still held end with their ttl."""
        self._is_closed = True
        self.room.stop()
        try:
            await self._settler.all_clear(self.patience)
        finally:
            self._keeper.stop()
            self._settler.stop()

    def _terms(
        self, ttl: float, holder: Holder | None, max_hold: float | None, floor: int | None
    ) -> tuple[float, str, int]:
        """What to ask the store for: ttl, encoded holder, least fence. Checked, and nothing sent."""
        if max_hold is not None:
            validation.check_max_hold(max_hold)
            # The store must not hold the lock any longer than the holder may.
            ttl = max(validation.MIN_TTL, min(ttl, ttl_for(max_hold)))
        encoded = self._encoded_holder if holder is None else validation.encode_holder(holder)
        return ttl, encoded, 0 if floor is None else validation.check_fence(floor, "floor")

    def _welcome(self, lease: LeaseState) -> None:
        """Have a new lease hear the store's news; its hold begins now."""
        if self.lookout.observer is not None:
            lease.held_from = self.clock.now()
        self.tickets.know(lease.ticket, lease)

    def _look_after(self, lease: LeaseState, granted: float, *, renew: bool, max_hold: float | None) -> None:
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
    ) -> Coroutine[Any, Any, T]:
        """Do ``work``, and tell who watches."""
        operation = Operation(self.kind, verb, name, mode)
        return observed(self.lookout, self.clock.now, operation, work, notes=notes)

    def disown(self, name: str, token: str, ttl: float, *, was_silent: bool) -> None:
        """Leave a grant that may still be in the store to the settler.

        On a connection that still answers, order settles it: what we ask next is done after what we
        asked before. If the store was silent, or keeps no order, the request may arrive later than the
        clean-up, which then looks again.
        """
        self._adopt(name, token, ttl, look_again=was_silent or not self.store.keeps_order)

    def _adopt(self, name: str, token: str, ttl: float, *, look_again: bool) -> None:
        if self._is_closed:
            return  # nobody is left to do it; it ends with its ttl
        if is_first(self._settler, "run"):
            self.concurrency.background(self._settler.run)
        self._settler.adopt(Orphan(name, token, until=self.clock.now() + ttl, look_again=look_again))

    async def insist(self, ask: Callable[[], Coroutine[Any, Any, T]], started_at: float) -> T:
        """The answer to an idempotent question, asked until there is one or patience ends."""
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
