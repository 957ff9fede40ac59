"""The state of a lease, as its holder knows it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.core.leases.turns import run_in_turn
from leasehold.core.observer import LeaseEnded, LossFound, Renewed
from leasehold.core.replies import Taken
from leasehold.errors import Holder, LeaseLost, LossReason, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.engine import Engine
    from leasehold.core.observer import Outcome
    from leasehold.core.ports import Signal
    from leasehold.core.replies import Mode, Notification


T = TypeVar("T")

# The longest wait for the turn of another request about a lease, in timeouts: one that is repeated until the timeout
# has passed, connects anew in its last try, and is sent with the source of its script. More is a deadlock: a signal
# handler that calls a verb of the very lease whose request it has interrupted.
_TURN_TIMEOUTS = 5


class LeaseState:
    """One timed hold of a lock, judged on the holder's own clock.

    The core reads and writes this state; the public leases are subclasses that add the verbs. The lease is held
    until ``valid_until`` unless ``ended`` is set: the deadline was counted from before the request was sent, less
    drift, so the store cannot have granted the lock to another client before it.
    """

    # Most leases never need these, and class attributes cost nothing to initialise.
    hold_until: float | None = None
    ended: LossReason | None = None
    renews: bool = False
    is_watched: bool = False
    is_due: bool = False
    is_abandoned: bool = False
    is_releasing: bool = False
    is_given_back: bool = False
    check_at: float = 0.0
    # The latest end that was ever asked for, and until when an unanswered request may still shorten the lease.
    asked_until: float = 0.0
    unsettled_until: float = 0.0
    failures: int = 0
    held_from: float | None = None
    exchanges: list[Signal] | None = None
    """Those that send a request about the lease, in the order in which they came: the first is under way."""
    is_used_by_threads: bool = False
    """Whether it may be renewed and released by several threads at once."""
    release_ended: Signal | None = None
    lost_signal: Signal | None = None
    group_signal: Signal | None = None

    def __init__(
        self,
        engine: Engine[Any],
        name: str,
        token: str,
        fence: int,
        mode: Mode,
        holder: Holder,
        ttl: float,
        valid_until: float,
        receipt: str | None = None,
        ticket: int = 0,
    ) -> None:
        self._engine = engine
        self._generation = engine.generation
        self.name = name
        self.token = token
        self.fence = fence
        self.mode: Mode = mode
        self.holder = holder
        self.ttl = ttl
        self.valid_until = valid_until
        self.receipt = receipt
        self.ticket = ticket
        self._is_unreleased = True

    def __repr__(self) -> str:
        state = self.loss() or f"{self.remaining():.1f} s left"
        return f"<{type(self).__name__} {self.name!r} fence={self.fence} {state}>"

    @property
    def is_ours(self) -> bool:
        """Whether this process acquired the lease. A forked child owns none."""
        return self._generation == self._engine.generation

    def loss(self) -> LossReason | None:
        """Return why the lease is no longer held, None while it is."""
        engine = self._engine
        if (
            self.ended is None
            and self._generation == engine.generation
            and engine.clock.now() < self.valid_until
        ):
            return None
        if self.ended is not None:
            return self.ended
        if self._generation != engine.generation:
            return "released"  # as far as this process is concerned; it stays with the parent
        return "max_hold" if self.valid_until == self.hold_until else "expired"

    @property
    def is_lost(self) -> bool:
        """Whether the lease has ended, for any reason. Right even before the store has said so."""
        return self.loss() is not None

    is_over = is_lost

    @property
    def is_unsure(self) -> bool:
        """Whether the last renewal got no reply: the lease is held, but the store has not confirmed it."""
        return self.failures > 0 and not self.is_lost

    def remaining(self) -> float:
        """Return the seconds for which the lease can still be relied on; 0.0 once it is lost."""
        return 0.0 if self.is_lost else max(0.0, self.valid_until - self._engine.clock.now())

    def check(self) -> None:
        """Return if the lease is held at this moment, raise `LeaseLost` with the reason if not.

        It promises nothing about the next moment: only a resource that compares fences can refuse a
        holder who was paused right after checking.
        """
        reason = self.loss()
        if reason is not None:
            raise LeaseLost(self.name, reason)

    def ensure_exchanges(self) -> list[Signal]:
        """Return the queue of turns to send a request about this lease; see `leasehold.core.leases.turns`.

        Two renewals at once, over two sockets, could be applied in either order. Created in one atomic step, because
        the renewer of the blocking client is another thread.
        """
        exchanges = self.exchanges
        return self.__dict__.setdefault("exchanges", []) if exchanges is None else exchanges

    def run_in_turn(self, work: Callable[[], Coroutine[Any, Any, T]]) -> Coroutine[Any, Any, T]:
        """Run ``work``, which sends requests about the lease, while no other request about it is under way.

        `StoreUnavailable` if another one goes on for too long.
        """
        engine = self._engine
        return run_in_turn(
            self.ensure_exchanges(),
            engine.concurrency.signal(),
            work,
            clock=engine.clock,
            timeout=_TURN_TIMEOUTS * engine.timeout,
            too_late=self._no_turn,
            on_end=self.make_up_for_renewal,
        )

    def _no_turn(self) -> StoreUnavailable:
        at_most = _TURN_TIMEOUTS * self._engine.timeout
        return StoreUnavailable(
            f"another request about the lease of {self.name!r} has been under way for {at_most:g} s"
        )

    def make_up_for_renewal(self) -> None:
        """At the end of a turn: have the lease renewed if that was due during the turn."""
        if self.is_due:
            self.is_due = False
            self._engine.renewer.renew_now(self)

    async def wait_for_release(self) -> None:
        """Wait until a release that another task has under way ends."""
        if self.release_ended is None:
            self.release_ended = self._engine.concurrency.signal()
        await self.release_ended.wait()

    def is_first_release(self) -> bool:
        """Return True to the first of all callers, in one atomic step, because threads may release it at once."""
        # Not by `setdefault` of `__dict__`: once that exists, each access to an attribute of the lease takes longer.
        try:
            del self._is_unreleased
        except AttributeError:
            return False
        return True

    def end_release(self) -> None:
        """Wake those that wait for the end of a release."""
        ended, self.release_ended = self.release_ended, None
        if ended is not None:
            ended.set()

    def ensure_lost_signal(self, new: Signal) -> Signal:
        """Return the signal that is set at the end; ``new`` if there was none. Atomic, as `ensure_exchanges` is."""
        return self.__dict__.setdefault("lost_signal", new)

    def extend(self, valid_until: float) -> None:
        """Trust the lease until ``valid_until``, or until its max_hold if that comes first."""
        hold_until = self.hold_until
        self.valid_until = valid_until if hold_until is None else min(valid_until, hold_until)
        self.failures = 0

    def receive(self, notification: Notification) -> None:
        """Note what the store said about this lease."""
        if isinstance(notification, Taken):
            self.end("taken")

    def receive_early(self, notification: Notification) -> None:
        """End, and have the token released: what was taken may have been an earlier grant for it, whose reply was lost."""
        self.receive(notification)
        if self.ended is not None:
            self._engine.add_orphan(self.name, self.token, self.ttl, look_again=False)

    def is_for(self, engine: object, name: str) -> bool:
        """Return whether this is a lease of ``engine`` that holds the lock."""
        return self.name == name and self._engine is engine and not self.is_over

    def after_gap(self) -> None:
        """Have the store asked, because a notification may have been missed."""
        if not self.is_over:
            self._engine.lease_checker.add(self)

    def end(self, reason: LossReason) -> None:
        """Note the end of the lease, once, and wake those that wait for it."""
        if self.ended is None:
            self.ended = reason
            self.is_watched = False
            self._engine.notifications.unregister(self.ticket)
            if self.lost_signal is not None:
                self.lost_signal.set()
            if self.group_signal is not None:
                self.group_signal.set()
            self.on_end()
            observer = self._engine.observers.observer
            if observer is not None and self.is_ours:
                held = None if self.held_from is None else self._engine.clock.now() - self.held_from
                observer.hear(LeaseEnded(self._engine.kind, self.name, self.fence, reason, held))

    def report_loss(self, reason: LossReason) -> None:
        """Note that the lease had been lost already when it was released."""
        self.ended = reason
        observer = self._engine.observers.observer
        if observer is not None:
            observer.hear(LossFound(self._engine.kind, self.name, self.fence, reason))

    def report_renewal(self, outcome: Outcome, error: Exception | None = None) -> None:
        """Tell the observers of a renewal in the background."""
        observer = self._engine.observers.observer
        if observer is not None:
            observer.hear(Renewed(self._engine.kind, self.name, outcome, error))

    def wants_renewal(self) -> bool:
        """Return whether to renew the lease now."""
        return self.renews

    def on_end(self) -> None:
        """For subclasses: called when the lease has ended."""

    async def wait_until_lost(self, timeout: float | None = None) -> LossReason | None:
        """Wait until the lease has ended and return the reason; None if ``timeout`` seconds pass first.

        Relies on the clock alone for the deadline, because the renewer may be stuck in a silent store.
        """
        clock = self._engine.clock
        give_up_at = math.inf if timeout is None else clock.now() + timeout
        signal = self.ensure_lost_signal(self._engine.concurrency.signal())
        while (reason := self.loss()) is None:
            left = min(self.valid_until, give_up_at) - clock.now()
            if left <= 0 and give_up_at <= self.valid_until:
                return None
            await signal.wait(max(left, 0))
        return reason
