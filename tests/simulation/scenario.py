"""One run: a seed, and everything that follows from it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from tests.simulation.connections import FaultyLink
from tests.simulation.faults import Weather, draw_news_weather, draw_weather
from tests.simulation.history import History, Surprised, watched_leases
from tests.simulation.machines import Machine
from tests.simulation.model import ModelStore
from tests.simulation.workers import Worker
from tests.unit.virtual_world import World

from leasehold.core.backoff import Backoff
from leasehold.core.engine import Engine
from leasehold.core.waiters import alive_for

if TYPE_CHECKING:
    from tests.simulation.history import Event

START = 1_000.0
BUSY_FOR = 15.0
"""Seconds in which the workers begin new things and the weather may be bad."""
SETTLED_BY = 60.0
"""Seconds after which nobody may be waiting any more: everything has been released or has run out long ago."""
INTERVAL = 0.05
"""How often the clients look, the default of `leasehold.connect`."""
TIMEOUT = 1.0


@dataclass(frozen=True, slots=True)
class Run:
    """What happened, and what the checkers need to know of the circumstances."""

    seed: int
    events: list[Event]
    weather: list[Weather]
    ended_at: float


def play(seed: int, *, make_model: type[ModelStore] = ModelStore) -> Run:
    """Everything that happens with this seed."""
    rng = random.Random(f"{seed}")
    universe = World(start=START)
    history = History(universe.now)
    model = make_model(universe.now, observer=history)
    busy_until = START + BUSY_FOR
    names = ("a", "b")[: rng.choice((1, 2, 2))]
    news_weather = draw_news_weather(rng)
    is_calm = rng.random() < 0.15
    calls = count(1)
    machines: list[Machine] = []
    workers: list[Worker] = []
    weathers: list[Weather] = []
    for number in range(rng.choice((3, 3, 4, 4, 5, 6))):
        weather = Weather() if is_calm else draw_weather(rng, START, busy_until)
        machine = Machine(universe, number, random.Random(f"{seed} machine {number}"))
        store = model.connect(live=alive_for(INTERVAL))
        history.know_channel(store.channel, number)
        link = FaultyLink(
            machine,
            store,
            history,
            random.Random(f"{seed} link {number}"),
            weather=weather,
            news_weather=news_weather,
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
            )
            workers.append(worker)
            machine.start(worker.work())
        _expect(universe, machine, weather)
        machines.append(machine)
        weathers.append(weather)

    universe.advance(BUSY_FOR)
    alive = [worker for worker in workers if not worker.is_crashed]
    while universe.time < START + SETTLED_BY and not all(worker.is_done for worker in alive):
        universe.advance(1.0)
    # A little longer, for whatever is left to the settlers.
    universe.advance(3 * TIMEOUT)

    for machine in machines:
        for error in machine.failures():
            history.note(Surprised(universe.time, machine.number, f"a task died of {error!r}"))
    for worker in alive:
        if not worker.is_done:
            history.note(Surprised(universe.time, worker.client, "a worker waits for ever"))
    history.close()
    for machine in machines:
        machine.close()
    return Run(seed, history.events, weathers, universe.time)


def _expect(universe: World, machine: Machine, weather: Weather) -> None:
    """Have happen to the machine what its weather says."""
    for pause in weather.pauses:
        universe.call_at(pause.start, machine.pause)
        universe.call_at(pause.end, machine.resume)
    if weather.crashes_at is not None:
        universe.call_at(weather.crashes_at, machine.crash)
