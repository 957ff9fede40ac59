"""One run: a seed, and the events that follow from it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from tests.simulation.connections import FaultyLink
from tests.simulation.faults import (
    ClientFaults,
    draw_client_faults,
    draw_clock_steps,
    draw_notification_faults,
)
from tests.simulation.history import History, UnexpectedError, watched_leases
from tests.simulation.machines import Machine
from tests.simulation.model import ModelStore
from tests.simulation.workers import BUSY, Habits, Worker
from tests.unit.virtual_world import World

from leasehold.core.backoff import Backoff
from leasehold.core.engine import Engine
from leasehold.core.waiters import alive_for

if TYPE_CHECKING:
    from tests.simulation.history import Event

START = 1_000.0
BUSY_FOR = 15.0
"""Seconds in which the workers start new calls and faults occur."""
SETTLED_BY = 150.0
"""Seconds after which no call may still wait: every lease was released or has expired long before."""
INTERVAL = 0.05
"""How often the clients poll, the default of `leasehold.connect`."""
TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """The events, and the circumstances that checks need."""

    seed: int
    events: list[Event]
    faults: list[ClientFaults]
    ended_at: float


def play(seed: int, *, make_model: type[ModelStore] = ModelStore) -> Run:
    """Runs this seed."""
    rng = random.Random(f"{seed}")
    universe = World(start=START)
    history = History(universe.now)
    model = make_model(history.server_time, observer=history)
    busy_until = START + BUSY_FOR
    for step in draw_clock_steps(rng, START, busy_until):
        universe.call_at(
            step.at,
            lambda by=step.by: model.step_clock(lambda: history.step_server_clock(by)),
        )
    names = ("a", "b")[: rng.choice((1, 2, 2))]
    notification_faults = draw_notification_faults(rng)
    is_calm = rng.random() < 0.15
    calls = count(1)
    machines: list[Machine] = []
    workers: list[Worker] = []
    all_faults: list[ClientFaults] = []
    for number in range(rng.choice((3, 3, 4, 4, 5, 6))):
        faults = ClientFaults() if is_calm else draw_client_faults(rng, START, busy_until)
        machine = Machine(universe, number, random.Random(f"{seed} machine {number}"))
        store = model.connect(live=alive_for(INTERVAL), clock=machine.now)
        history.know_channel(store.channel, number)
        link = FaultyLink(
            machine,
            store,
            history,
            random.Random(f"{seed} link {number}"),
            faults=faults,
            notification_faults=notification_faults,
            timeout=TIMEOUT,
            keeps_order=rng.random() < 0.7,
        )
        engine = Engine(
            link,
            machine,
            machine,
            machine,
            make_lease=watched_leases(history, machine),
            holder=lambda number=number: f"client {number}",
            timeout=TIMEOUT,
            backoff=Backoff(first=INTERVAL / 5, cap=INTERVAL),
        )
        for each in range(rng.choice((1, 1, 2, 3))):
            worker = Worker(
                engine,
                machine,
                history,
                random.Random(f"{seed} worker {number} {each}"),
                names=names,
                until=busy_until,
                calls=calls,
                habits=BUSY if faults.delivers_late else Habits(),
            )
            workers.append(worker)
            machine.start(worker.work())
        _expect(universe, machine, faults)
        machines.append(machine)
        all_faults.append(faults)

    universe.advance(BUSY_FOR)
    alive = [worker for worker in workers if not worker.is_crashed]
    while universe.time < START + SETTLED_BY and not all(worker.is_done for worker in alive):
        universe.advance(1.0)
    # A little longer, for the orphan cleanups.
    universe.advance(3 * TIMEOUT)

    for machine in machines:
        for error in machine.failures():
            history.note(UnexpectedError(universe.time, machine.number, f"a task died of {error!r}"))
    for worker in alive:
        if not worker.is_done:
            history.note(UnexpectedError(universe.time, worker.client, "a worker waits forever"))
    history.close()
    for machine in machines:
        machine.close()
    return Run(seed, history.events, all_faults, universe.time)


def _expect(universe: World, machine: Machine, faults: ClientFaults) -> None:
    """Schedules the machine's pauses and crash."""
    for pause in faults.pauses:
        universe.call_at(pause.start, machine.pause)
        universe.call_at(pause.end, machine.resume)
    if faults.crashes_at is not None:
        universe.call_at(faults.crashes_at, machine.crash)
