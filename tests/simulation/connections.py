"""The way between a client and the model, with its weather."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.faults import LATE_AT_MOST

from leasehold.core.sync_runner import run_sync
from leasehold.errors import StoreUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Sequence

    from tests.simulation.faults import Fate, NewsWeather, Weather
    from tests.simulation.history import History
    from tests.simulation.machines import Machine
    from tests.simulation.model import ModelClientStore

    from leasehold.core.replies import LeaseKey, LockInfo, LockWaiters, Notification, Renewal, Request

_SLOW_NEWS_AT_MOST = 4.0
_RECONNECTED_AFTER = 0.05


class FaultyLink:
    """Implements the port Store over a `ModelClientStore`.

    What is asked arrives in the order in which it was asked, and is answered in that order, except for what
    was in a connection that broke.
    """

    def __init__(
        self,
        machine: Machine,
        store: ModelClientStore,
        history: History,
        rng: random.Random,
        *,
        weather: Weather,
        news_weather: NewsWeather,
        timeout: float,
        keeps_order: bool,
    ) -> None:
        self.keeps_order = keeps_order
        self._machine = machine
        self._universe = machine.universe
        self._store = store
        self._history = history
        self._rng = rng
        self._weather = weather
        self._news_weather = news_weather
        self._timeout = timeout
        self._last_arrival = 0.0
        self._last_reply = 0.0
        self._on_gap: Callable[[], None] = lambda: None

    def listen(self, tell: Callable[[Notification], None], on_gap: Callable[[], None]) -> None:
        self._on_gap = on_gap
        self._store.listen(lambda news: self._send_news(news, tell), on_gap)

    async def open(self) -> None:
        await self._ask("open", (), self._store.open)

    async def acquire(self, name: str, token: str, *terms: Any) -> Any:
        return await self._ask("acquire", (token,), lambda: self._store.acquire(name, token, *terms))

    async def acquire_all(self, asks: Sequence[Request]) -> Any:
        tokens = tuple(ask.token for ask in asks)
        return await self._ask("acquire_all", tokens, lambda: self._store.acquire_all(asks))

    async def look(self, lines: Sequence[LockWaiters]) -> Any:
        tokens = tuple(token for line in lines for token in line.tokens)
        return await self._ask_for_each("look", tokens, lines, lambda: self._store.look(lines))

    async def renew(self, renewals: Sequence[Renewal]) -> Any:
        tokens = tuple(renewal.token for renewal in renewals)
        return await self._ask_for_each("renew", tokens, renewals, lambda: self._store.renew(renewals))

    async def check(self, leases: Sequence[LeaseKey]) -> Any:
        tokens = tuple(lease.token for lease in leases)
        return await self._ask_for_each("check", tokens, leases, lambda: self._store.check(leases))

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> Any:
        return await self._ask("release", (token,), lambda: self._store.release(name, token, fence, receipt))

    async def take(self, name: str, token: str, *terms: Any) -> Any:
        return await self._ask("take", (token,), lambda: self._store.take(name, token, *terms))

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
        """The answers to a batch, where an unknown outcome is an answer."""
        try:
            return await self._ask(verb, tokens, question)
        except StoreUnavailable as error:
            return [error] * len(asked)

    async def _ask(
        self, verb: str, tokens: tuple[str, ...], question: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        universe, machine = self._universe, self._machine
        fate = self._weather.fate(universe.time, self._rng)
        answered = machine.signal()
        answers: list[Any] = []

        def deliver(answer: Any) -> None:
            answers.append(answer)
            answered.set()

        def arrive() -> None:
            self._history.arrived(machine.number, verb, tokens)
            answer = run_sync(question())
            if fate in {"fine", "late"}:
                universe.call_at(self._reply_time(fate), lambda: machine.do(lambda: deliver(answer)))

        if fate == "cut":
            universe.call_at(universe.time + self._latency(), lambda: machine.do(answered.set))
            universe.call_at(universe.time + _RECONNECTED_AFTER, lambda: machine.do(self._on_gap))
        if fate != "request lost" and not (fate == "cut" and self._rng.random() < 0.5):
            universe.call_at(self._arrival_time(fate), arrive)
        if not await answered.wait(self._timeout):
            raise StoreUnavailable(f"no answer to {verb} within {self._timeout:g} s")
        if not answers:
            raise StoreUnavailable(f"the connection broke during {verb}")
        return answers[0]

    def _arrival_time(self, fate: Fate) -> float:
        now = self._universe.time
        if fate == "stray":
            return now + self._rng.uniform(0.0, self._timeout + LATE_AT_MOST)
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

    def _send_news(self, news: Notification, tell: Callable[[Notification], None]) -> None:
        rng, weather = self._rng, self._news_weather
        if rng.random() < weather.lost:
            return
        for _ in range(2 if rng.random() < weather.doubled else 1):
            is_late = rng.random() < weather.late
            delay = rng.uniform(0.0, _SLOW_NEWS_AT_MOST) if is_late else self._latency()
            self._universe.call_at(self._universe.time + delay, lambda: self._machine.do(lambda: tell(news)))
