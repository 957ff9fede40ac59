"""The users of a client: random calls on contended locks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.simulation.history import Called, Returned, TokenCreated, UnexpectedError
from tests.unit.virtual_world import CancelledHere

from leasehold.core.multi_lock import try_acquire_all
from leasehold.errors import LeaseLost, LockBusy, StoreUnavailable

if TYPE_CHECKING:
    import random
    from collections.abc import Coroutine
    from itertools import count

    from tests.simulation.history import History, WatchedLease
    from tests.simulation.machines import Machine

    from leasehold.core.engine import Engine

_EXPECTED = (LockBusy, LeaseLost, StoreUnavailable)
_TTLS = (0.3, 1.0, 2.5, 6.0, 15.0)
_WAITS = (0, 0.2, 1.5, 4.0, None)


@dataclass(frozen=True, slots=True)
class Habits:
    """How often users take locks by force or acquire all of them, and how often they renew by hand."""

    takes: float = 0.08
    renews: tuple[int, ...] = (0, 0, 0, 0, 1)


BUSY = Habits(takes=0.3, renews=(1, 3, 9))
"""Users of the verbs that are dangerous when they are delivered late."""


class Worker:
    """One user: acquires a lock, keeps it for a while, ends it in one of several ways, and starts again."""

    def __init__(
        self,
        engine: Engine[WatchedLease],
        machine: Machine,
        history: History,
        rng: random.Random,
        *,
        names: tuple[str, ...],
        until: float,
        calls: count[int],
        habits: Habits,
    ) -> None:
        self._habits = habits
        self._others: list[WatchedLease] = []
        self._engine = engine
        self._machine = machine
        self._history = history
        self._rng = rng
        self._names = names
        self._until = until
        self._calls = calls
        self.is_done = False

    @property
    def client(self) -> int:
        return self._machine.number

    @property
    def is_crashed(self) -> bool:
        return self._machine.is_crashed

    async def work(self) -> None:
        while self._machine.universe.time < self._until:
            await self._machine.sleep(self._rng.choice((0.0, 0.05, 0.5, 2.0)) * self._rng.random())
            self._others = []
            try:
                lease = await self._get_one()
                if lease is not None:
                    await self._use(lease)
                for other in self._others:
                    await self._engine.release(other)
            except _EXPECTED:
                pass  # as users do: try again
            except Exception as error:  # noqa: BLE001 - that is what the run is about
                self._note_unexpected(error)
            for other in self._others:
                self._engine.abandon(other)
        self.is_done = True

    async def _get_one(self) -> WatchedLease | None:
        rng, name = self._rng, self._rng.choice(self._names)
        mode = "shared" if rng.random() < 0.35 else "exclusive"
        ttl = rng.choice(_TTLS)
        renew = rng.random() < 0.5
        max_hold = rng.uniform(0.2, 4.0) if rng.random() < 0.15 else None
        if rng.random() < self._habits.takes:
            return await self._take(name, mode, ttl, renew=renew, max_hold=max_hold)
        if len(self._names) > 1 and rng.random() < self._habits.takes:
            return await self._call("lock_all", name, 0, self._lock_all(ttl, renew=renew), None)
        wait = rng.choice(_WAITS)
        asking = self._engine.acquire(name, ttl, wait, mode, None, renew, max_hold, None)
        cancel_after = rng.choice((0.001, 0.3, 2.0)) * rng.random() if rng.random() < 0.15 else None
        return await self._call("acquire", name, wait, asking, cancel_after)

    async def _lock_all(self, ttl: float, *, renew: bool) -> WatchedLease:
        """The first of the leases on all locks, acquired in one step; `_others` has the rest."""
        leases = await try_acquire_all(self._engine, self._names, ttl, None, renew, None, None)
        if leases is None:
            raise LockBusy(self._names[0])
        first, *self._others = leases
        return first

    async def _take(
        self, name: str, mode: Any, ttl: float, *, renew: bool, max_hold: float | None
    ) -> WatchedLease | None:
        expected: int | None = None
        if self._rng.random() < 0.6:
            expected = (await self._engine.inspect(name)).fence or 0
            await self._machine.sleep(self._rng.choice((0.0, 0.3)) * self._rng.random())
        taking = self._engine.take(
            name,
            ttl=ttl,
            mode=mode,
            holder=None,
            renew=renew,
            max_hold=max_hold,
            floor=None,
            expect_fence=expected,
        )
        return await self._call("take", name, 0, taking, None)

    async def _use(self, lease: WatchedLease) -> None:
        rng = self._rng
        await lease.wait_until_lost(rng.choice((0.001, 0.1, 1.0, 3.0)) * rng.random())
        for _ in range(rng.choice(self._habits.renews)):
            # Without a reply the lease is unchanged, and can still be released.
            with suppress(StoreUnavailable):
                await self._engine.renew(lease, rng.choice((None, *_TTLS)))
            await lease.wait_until_lost(rng.choice((0.1, 1.0)) * rng.random())
        match rng.choice(("release", "release", "release", "release", "abandon", "keep")):
            case "release":
                await self._engine.release(lease)
            case "abandon":
                self._engine.abandon(lease)
            case _:
                # Until it is taken or expires; a lease with renewal must end some time.
                await lease.wait_until_lost(5.0)
                self._engine.abandon(lease)

    async def _call(
        self,
        verb: str,
        name: str,
        wait: float | None,
        asking: Coroutine[Any, Any, WatchedLease],
        cancel_after: float | None,
    ) -> WatchedLease | None:
        """The lease that ``asking`` gets; None if it gets none, or is cancelled first."""
        machine, history, call = self._machine, self._history, next(self._calls)
        over = machine.signal()
        leases: list[WatchedLease] = []

        async def ask() -> None:
            history.note(Called(machine.universe.time, machine.number, call, verb, name, wait))
            machine.on_token = lambda token: history.note(
                TokenCreated(machine.universe.time, machine.number, call, token)
            )
            try:
                leases.append(await asking)
            except (*_EXPECTED, CancelledHere) as error:
                outcome = type(error).__name__
            except Exception as error:  # noqa: BLE001 - that is what the run is about
                self._note_unexpected(error)
                outcome = type(error).__name__
            else:
                outcome = "granted"
            history.note(Returned(machine.universe.time, machine.number, call, outcome))
            over.set()

        task = machine.start(ask())
        if cancel_after is not None:
            machine.call_at(machine.time + cancel_after, task.cancel)
        await over.wait()
        return leases[0] if leases else None

    def _note_unexpected(self, error: BaseException) -> None:
        self._history.note(UnexpectedError(self._machine.universe.time, self._machine.number, repr(error)))
