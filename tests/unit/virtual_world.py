"""A world in virtual time: it drives core coroutines, which await nothing but their ports.

Nothing here waits. When every task is parked, the clock jumps to the next timer; when there is none, the
world names the task that is stuck, so a test of a hang fails at once.
"""

from __future__ import annotations

import heapq
import types
from collections import defaultdict, deque
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from leasehold.core.backoff import Backoff
from leasehold.core.engine import Engine
from leasehold.core.leases.lease import LeaseState
from leasehold.core.replies import DONE
from leasehold.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence

    from leasehold.core.replies import LeaseKey, LockWaiters, NotAfter, Notification, Renewal, Request


class CancelledHere(BaseException):
    """What `Task.cancel` throws into a coroutine, as asyncio would."""


class StuckError(AssertionError):
    """A task waits for a signal that never comes."""


@types.coroutine
def _park(register: Callable[[Callable[[], None]], None]) -> Generator[Any, None, None]:
    """Suspend until the `wake` that `register` is given is called."""
    yield register


class Task:
    """One running coroutine."""

    def __init__(self, world: World, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._world = world
        self._coroutine = coroutine
        self._ticket = 0
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def cancel(self) -> None:
        """Throw `CancelledHere` into the coroutine where it is parked."""
        self._ticket += 1
        self._world.ready.append(lambda: self.step(CancelledHere()))

    def step(self, error: BaseException | None = None) -> None:
        if self.is_done:
            return
        try:
            register = self._coroutine.throw(error) if error else self._coroutine.send(None)
        except StopIteration as done:
            self.is_done, self.result = True, done.value
        except BaseException as raised:  # noqa: BLE001 - raised where the task is awaited
            self.is_done, self.error = True, raised
        else:
            self._ticket += 1
            ticket = self._ticket
            register(lambda: self._wake(ticket))

    def _wake(self, ticket: int) -> None:
        if ticket == self._ticket:  # a wait that is over must not be woken
            self._ticket += 1
            self._world.ready.append(self.step)

    def close(self) -> None:
        self.is_done = True
        self._coroutine.close()


class World:
    """Implements the ports Clock, Random and Concurrency."""

    def __init__(self, start: float = 1_000.0) -> None:
        self.time = start
        self.jitter = 0.5
        self.ready: deque[Callable[[], None]] = deque()
        self.tasks: list[Task] = []
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._is_closed = False

    # Clock

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        assert seconds >= 0, f"asked to sleep for {seconds} s"
        await _park(lambda wake: self.call_at(self.time + seconds, wake))

    # Random

    def token(self) -> str:
        return f"{next(self._order):032x}"

    def fraction(self) -> float:
        return self.jitter

    # Concurrency

    def signal(self) -> VirtualSignal:
        return VirtualSignal(self)

    def background(self, loop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.start(loop())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.start(work)

    # What tests use

    def call_at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (when, next(self._order), what))

    def start(self, work: Coroutine[Any, Any, Any]) -> Task:
        """Run `work` beside the rest, from the next turn on."""
        task = Task(self, work)
        if self._is_closed:
            task.close()
            return task
        self.tasks.append(task)
        self.ready.append(task.step)
        return task

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs `work` to its end, however much virtual time it takes, and returns its result."""
        task = self.start(work)
        self._go(lambda: task.is_done)
        if not task.is_done:
            raise StuckError(f"{work!r} waits forever")
        if task.error is not None:
            raise task.error
        return task.result

    def advance(self, seconds: float) -> None:
        """Runs everything that is due within `seconds`."""
        until = self.time + seconds
        self._go(lambda: False, until)
        self.time = until

    def settle(self) -> None:
        """Runs everything that needs no time."""
        self.advance(0)

    def _go(self, is_enough: Callable[[], bool], until: float | None = None) -> None:
        while not is_enough():
            if self.ready:
                self.ready.popleft()()
                self._raise_bugs()
            elif self._timers and (until is None or self._timers[0][0] <= until):
                when, _, what = heapq.heappop(self._timers)
                self.time = max(self.time, when)
                what()
            else:
                return

    def _raise_bugs(self) -> None:
        """An error in a background task is a bug, and so is a failed assertion of a fake."""
        for task in self.tasks:
            if isinstance(task.error, AssertionError):
                raise task.error
        self.tasks = [task for task in self.tasks if not task.is_done]

    def close(self) -> None:
        self._is_closed = True
        for task in self.tasks:
            task.close()


class VirtualSignal:
    """Implements the port Signal."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._is_set = False
        self._waiters: list[Callable[[], None]] = []

    def set(self) -> None:
        self._is_set = True
        waiters, self._waiters = self._waiters, []
        for wake in waiters:
            wake()

    def clear(self) -> None:
        self._is_set = False

    async def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True

        def register(wake: Callable[[], None]) -> None:
            self._waiters.append(wake)
            if timeout is not None:
                self._world.call_at(self._world.time + max(timeout, 0), wake)

        await _park(register)
        return self._is_set


@dataclass(frozen=True)
class Call:
    """One call of the store."""

    verb: str
    at: float
    asked: dict[str, Any]


@dataclass(frozen=True)
class Later:
    """A delayed reply."""

    seconds: float
    answer: Any


NEVER = Later(float("inf"), None)
"""The store never replies."""


def granted(fence: int, remaining: float, receipt: str | None = None) -> Any:
    """The store's reply to an acquire or take that got the lock."""
    return fence, remaining, receipt


class ScriptedStore:
    """Implements the port Store with the replies that a test prepares, in order, then the usual one.

    A reply is a value, an exception, a `Later`, or a function of the arguments. For `renew` one reply
    stands for every lease of the batch.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._script: defaultdict[str, deque[Any]] = defaultdict(deque)
        self.usual: dict[str, Any] = {
            "renew": DONE,
            "shorten": DONE,
            "check": DONE,
            "release": DONE,
            "open": None,
        }
        self.calls: list[Call] = []
        self.keeps_order = True
        self.parts: dict[str, object] = {}
        self.notify: Callable[[Notification], None] = lambda _notification: None
        self.on_gap: Callable[[], None] = lambda: None

    def answer(self, verb: str, *answers: Any) -> None:
        self._script[verb].extend(answers)

    def asked(self, verb: str) -> list[Call]:
        return [call for call in self.calls if call.verb == verb]

    async def _reply(self, verb: str, **asked: Any) -> Any:
        self.calls.append(Call(verb, self._world.time, asked))
        script = self._script[verb]
        assert script or verb in self.usual, f"the test prepared no reply to {verb}({asked})"
        answer = script.popleft() if script else self.usual[verb]
        if callable(answer):
            answer = answer(asked)
        if isinstance(answer, Later):
            if answer is NEVER:
                await self._world.signal().wait()
            await self._world.sleep(answer.seconds)
            answer = answer.answer
        if isinstance(answer, BaseException) and not (
            verb in {"renew", "check"} and isinstance(answer, StoreError)
        ):
            raise answer
        return answer

    def part_of(self, name: str) -> object:
        return self.parts.get(name)

    async def open(self) -> None:
        await self._reply("open")

    def listen(self, tell: Callable[[Notification], None], on_gap: Callable[[], None]) -> None:
        self.notify = tell
        self.on_gap = on_gap

    async def acquire(
        self,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: str,
        wait: float | None,
    ) -> Any:
        return await self._reply(
            "acquire",
            name=name,
            token=token,
            ticket=ticket,
            ttl=ttl,
            floor=floor,
            holder=holder,
            mode=mode,
            wait=wait,
        )

    async def acquire_all(self, asks: Sequence[Request], not_after: NotAfter) -> Any:
        not_after.is_sent = True
        return await self._reply("acquire_all", asks=list(asks), not_after=not_after.at)

    async def look(self, lines: Sequence[LockWaiters]) -> Any:
        return await self._reply("look", lines=list(lines))

    async def page(self, pattern: str, cursor: int) -> Any:
        return await self._reply("page", pattern=pattern, cursor=cursor)

    async def renew(self, renewals: Sequence[Renewal]) -> Sequence[Any]:
        answer = await self._reply("renew", renewals=list(renewals))
        return answer if isinstance(answer, list) else [answer] * len(renewals)

    async def shorten(self, renewal: Renewal, not_after: NotAfter) -> Any:
        not_after.is_sent = True
        return await self._reply("shorten", renewal=renewal, not_after=not_after.at)

    async def check(self, leases: Sequence[LeaseKey]) -> Sequence[Any]:
        answer = await self._reply("check", leases=list(leases))
        return answer if isinstance(answer, list) else [answer] * len(leases)

    async def release(self, name: str, token: str, fence: int, receipt: str | None) -> Any:
        return await self._reply("release", name=name, token=token, fence=fence, receipt=receipt)

    async def take(
        self,
        name: str,
        token: str,
        ticket: int,
        ttl: float,
        floor: int,
        holder: str,
        mode: str,
        expect_fence: int | None,
        not_after: NotAfter,
    ) -> Any:
        not_after.is_sent = True
        return await self._reply(
            "take",
            name=name,
            token=token,
            ticket=ticket,
            ttl=ttl,
            floor=floor,
            holder=holder,
            mode=mode,
            expect_fence=expect_fence,
            not_after=not_after.at,
        )

    async def inspect(self, name: str) -> Any:
        return await self._reply("inspect", name=name)


RETRY = Backoff(first=0.01, cap=0.05)


def make_engine(world: World, store: ScriptedStore, *, timeout: float = 2.0) -> Engine[LeaseState]:
    """An engine in this world, wired as in a client."""
    return Engine(
        store,
        world,
        world,
        world,
        make_lease=LeaseState,
        holder=lambda: "tester",
        timeout=timeout,
        backoff=RETRY,
    )


def asking(**changed: Any) -> dict[str, Any]:
    """The arguments of `Engine.acquire` with their public defaults."""
    usual = {"ttl": 30, "wait": 5, "mode": "exclusive", "holder": None, "renew": False}
    return {**usual, "max_hold": None, "floor": None, **changed}


def taking(**changed: Any) -> dict[str, Any]:
    """The arguments of `Engine.take` with their public defaults."""
    arguments = asking(**{"expect_fence": None, **changed})
    del arguments["wait"]
    return arguments
