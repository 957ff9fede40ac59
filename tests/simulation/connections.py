"""The connection between a client and the model, with faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.faults import LATE_AT_MOST, STRAY_FOR

from leasehold.core.replies import TooLate
from leasehold.core.sync_runner import run_sync
from leasehold.errors import StoreUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Sequence

    from tests.simulation.faults import ClientFaults, Fate, NotificationFaults
    from tests.simulation.history import History
    from tests.simulation.machines import Machine
    from tests.simulation.model import ModelClientStore

    from leasehold.core.replies import (
        LeaseKey,
        LockInfo,
        LockWaiters,
        NotAfter,
        Notification,
        Renewal,
        Request,
    )

_SLOW_NEWS_AT_MOST = 4.0
_RECONNECTED_AFTER = 0.05


class FaultyLink:
    """Implements the port Store over a `ModelClientStore`.

    Requests arrive in the order in which they were sent, and replies in that order, except for requests that
    were in a connection that broke.
    """

    def __init__(
        self,
        machine: Machine,
        store: ModelClientStore,
        history: History,
        rng: random.Random,
        *,
        faults: ClientFaults,
        notification_faults: NotificationFaults,
        timeout: float,
        keeps_order: bool,
    ) -> None:
        self.keeps_order = keeps_order
        self._machine = machine
        self._universe = machine.universe
        self._store = store
        self._history = history
        self._rng = rng
        self._faults = faults
        self._notification_faults = notification_faults
        self._timeout = timeout
        self._last_arrival = 0.0
        self._last_reply = 0.0
        self._on_gap: Callable[[], None] = lambda: None

    def part_of(self, name: str) -> object:
        return None

    def listen(self, tell: Callable[[Notification], None], on_gap: Callable[[], None]) -> None:
        self._on_gap = on_gap
        self._store.listen(lambda notification: self._send_notification(notification, tell), on_gap)

    async def open(self) -> None:
        await self._ask("open", (), self._store.open)

    async def acquire(self, name: str, token: str, *terms: Any) -> Any:
        return await self._ask("acquire", (token,), lambda: self._store.acquire(name, token, *terms))

    async def acquire_all(self, asks: Sequence[Request], not_after: NotAfter) -> Any:
        tokens = tuple(ask.token for ask in asks)
        return await self._ask_by(
            not_after, "acquire_all", tokens, lambda by_ms: self._store.acquire_all_by(by_ms, asks)
        )

    async def look(self, lines: Sequence[LockWaiters]) -> Any:
        tokens = tuple(token for line in lines for token in line.tokens)
        return await self._ask_for_each("look", tokens, lines, lambda: self._store.look(lines))

    async def renew(self, renewals: Sequence[Renewal]) -> Any:
        tokens = tuple(renewal.token for renewal in renewals)
        return await self._ask_for_each("renew", tokens, renewals, lambda: self._store.renew(renewals))

    async def shorten(self, renewal: Renewal, not_after: NotAfter) -> Any:
        return await self._ask_by(
            not_after, "shorten", (renewal.token,), lambda by_ms: self._store.shorten_by(by_ms, renewal)
        )

    async def check(self, leases: Sequence[LeaseKey]) -> Any:
        tokens = tuple(lease.token for lease in leases)
        return await self._ask_for_each("check", tokens, leases, lambda: self._store.check(leases))

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> Any:
        return await self._ask("release", (token,), lambda: self._store.release(name, token, fence, receipt))

    async def take(self, name: str, token: str, *terms: Any) -> Any:
        *others, not_after = terms
        return await self._ask_by(
            not_after, "take", (token,), lambda by_ms: self._store.take_by(by_ms, name, token, *others)
        )

    async def inspect(self, name: str) -> LockInfo:
        return await self._ask("inspect", (), lambda: self._store.inspect(name))

    async def page(self, pattern: str, cursor: int) -> tuple[int, Sequence[LockInfo]]:
        return await self._ask("page", (), lambda: self._store.page(pattern, cursor))

    async def _ask_for_each(
        self,
        verb: str,
        tokens: tuple[str, ...],
        asked: Sequence[object],
        question: Callable[[], Coroutine[Any, Any, Any]],
    ) -> Sequence[Any]:
        """The replies to a batch, in which an unknown outcome is a reply."""
        try:
            return await self._ask(verb, tokens, question)
        except StoreUnavailable as error:
            return [error] * len(asked)

    async def _ask_by(
        self,
        not_after: NotAfter,
        verb: str,
        tokens: tuple[str, ...],
        question: Callable[[int], Coroutine[Any, Any, Any]],
    ) -> Any:
        """The answer to a request that says now until when it may be done, whenever it arrives."""
        server_clock = self._store.server_clock
        by_ms = server_clock.to_ms(not_after.at)
        not_after.is_sent = True
        try:
            return await self._ask(verb, tokens, lambda: question(by_ms))
        except TooLate as late:
            server_clock.read(late.store_ms)
            raise

    async def _ask(
        self, verb: str, tokens: tuple[str, ...], question: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        universe, machine = self._universe, self._machine
        fate = self._faults.fate(universe.time, self._rng)
        answered = machine.signal()
        answers: list[Any] = []

        def deliver(answer: Any) -> None:
            answers.append(answer)
            answered.set()

        sent_at = universe.time

        def arrive() -> None:
            self._history.arrived(machine.number, verb, tokens, sent_at)
            try:
                answer = run_sync(question())
            except TooLate as late:
                answer = late
            if fate in {"fine", "late"}:
                universe.call_at(self._reply_time(fate), lambda: machine.do(lambda: deliver(answer)))

        if fate == "cut" or (fate == "stray" and self._rng.random() < 0.7):
            universe.call_at(universe.time + self._latency(), lambda: machine.do(answered.set))
            universe.call_at(universe.time + _RECONNECTED_AFTER, lambda: machine.do(self._on_gap))
        if fate != "request lost" and not (fate == "cut" and self._rng.random() < 0.5):
            universe.call_at(self._arrival_time(fate), arrive)
        if not await answered.wait(self._timeout):
            raise StoreUnavailable(f"no answer to {verb} within {self._timeout:g} s")
        if not answers:
            raise StoreUnavailable(f"the connection broke during {verb}")
        if isinstance(answers[0], TooLate):
            raise answers[0]
        return answers[0]

    def _arrival_time(self, fate: Fate) -> float:
        now = self._universe.time
        if fate == "stray":
            return now + self._rng.uniform(0.0, self._rng.choice(STRAY_FOR))
        delay = self._rng.uniform(0.0, LATE_AT_MOST) if fate == "late" else self._latency()
        arrival = now + delay
        if self.keeps_order:
            self._last_arrival = arrival = max(self._last_arrival, arrival)
        return arrival

    def _reply_time(self, fate: Fate) -> float:
        delay = self._rng.uniform(0.0, LATE_AT_MOST) if fate == "late" else self._latency()
        reply = self._universe.time + delay
        if self.keeps_order:
            self._last_reply = reply = max(self._last_reply, reply)
        return reply

    def _latency(self) -> float:
        return self._rng.uniform(0.0001, 0.003)

    def _send_notification(self, notification: Notification, tell: Callable[[Notification], None]) -> None:
        rng, faults = self._rng, self._notification_faults
        if rng.random() < faults.lost:
            return
        for _ in range(2 if rng.random() < faults.doubled else 1):
            is_late = rng.random() < faults.late
            delay = rng.uniform(0.0, _SLOW_NEWS_AT_MOST) if is_late else self._latency()
            self._universe.call_at(
                self._universe.time + delay, lambda: self._machine.do(lambda: tell(notification))
            )
