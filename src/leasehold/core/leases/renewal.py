"""Renews leases before they expire, and ends those that are lost."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from leasehold.core.background import BackgroundLoop, report_unexpected
from leasehold.core.not_after import first_allowance
from leasehold.core.observer import outcome_of
from leasehold.core.replies import Done, Ended, NotAfter, Renewal, TooLate
from leasehold.core.timer_queue import TimerQueue
from leasehold.core.validation import MIN_TTL
from leasehold.core.validity import trusted_for, ttl_for
from leasehold.errors import StoreError, StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.core.leases.lease import LeaseState
    from leasehold.core.ports import Clock, Concurrency, Random, Signal, Store
    from leasehold.core.replies import RenewReply

# Renewals due within this many seconds of each other are sent together.
_SLACK = 0.02
# The renewals of one batch; more would keep other commands of the connection waiting.
_BATCH = 512
# Pauses between renewals that got no reply, as parts of the ttl: short enough for several tries before the
# deadline, long enough not to bury a store that is struggling.
_RETRY_PART = 1 / 12
_RETRY_AT_MOST = 1.0


class Renewer:
    """Renews every watched lease at a third of its ttl, and ends each one when it is lost.

    One coroutine serves all leases of a client, however many there are. A lease is *held* until its deadline,
    *unsure* after a renewal without a reply (which is repeated until the deadline), and *lost* when the store says
    so or the deadline has passed.
    """

    def __init__(self, store: Store, clock: Clock, random: Random, concurrency: Concurrency) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._concurrency = concurrency
        self._timer_queue: TimerQueue[LeaseState] = TimerQueue(
            clock,
            concurrency.signal(),
            is_live=lambda when, lease: lease.is_watched and lease.check_at == when,
            slack=_SLACK,
        )
        self._loop = BackgroundLoop(concurrency, self.run)

    def watch(self, lease: LeaseState, *, granted: float | None = None) -> None:
        """Renew ``lease`` from now on if it wants that, and end it when it is lost.

        ``granted`` is the time for which it was granted or renewed last, if that is not its ttl.
        """
        self._loop.start()
        lease.is_watched = True
        lease.is_due = False
        granted = granted or lease.ttl
        spent = trusted_for(granted) - granted / 3
        self._schedule(lease.valid_until - spent if lease.renews else lease.valid_until, lease)

    def renew_now(self, lease: LeaseState) -> None:
        """Renew ``lease``, whose renewal was due while another request about it was under way."""
        if lease.is_watched:
            self._schedule(self._clock.now(), lease)

    def stop(self) -> None:
        """End `run` soon."""
        self._timer_queue.stop()

    async def run(self) -> None:
        """Work until stopped. Leases that are still watched then end, because nothing renews them after that."""
        try:
            while due := await self._timer_queue.due():
                now = self._clock.now()
                # Two entries of one lease are one renewal.
                parts: defaultdict[object, list[LeaseState]] = defaultdict(list)
                for lease in dict.fromkeys(due):
                    if self._wants_renewal(lease, now):
                        parts[self._store.part_of(lease.name)].append(lease)
                for part, to_renew in parts.items():
                    for start in range(0, len(to_renew), _BATCH):
                        self._start_batch(part, to_renew[start : start + _BATCH])
        finally:
            for lease in self._timer_queue.drain():
                lease.end("expired")

    def _schedule(self, when: float, lease: LeaseState) -> None:
        lease.check_at = when
        self._timer_queue.put(when, lease)

    def _wants_renewal(self, lease: LeaseState, now: float) -> bool:
        """Return whether to renew ``lease`` now. In any case it either ends, or is checked at its deadline."""
        if lease.ended is not None:
            lease.is_watched = False  # watched after its end, or in the same moment by another thread
            return False
        if now >= lease.valid_until:
            lease.end(lease.loss() or "expired")
            return False
        # Also while a renewal is under way: a silent store must not delay the end of a lease that has run out.
        self._schedule(lease.valid_until, lease)
        return lease.wants_renewal() and lease.valid_until != lease.hold_until

    def _start_batch(self, part: object, due: list[LeaseState]) -> None:
        # The turn is taken now and not when the task starts: a release in between must wait for us.
        mine = self._concurrency.signal()
        batch = [lease for lease in due if self._has_turn(lease, mine)]
        if part is None:
            self._concurrency.spawn(self._renew(batch, mine))
        else:
            # Also where `spawn` would wait for it: a part of the store that is silent must not delay the others.
            self._concurrency.background(lambda: self._renew(batch, mine))

    def _has_turn(self, lease: LeaseState, mine: Signal) -> bool:
        """Return whether the turn is ours; if not, the lease calls `renew_now` when it is over."""
        # Noted before asking: the turn may be given back in another thread, which looks at this after that.
        lease.is_due = True
        turns = lease.ensure_exchanges()
        turns.append(mine)
        if turns[0] is not mine:
            turns.remove(mine)
            if lease.is_due:  # if a signal handler raises before its caller calls `renew_now`
                self._schedule(self._retry_at(lease, self._clock.now()), lease)
            return False
        lease.is_due = False
        return True

    async def _renew(self, batch: list[LeaseState], mine: Signal) -> None:
        try:
            sent_at = self._clock.now()
            wanted = [lease for lease in batch if lease.is_watched and self._is_settled(lease, sent_at)]
            renewals = [renewal_of(lease, sent_at) for lease in wanted]
            replies = await self._ask(renewals) if wanted else ()
            for lease, renewal, reply in zip(wanted, renewals, replies, strict=True):
                if lease.is_watched:
                    self._record(lease, reply, sent_at + trusted_for(renewal.ttl))
        finally:
            for lease in batch:
                lease.ensure_exchanges().remove(mine)
            mine.set()
            for lease in batch:
                lease.make_up_for_renewal()

    def _is_settled(self, lease: LeaseState, now: float) -> bool:
        """Return whether no earlier request can shorten ``lease`` any more; if one can, it is renewed after that."""
        if lease.unsettled_until <= now:
            return True
        self._schedule(min(lease.unsettled_until, lease.valid_until), lease)
        return False

    async def _ask(self, renewals: list[Renewal]) -> Sequence[RenewReply]:
        try:
            return await self._store.renew(renewals)
        except Exception as error:  # noqa: BLE001 - no error may end the renewer
            report_unexpected(error)
            return [StoreUnavailable(f"renewing failed: {error}")] * len(renewals)

    def _record(self, lease: LeaseState, reply: RenewReply, valid_until: float) -> None:
        now = self._clock.now()
        if isinstance(reply, Ended):
            lease.report_renewal("lost")
            lease.end(reply.value)
        elif now >= lease.valid_until:
            # The reply came too late: the lease has been lost in the meantime, and lost is final.
            lease.report_renewal("lost")
            lease.end(lease.loss() or "expired")
        elif isinstance(reply, Done):
            lease.extend(valid_until)
            self.watch(lease)
            lease.report_renewal("success")
        else:
            lease.failures += 1
            self._schedule(self._retry_at(lease, now), lease)
            lease.report_renewal(outcome_of(reply), reply)

    def _retry_at(self, lease: LeaseState, now: float) -> float:
        pause = min(lease.ttl * _RETRY_PART, _RETRY_AT_MOST) * (0.5 + 0.5 * self._random.fraction())
        return min(now + pause, lease.valid_until)


def renewal_of(lease: LeaseState, now: float, ttl: float | None = None) -> Renewal:
    """Return the renewal to ask for: at most to the max_hold, so that the lease does not outlive it in the store."""
    ttl = ttl or lease.ttl
    if lease.hold_until is not None:
        ttl = min(ttl, max(ttl_for(lease.hold_until - now), MIN_TTL))
    known_until = max(lease.asked_until, lease.valid_until)
    lease.asked_until = max(known_until, now + ttl)
    return Renewal(lease.name, lease.token, lease.fence, ttl, now + ttl < known_until)


async def send_renewal(
    store: Store, clock: Clock, lease: LeaseState, renewal: Renewal, sent_at: float, timeout: float
) -> Done | Ended:
    """Send one renewal; raises `StoreError` if it is not known to be done.

    Only one that shortens the lease has a not-after: done after a later renewal, it would end that one early.
    """
    if renewal.shortens:
        return await _shorten(store, lease, renewal, sent_at, timeout)
    if lease.unsettled_until > sent_at:
        await clock.sleep(lease.unsettled_until - sent_at)
    (reply,) = await store.renew([renewal])
    if isinstance(reply, Done | Ended):
        return reply
    raise reply


async def _shorten(
    store: Store, lease: LeaseState, renewal: Renewal, sent_at: float, timeout: float
) -> Done | Ended:
    # A part of the ttl at most, because the next renewal waits until this one is settled.
    not_after = NotAfter(sent_at + min(first_allowance(timeout), renewal.ttl / 3))
    # Before it is sent: without a reply, or if the caller is cancelled, it may be done until then.
    unsettled_before = lease.unsettled_until
    lease.unsettled_until = max(unsettled_before, not_after.at)
    try:
        reply = await store.shorten(renewal, not_after)
    except StoreError as error:
        if isinstance(error, TooLate | StoreRefused) or not not_after.is_sent:
            lease.unsettled_until = unsettled_before
        raise
    lease.unsettled_until = unsettled_before
    lease.asked_until = sent_at + renewal.ttl
    return reply
