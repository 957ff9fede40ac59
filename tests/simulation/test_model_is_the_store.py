"""The model does what the scripts do: random questions by several clients, put to both, get the same answers and news.

Real time cannot be stopped, so both run on the server's clock, read just before and just after each question.
Questions come at the beginning of slots of time, and everything that runs out does so in the middle of one. If a
question came so late that it is anybody's guess what had run out by then, its sequence ends there.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.simulation.agreement import DisagreementError, Fences, check_answers
from tests.simulation.model import ModelStore
from tests.simulation.stores import ServerWorld

from leasehold.core.replies import Granted, LockWaiters, Renewal, Request, Taken

if TYPE_CHECKING:
    from tests.simulation.model import ModelClientStore
    from tests.simulation.stores import Teller

CLIENTS = 3
TOKENS = 7
# The claim window of two seconds ends in the middle of a slot as well.
SLOT = 2.0 / 10.5
LIVE = 4.5 * SLOT
TTLS = (0.5 * SLOT, 2.5 * SLOT, 5.5 * SLOT, 60.5 * SLOT)
WAITS = (0, 0, 1.5 * SLOT, 3.5 * SLOT, None)
# So far apart may the two clocks be when something runs out, and then some.
DOUBT_MS = 40


class Sequence:
    """One seed's questions, about locks of its own."""

    def __init__(self, seed: int, tellers: list[Teller], length: int) -> None:
        self.seed = seed
        self._length = length
        self.steps = 0
        self._tellers = tellers
        self._rng = random.Random(f"agreement {seed}")
        self._now = 0.0
        self._model = ModelStore(lambda: self._now)
        self._clients: list[ModelClientStore] = []
        self._news: list[tuple[int, Any]] = []
        self._names = [f"{seed} {letter}" for letter in "ab"]
        self._modes = [self._rng.choice(("exclusive", "exclusive", "shared")) for _ in range(TOKENS)]
        self._fences = {name: Fences() for name in self._names}
        self._told: list[str] = []
        # The last fence that a token got, in the real store and in the model.
        self._last: dict[tuple[str, int], tuple[int, int]] = {}

    async def play(self) -> None:
        """Ask until all is asked, or until an outcome is in doubt."""
        await self._read_clock()
        for number in range(CLIENTS):
            client = self._model.connect(live=LIVE)
            client.listen(lambda news, number=number: self._news.append((number, news)), list)
            self._clients.append(client)
        loop = asyncio.get_running_loop()
        started_at = loop.time()
        slot = 0
        try:
            for _ in range(self._length):
                if self._rng.random() < 0.4:
                    slot += self._rng.choice((1, 1, 1, 2, 3, 6))
                await asyncio.sleep(max(0.0, started_at + slot * SLOT - loop.time()))
                if not await self._step():
                    return
                self.steps += 1
        except DisagreementError as error:
            told = "\n".join(self._told)
            raise AssertionError(f"seed {self.seed}, question {self.steps}: {error}\n{told}") from error

    async def _step(self) -> bool:
        """Ask one question of both; False if it is not clear what the answer should have been."""
        name, client, verb, real, model = self._question()
        await self._read_clock()
        before_ms = int(self._now * 1000)
        answer = await self._tellers[client].do(verb, *real)
        after_ms = await self._server_ms()
        self._told.append(f"{before_ms % 1_000_000} client {client}: {verb}{real}")
        if self._is_in_doubt(before_ms, after_ms):
            return False
        expected = await getattr(self._clients[client], verb)(*model)
        self._told[-1] += f" -> {answer}"
        check_answers(answer, expected, self._fences[name])
        if verb in {"acquire", "take"} and type(answer) is tuple:
            self._last[name, real[2] - self._ticket(0)] = (answer[0], expected[0])
        await self._check_news(name)
        return True

    def _is_in_doubt(self, before_ms: int, after_ms: int) -> bool:
        deadlines = [deadline for name in self._names for deadline in self._model.lock(name).deadlines_ms()]
        is_slow = after_ms - before_ms > DOUBT_MS / 2
        return is_slow or any(before_ms - DOUBT_MS <= due <= after_ms + DOUBT_MS for due in deadlines)

    def _question(self) -> tuple[str, int, str, tuple[Any, ...], tuple[Any, ...]]:
        """Name, client, verb, and what to ask the real store and the model; they know different fences."""
        rng = self._rng
        name, number = rng.choice(self._names), rng.randrange(TOKENS)
        client, mode = number % CLIENTS, self._modes[number]
        token, ticket, holder = self._token(number), self._ticket(number), f'"{number}"'
        fences = self._last.get((name, number), (0, 0))
        ttl = rng.choice(TTLS)
        match rng.choice(
            (*["acquire"] * 8, "look", "look", "renew", *["release"] * 4, "take", "all", "inspect")
        ):
            case "acquire":
                terms = (name, token, ticket, ttl, 0, holder, mode, rng.choice(WAITS))
                return name, client, "acquire", terms, terms
            case "look":
                mine = [self._token(each) for each in range(client, TOKENS, CLIENTS)]
                return name, client, "look", ([LockWaiters(name, mine)],), ([LockWaiters(name, mine)],)
            case "renew":
                real, model = ([Renewal(name, token, fence, ttl)] for fence in fences)
                return name, client, "renew", (real,), (model,)
            case "release":
                real, model = ((name, token, fence, None) for fence in fences)
                return name, client, "release", real, model
            case "take":
                expected = rng.choice((None, self._last.get((name, rng.randrange(TOKENS)), (1, 1))))
                real, model = (
                    (name, token, ticket, ttl, 0, holder, mode, expected and expected[side])
                    for side in (0, 1)
                )
                return name, client, "take", real, model
            case "all":
                asks = [Request(name, token, ticket, ttl, 0, holder)]
                return name, client, "acquire_all", (asks,), (asks,)
            case _:
                return name, client, "inspect", (name,), (name,)

    async def _check_news(self, name: str) -> None:
        """Both have told the same clients the same things, in the same order."""
        # What was published before the answer to a ping has been heard by then.
        for teller in self._tellers:
            await teller.do("open")
        mine = range(self._ticket(0), self._ticket(TOKENS))
        for number, teller in enumerate(self._tellers):
            real = [news for news in teller.news if news.ticket in mine]
            model = [news for told, news in self._news if told == number]
            if [(type(news), news.ticket) for news in real] != [(type(news), news.ticket) for news in model]:
                raise DisagreementError(f"news for client {number}: {real}, not {model}")
            for one, other in zip(real, model, strict=True):
                assert isinstance(one, Granted | Taken)
                if isinstance(one, Granted):
                    check_answers(one, other, self._fences[name])
            teller.news[:] = [news for news in teller.news if news.ticket not in mine]
        self._news.clear()

    async def _read_clock(self) -> None:
        self._now = await self._server_ms() / 1000 + 0.0005  # in the middle of its millisecond

    async def _server_ms(self) -> int:
        connection = await self._tellers[0].store._transport.get_connection()
        seconds, micros = await connection.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def _token(self, number: int) -> str:
        return f"{self.seed:016x}{number:016x}"

    def _ticket(self, number: int) -> int:
        return 1_000_000 + self.seed * TOKENS + number


@pytest.mark.timeout(1_200)
async def test_the_model_answers_as_the_scripts_do(any_server, count):
    """On a busy machine many sequences end early, so there are as many as it takes, and fewer at once."""
    length = count(full=40, quick=20)
    wanted = count(full=400, quick=15) * length / 2
    asked, seed, at_once = 0, 0, 20  # more would make each other late
    async with AsyncExitStack() as stack:
        world = ServerWorld(any_server, "async", stack)
        tellers = [await world.connect(live=LIVE) for _ in range(CLIENTS)]
        while asked < wanted:
            together = [Sequence(seed + number, tellers, length) for number in range(at_once)]
            outcomes = await asyncio.gather(*(each.play() for each in together), return_exceptions=True)
            failures = [outcome for outcome in outcomes if outcome is not None]
            assert not failures, f"{len(failures)} sequences disagree, one of them:\n{failures[0]}"
            answered = sum(sequence.steps for sequence in together)
            if answered < at_once * length / 4:
                at_once = max(4, at_once // 2)
            asked += answered
            seed += len(together)
    print(f"{asked} questions in {seed} sequences")
