"""The machines on which clients run: each has its own clock, and each may pause or crash.

A `Machine` implements the ports Clock, Random and Concurrency for one client, on top of a universe (a plain
`tests.unit.virtual_world.World`) that all of them share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.unit.virtual_world import Task, World

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

# Timers fire a little late, as real ones; never early, whatever the rounding between two clocks.
_EARLIEST, _LATEST = 1e-6, 3e-4


class Machine(World):
    """The machine of one client. Its clock starts anywhere and runs a little too fast or too slow."""

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
        # Well inside the one percent of drift that validity allows.
        self._rate = rng.uniform(0.995, 1.005)
        self._is_closed = False

    @property
    def time(self) -> float:
        """The time of this machine's clock."""
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
        """Accepts every task: here all may run."""

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
        """Delivers a timer, a reply or a notification: late if the machine is paused, never if it has crashed."""
        if self.is_crashed:
            return
        if self.is_paused:
            self._backlog.append(what)
        else:
            what()

    def pause(self) -> None:
        """Pauses the machine. Its clock continues."""
        self.is_paused = True

    def resume(self) -> None:
        """Delivers everything that arrived during the pause, in any order."""
        if not self.is_paused or self.is_crashed:
            return
        self.is_paused = False
        backlog, self._backlog = self._backlog, []
        self._rng.shuffle(backlog)
        for what in backlog:
            what()

    def crash(self) -> None:
        """Stops the machine for good."""
        self.is_crashed = True

    def failures(self) -> list[BaseException]:
        """The errors of background tasks, which must not fail."""
        return [task.error for task in self.tasks if task.error is not None]
