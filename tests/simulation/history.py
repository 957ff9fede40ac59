"""What happened in a run, in order: what the clients were told and did, and what was true in the store.

Times are the universe's, whatever a client's own clock showed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.simulation.model_lock import Observer

from leasehold.core.lease import LeaseState

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.machines import Machine
    from tests.simulation.model_lock import Lease, Party

    from leasehold.core.replies import Mode


@dataclass(frozen=True, slots=True)
class Event:
    at: float


@dataclass(frozen=True, slots=True)
class Arrived(Event):
    """The store does what a client asked. The changes that follow in the history are its doing."""

    client: int
    verb: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Joined(Event):
    name: str
    token: str
    client: int
    mode: Mode
    deadline: float


@dataclass(frozen=True, slots=True)
class AskedAgain(Event):
    name: str
    token: str
    deadline: float


@dataclass(frozen=True, slots=True)
class HeardOf(Event):
    """The store counts the client as alive, as far as this lock goes."""

    name: str
    client: int
    alive_until: float


@dataclass(frozen=True, slots=True)
class LeftQueue(Event):
    name: str
    token: str
    why: Literal["granted", "left", "dropped"]


@dataclass(frozen=True, slots=True)
class HoldBegan(Event):
    name: str
    token: str
    client: int
    mode: Mode
    fence: int
    until: float
    ttl: float
    is_claimed: bool


@dataclass(frozen=True, slots=True)
class HoldExtended(Event):
    name: str
    token: str
    until: float


@dataclass(frozen=True, slots=True)
class HoldEnded(Event):
    """By a release or a take; a hold that runs out does so silently, at its ``until``."""

    name: str
    token: str
    why: Literal["released", "taken"]


@dataclass(frozen=True, slots=True)
class Called(Event):
    """A worker begins to ask for a lock. ``wait`` is None for a call without a limit."""

    client: int
    call: int
    verb: str
    name: str
    wait: float | None


@dataclass(frozen=True, slots=True)
class Minted(Event):
    """The token that a call goes by."""

    client: int
    call: int
    token: str


@dataclass(frozen=True, slots=True)
class Returned(Event):
    """The end of a call: ``granted``, or the name of the exception that came out."""

    client: int
    call: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Believes(Event):
    """From now on the client takes the lease as held until then, unless it hears otherwise."""

    client: int
    name: str
    token: str
    mode: Mode
    fence: int
    until: float


@dataclass(frozen=True, slots=True)
class Disbelieves(Event):
    client: int
    name: str
    token: str
    reason: str


@dataclass(frozen=True, slots=True)
class Surprised(Event):
    """Something came out of the library that never should."""

    client: int
    what: str


class History(Observer):
    """Writes everything down."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.events: list[Event] = []
        self._clients: dict[str, int] = {}
        self._is_closed = False

    def know_channel(self, channel: str, client: int) -> None:
        self._clients[channel] = client

    def close(self) -> None:
        """Whatever the end of the universe itself brings about is not part of it."""
        self._is_closed = True

    def note(self, event: Event) -> None:
        if not self._is_closed:
            self.events.append(event)

    def arrived(self, client: int, verb: str, tokens: tuple[str, ...]) -> None:
        self.note(Arrived(self._now(), client, verb, tokens))

    def joined(self, name: str, party: Party) -> None:
        client = self._clients[party.channel]
        self.note(Joined(self._now(), name, party.token, client, party.mode, party.deadline_ms / 1000))

    def asked_again(self, name: str, party: Party) -> None:
        self.note(AskedAgain(self._now(), name, party.token, party.deadline_ms / 1000))

    def heard_of(self, name: str, channel: str, alive_until_ms: int) -> None:
        self.note(HeardOf(self._now(), name, self._clients[channel], alive_until_ms / 1000))

    def left(self, name: str, token: str, why: Literal["granted", "left", "dropped"]) -> None:
        self.note(LeftQueue(self._now(), name, token, why))

    def granted(self, name: str, lease: Lease) -> None:
        party = lease.party
        self.note(
            HoldBegan(
                self._now(),
                name,
                party.token,
                self._clients[party.channel],
                party.mode,
                lease.fence,
                lease.until_ms / 1000,
                party.ttl_ms / 1000,
                lease.is_claimed,
            )
        )

    def extended(self, name: str, lease: Lease) -> None:
        self.note(HoldExtended(self._now(), name, lease.token, lease.until_ms / 1000))

    def ended(self, name: str, token: str, why: Literal["released", "taken"]) -> None:
        self.note(HoldEnded(self._now(), name, token, why))


class WatchedLease(LeaseState):
    """A lease that writes down what its holder believes."""

    history: History
    machine: Machine

    @property
    def valid_until(self) -> float:
        return self._valid_until

    @valid_until.setter
    def valid_until(self, when: float) -> None:
        self._valid_until = when
        machine = self.machine
        self.history.note(
            Believes(
                machine.universe.time,
                machine.number,
                self.name,
                self.token,
                self.mode,
                self.fence,
                machine.universal(when),
            )
        )

    def on_end(self) -> None:
        assert self.ended is not None
        machine = self.machine
        self.history.note(
            Disbelieves(machine.universe.time, machine.number, self.name, self.token, self.ended)
        )


def watched_leases(history: History, machine: Machine) -> type[WatchedLease]:
    """The kind of lease that one client's engine makes."""
    return type("ClientLease", (WatchedLease,), {"history": history, "machine": machine})
