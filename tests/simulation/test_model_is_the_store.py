"""The model does what the scripts do: both get the same random requests of several clients, and must give the same replies

and notifications. Real time cannot be stopped, so both run on the server's clock, read just before and after each request.
Requests come at the beginning of time slots, and leases expire in the middle of one. If a request came
so late that it is unknown what had expired before it, its sequence ends there.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.simulation.model import ModelStore
from tests.simulation.store_comparison import DifferenceError, Fences, check_answers
from tests.simulation.stores import ServerWorld

from leasehold.core.replies import Granted, LockWaiters, NotAfter, Renewal, Request, Taken
from leasehold.runtime import clock

if TYPE_CHECKING:
    from tests.simulation.model import ModelClientStore
    from tests.simulation.stores import StoreClient

CLIENTS = 3
TOKENS = 7
# The claim window of two seconds ends in the middle of a slot as well.
SLOT = 2.0 / 10.5
LIVE = 4.5 * SLOT
TTLS = (0.5 * SLOT, 2.5 * SLOT, 5.5 * SLOT, 60.5 * SLOT)
WAITS = (0, 0, 1.5 * SLOT, 3.5 * SLOT, None)
# More than the difference between the two clocks when something expires.
DOUBT_MS = 40


class Sequence:
    """The requests of one seed, on locks of its own."""

    def __init__(self, seed: int, real_clients: list[StoreClient], length: int) -> None:
        self.seed = seed
        self._length = length
        self.steps = 0
        self._real_clients = real_clients
        self._rng = random.Random(f"agreement {seed}")
        self._now = 0.0
        self._model = ModelStore(lambda: self._now)
        self._clients: list[ModelClientStore] = []
        self._notifications: list[tuple[int, Any]] = []
        self._names = [f"{seed} {letter}" for letter in "ab"]
        self._modes = [self._rng.choice(("exclusive", "exclusive", "shared")) for _ in range(TOKENS)]
        self._fences = {name: Fences() for name in self._names}
        self._log: list[str] = []
        # The last fence that a token got, in the real store and in the model.
        self._last: dict[tuple[str, int], tuple[int, int]] = {}

    async def play(self) -> None:
        """Sends the requests, until an outcome is in doubt."""
        await self._read_clock()
        for number in range(CLIENTS):
            client = self._model.connect(live=LIVE)
            client.listen(
                lambda notification, number=number: self._notifications.append((number, notification)), list
            )
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
        except DifferenceError as error:
            told = "\n".join(self._log)
            raise AssertionError(f"seed {self.seed}, request {self.steps}: {error}\n{told}") from error

    async def _step(self) -> bool:
        """Sends one request to both; False if the right reply is in doubt."""
        name, client, verb, real, model = self._question()
        # Read before the model's clock is: after that, the model has dropped what has ended in between.
        deadlines = [deadline for each in self._names for deadline in self._model.lock(each).deadlines_ms()]
        await self._read_clock()
        before_ms = int(self._now * 1000)
        answer = await self._real_clients[client].do(verb, *real)
        after_ms = await self._server_ms()
        self._log.append(f"{before_ms % 1_000_000} client {client}: {verb}{real}")
        if _is_in_doubt(deadlines, before_ms, after_ms):
            return False
        expected = await getattr(self._clients[client], verb)(*model)
        self._log[-1] += f" -> {answer}"
        check_answers(answer, expected, self._fences[name])
        self._note_fences(name, client, verb, real, answer, expected)
        await self._check_notifications(name)
        return True

    def _note_fences(
        self, name: str, client: int, verb: str, real: tuple[Any, ...], answer: Any, expected: Any
    ) -> None:
        """Notes the fences that a reply has shown: a renewal must have the fence of its lease."""
        if verb in {"acquire", "take"} and type(answer) is tuple:
            self._last[name, real[2] - self._ticket(0)] = (answer[0], expected[0])
        elif verb == "acquire_all" and isinstance(answer, list):
            self._last[name, real[0][0].ticket - self._ticket(0)] = (answer[0][0], expected[0][0])
        elif verb == "look":
            (state,), (model_state,) = answer, expected
            numbers = range(client, TOKENS, CLIENTS)
            for number, place, model_place in zip(numbers, state.places, model_state.places, strict=True):
                if type(place) is tuple:
                    self._last[name, number] = (place[0], model_place[0])

    def _question(self) -> tuple[str, int, str, tuple[Any, ...], tuple[Any, ...]]:
        """Name, client, verb, and the arguments for the real store and the model, which have different fences."""
        rng = self._rng
        name, number = rng.choice(self._names), rng.randrange(TOKENS)
        client, mode = number % CLIENTS, self._modes[number]
        token, ticket, holder = self._token(number), self._ticket(number), f'"{number}"'
        fences = self._last.get((name, number), (0, 0))
        ttl = rng.choice(TTLS)
        in_time, model_in_time = [NotAfter(clock.now() + 60)], [NotAfter(self._now + 60)]
        match rng.choice(
            (
                *(*["acquire"] * 8, "look", "look", "renew", "shorten"),
                *(*["release"] * 4, "take", "all", "inspect"),
            )
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
            case "shorten":
                real, model = (Renewal(name, token, fence, ttl) for fence in fences)
                return name, client, "shorten", (real, *in_time), (model, *model_in_time)
            case "release":
                real, model = ((name, token, fence, None) for fence in fences)
                return name, client, "release", real, model
            case "take":
                expected = rng.choice((None, self._last.get((name, rng.randrange(TOKENS)), (1, 1))))
                real, model = (
                    (name, token, ticket, ttl, 0, holder, mode, expected and expected[side])
                    for side in (0, 1)
                )
                return name, client, "take", (*real, *in_time), (*model, *model_in_time)
            case "all":
                asks = [Request(name, token, ticket, ttl, 0, holder)]
                return name, client, "acquire_all", (asks, *in_time), (asks, *model_in_time)
            case _:
                return name, client, "inspect", (name,), (name,)

    async def _check_notifications(self, name: str) -> None:
        """Both have sent the same notifications to the same clients, in the same order."""
        # A notification that was published before the reply to a ping has arrived before it.
        for real_client in self._real_clients:
            await real_client.do("open")
        mine = range(self._ticket(0), self._ticket(TOKENS))
        for number, real_client in enumerate(self._real_clients):
            real = [notification for notification in real_client.notifications if notification.ticket in mine]
            model = [notification for told, notification in self._notifications if told == number]
            if [(type(notification), notification.ticket) for notification in real] != [
                (type(notification), notification.ticket) for notification in model
            ]:
                raise DifferenceError(f"notification for client {number}: {real}, not {model}")
            for one, other in zip(real, model, strict=True):
                assert isinstance(one, Granted | Taken)
                if isinstance(one, Granted):
                    check_answers(one, other, self._fences[name])
            real_client.notifications[:] = [
                notification for notification in real_client.notifications if notification.ticket not in mine
            ]
        self._notifications.clear()

    async def _read_clock(self) -> None:
        self._now = await self._server_ms() / 1000 + 0.0005  # in the middle of its millisecond

    async def _server_ms(self) -> int:
        connection = await self._real_clients[0].store._transport.get_connection()
        seconds, micros = await connection.call("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    def _token(self, number: int) -> str:
        return f"{self.seed:016x}{number:016x}"

    def _ticket(self, number: int) -> int:
        return 1_000_000 + self.seed * TOKENS + number


def _is_in_doubt(deadlines: list[int], before_ms: int, after_ms: int) -> bool:
    is_slow = after_ms - before_ms > DOUBT_MS / 2
    return is_slow or any(before_ms - DOUBT_MS <= due <= after_ms + DOUBT_MS for due in deadlines)


@pytest.mark.timeout(1_200)
async def test_the_model_replies_as_the_scripts_do(any_server, count):
    """On a busy machine many sequences end early, so there are as many as needed, and fewer at once."""
    length = count(full=40, quick=20)
    wanted = count(full=400, quick=15) * length / 2
    asked, seed, at_once = 0, 0, 20  # more would delay each other
    async with AsyncExitStack() as stack:
        world = ServerWorld(any_server, "async", stack)
        real_clients = [await world.connect(live=LIVE) for _ in range(CLIENTS)]
        while asked < wanted:
            together = [Sequence(seed + number, real_clients, length) for number in range(at_once)]
            outcomes = await asyncio.gather(*(each.play() for each in together), return_exceptions=True)
            failures = [outcome for outcome in outcomes if outcome is not None]
            assert not failures, f"{len(failures)} sequences disagree, one of them:\n{failures[0]}"
            answered = sum(sequence.steps for sequence in together)
            if answered < at_once * length / 4:
                at_once = max(4, at_once // 2)
            asked += answered
            seed += len(together)
    print(f"{asked} questions in {seed} sequences")
