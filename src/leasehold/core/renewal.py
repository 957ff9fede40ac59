"""Keeping leases alive, and calling them lost in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.core.observer import outcome_of
from leasehold.core.replies import Done, Ended, Renewal
from leasehold.core.surprises import report_unexpected
from leasehold.core.timer_queue import Agenda
from leasehold.core.validation import MIN_TTL
from leasehold.core.validity import trusted_for, ttl_for
from leasehold.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.core.lease import LeaseState
    from leasehold.core.ports import Clock, Concurrency, Random, Signal, Store
    from leasehold.core.replies import RenewAnswer

# Renewals due within this many seconds of each other travel together.
_SLACK = 0.02
# So many renewals go out in one piece; more would keep other commands of the connection waiting.
_BATCH = 512
# Pauses between renewals that got no answer, as parts of the ttl: often enough to get several tries
# in before the deadline, rarely enough not to bury a store that is struggling.
_RETRY_PART = 1 / 12
_RETRY_AT_MOST = 1.0


class Keeper:
    """Renews every lease it watches at a third of its ttl, and tells each one once when it is lost.

    One coroutine serves all leases of a client, however many there are. A lease is *held* until its
    deadline, *unsure* after a renewal without an answer (it is tried again until the deadline), and
    *lost* when the store says so or the deadline has passed.
    """

    def __init__(self, store: Store, clock: Clock, random: Random, concurrency: Concurrency) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._concurrency = concurrency
        self._agenda: Agenda[LeaseState] = Agenda(
            clock,
            concurrency.signal(),
            is_live=lambda when, lease: lease.is_watched and lease.look_at == when,
            slack=_SLACK,
        )

    def watch(self, lease: LeaseState, *, granted: float | None = None) -> None:
        """Look after ``lease`` from now on: renew it if it wants that, and say when it is lost.

        ``granted`` is for how long it was granted or renewed last, if that is not its ttl.
        """
        lease.is_watched = True
        lease.is_due = False
        granted = granted or lease.ttl
        spent = trusted_for(granted) - granted / 3
        self._look_at(lease.valid_until - spent if lease.renews else lease.valid_until, lease)

    def look_now(self, lease: LeaseState) -> None:
        """Renew ``lease``, which was due while somebody else talked to the store about it."""
        if lease.is_watched:
            self._look_at(self._clock.now(), lease)

    async def forget(self, lease: LeaseState) -> None:
        """Neither renew ``lease`` nor call it lost any more. On return no renewal is under way."""
        lease.is_watched = False
        renewal = lease.exchange
        if renewal is not None:
            await renewal.wait()

    def stop(self) -> None:
        """End `run` soon."""
        self._agenda.stop()

    async def run(self) -> None:
        """Work until stopped. Leases that are still watched then are not kept any more, and hear of it."""
        try:
            while due := await self._agenda.due():
                now = self._clock.now()
                # Two entries for one moment are one renewal.
                to_renew = [lease for lease in dict.fromkeys(due) if self._wants_renewal(lease, now)]
                for start in range(0, len(to_renew), _BATCH):
                    self._start_renewing(to_renew[start : start + _BATCH])
        finally:
            for lease in self._agenda.drain():
                lease.end("expired")

    def _look_at(self, when: float, lease: LeaseState) -> None:
        lease.look_at = when
        self._agenda.put(when, lease)

    def _wants_renewal(self, lease: LeaseState, now: float) -> bool:
        """Whether to renew ``lease`` now. In any case it is either lost or looked at at its deadline."""
        if now >= lease.valid_until:
            lease.end(lease.loss() or "expired")
            return False
        # Also while a renewal is under way: a store that answers nothing must not keep the holder from
        # hearing that its lease has run out.
        self._look_at(lease.valid_until, lease)
        return lease.renews and lease.valid_until != lease.hold_until

    def _start_renewing(self, due: list[LeaseState]) -> None:
        # The turn is taken now and not when the task starts: a release in between must wait for us.
        mine = self._concurrency.signal()
        batch = [lease for lease in due if self._has_turn(lease, mine)]
        self._concurrency.spawn(self._renew(batch))

    def _has_turn(self, lease: LeaseState, mine: Signal) -> bool:
        """Whether the turn is ours; if not, whoever has it tells us when it is over."""
        # Noted before asking: the turn may be given back in another thread, which looks at this after that.
        lease.is_due = True
        if lease.begin_exchange(mine) is not mine:
            return False
        lease.is_due = False
        return True

    async def _renew(self, batch: list[LeaseState]) -> None:
        try:
            wanted = [lease for lease in batch if lease.is_watched]
            sent_at = self._clock.now()
            renewals = [renewal_of(lease, sent_at) for lease in wanted]
            answers = await self._ask(renewals) if wanted else ()
            for lease, renewal, answer in zip(wanted, renewals, answers, strict=True):
                if lease.is_watched:
                    self._note(lease, answer, sent_at + trusted_for(renewal.ttl))
        finally:
            for lease in batch:
                lease.end_exchange()

    async def _ask(self, renewals: list[Renewal]) -> Sequence[RenewAnswer]:
        try:
            return await self._store.renew(renewals)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the keeper
            report_unexpected(error)
            return [StoreUnavailable(f"renewing failed: {error}")] * len(renewals)

    def _note(self, lease: LeaseState, answer: RenewAnswer, valid_until: float) -> None:
        now = self._clock.now()
        if isinstance(answer, Ended):
            lease.tell_renewal("lost")
            lease.end(answer.value)
        elif now >= lease.valid_until:
            # The answer came too late: the lease has been lost meanwhile, and lost is for good.
            lease.tell_renewal("lost")
            lease.end(lease.loss() or "expired")
        elif isinstance(answer, Done):
            lease.extend(valid_until)
            self.watch(lease)
            lease.tell_renewal("success")
        else:
            lease.failures += 1
            pause = min(lease.ttl * _RETRY_PART, _RETRY_AT_MOST) * (0.5 + 0.5 * self._random.fraction())
            self._look_at(min(now + pause, lease.valid_until), lease)
            lease.tell_renewal(outcome_of(answer), answer)


def renewal_of(lease: LeaseState, now: float, ttl: float | None = None) -> Renewal:
    """What to ask the store for, so that the lease does not outlive its max_hold there either."""
    ttl = ttl or lease.ttl
    if lease.hold_until is not None:
        ttl = min(ttl, max(ttl_for(lease.hold_until - now), MIN_TTL))
    return Renewal(lease.name, lease.token, lease.fence, ttl)
