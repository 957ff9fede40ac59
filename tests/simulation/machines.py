"""The machines that clients run on: each with its own clock, and each may stand still or die.

A `Machine` implements the ports Clock, Random and Concurrency for one client, on top of a universe (a plain
`tests.unit.virtual_world.World`) that all of them share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.virtual_world import Task, World

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

# Timers come a little late, as they do; never early, whatever the conversion between two clocks rounds off.
_EARLIEST, _LATEST = 1e-6, 3e-4


class Machine(World):
    """One client's world. Its clock starts anywhere and runs a little too fast or too slow."""

    def __init__(self, universe: World, number: int, rng: random.Random) -> None:
        self.universe = universe
        self.number = number
        self.ready = universe.ready
        self.tasks: list[Task] = []
        self.is_paused = False
        self.is_crashed = False
        self.on_token: Callable[[str], None] = lambda _token: None
        self._rng = rng
        self._backlog: list[Callable[[], None]] = []
        self._minted = 0
        self._offset = rng.uniform(-500.0, 50_000.0)
        # Well inside the one percent that validity allows for, so that it must allow for it.
        self._rate = rng.uniform(0.995, 1.005)
        self._is_closed = False

    @property
    def time(self) -> float:
        """What this machine's clock shows."""
        return self._offset + self.universe.time * self._rate

    def universal(self, when: float) -> float:
        """The universe's time at which this machine's clock shows ``when``."""
        return (when - self._offset) / self._rate

    def token(self) -> str:
        self._minted += 1
        token = f"{self.number:02x}{self._minted:030x}"
        self.on_token(token)
        return token

    def fraction(self) -> float:
        return self._rng.random()

    def check(self) -> None:
        """Everything may run here."""

    def call_at(self, when: float, what: Callable[[], None]) -> None:
        late = self._rng.uniform(_EARLIEST, _LATEST)
        self.universe.call_at(self.universal(when) + late, lambda: self.do(what))

    def start(self, work: Coroutine[Any, Any, Any]) -> Task:
        task = Task(self, work)
        if self._is_closed:
            task.close()
        else:
            self.tasks.append(task)
            self.ready.append(task.step)
        return task

    def do(self, what: Callable[[], None]) -> None:
        """Let something reach this machine: a timer, a reply, news. Late if it stands still, never if it is dead."""
        if self.is_crashed:
            return
        if self.is_paused:
            self._backlog.append(what)
        else:
            what()

    def pause(self) -> None:
        """Stand still. The clock goes on."""
        self.is_paused = True

    def resume(self) -> None:
        """Find everything at once that has arrived meanwhile, in any order."""
        if not self.is_paused:
            return
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        self._rng.shuffle(backlog)
        for what in backlog:
            what()

    def crash(self) -> None:
        """Never be heard of again."""
        self.is_crashed = True

    def failures(self) -> list[BaseException]:
        """What ended tasks that nobody watches; they must not fail."""
        return [task.error for task in self.tasks if task.error is not None]
