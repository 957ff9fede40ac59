"""The events of a run, in order: the replies and actions of clients, and the state of the store.

Times are of the universe's clock, not of a client's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.simulation.model_lock import Observer

from leasehold.core.leases.lease import LeaseState

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
    """The store executes a client's request. The changes that follow in the history are its effects."""

    client: int
    verb: str
    tokens: tuple[str, ...]
    sent_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ClockStepped(Event):
    """The server's clock was set forward, or back if ``by`` is negative. The new ends of holds follow."""

    by: float


@dataclass(frozen=True, slots=True)
class HoldShifted(Event):
    """A hold ends at another moment, because the server's clock was set."""

    name: str
    token: str
    until: float


@dataclass(frozen=True, slots=True)
class Joined(Event):
    name: str
    token: str
    client: int
    mode: Mode
    deadline: float


@dataclass(frozen=True, slots=True)
class AcquireRepeated(Event):
    name: str
    token: str
    deadline: float


@dataclass(frozen=True, slots=True)
class SeenAlive(Event):
    """The store counts the client as alive for this lock."""

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
    """A release or a take. A hold that expires has no event; it ends at its ``until``."""

    name: str
    token: str
    why: Literal["released", "taken"]


@dataclass(frozen=True, slots=True)
class Called(Event):
    """A worker starts to acquire a lock. ``wait`` is None for a call without a limit."""

    client: int
    call: int
    verb: str
    name: str
    wait: float | None


@dataclass(frozen=True, slots=True)
class TokenCreated(Event):
    """The token of a call."""

    client: int
    call: int
    token: str


@dataclass(frozen=True, slots=True)
class Returned(Event):
    """The end of a call: ``granted``, or the name of the exception."""

    client: int
    call: int
    outcome: str


@dataclass(frozen=True, slots=True)
class CountsAsHeld(Event):
    """From now on the client counts the lease as held until ``until``, unless it is notified of its end."""

    client: int
    name: str
    token: str
    mode: Mode
    fence: int
    until: float


@dataclass(frozen=True, slots=True)
class CountsAsEnded(Event):
    client: int
    name: str
    token: str
    reason: str


@dataclass(frozen=True, slots=True)
class UnexpectedError(Event):
    """The library raised an error that it must never raise."""

    client: int
    what: str


class History(Observer):
    """Records all events."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._server_ahead = 0.0
        self.events: list[Event] = []
        self._clients: dict[str, int] = {}
        self._is_closed = False

    def know_channel(self, channel: str, client: int) -> None:
        self._clients[channel] = client

    def close(self) -> None:
        """Stops recording: the end of the run itself is not part of the history."""
        self._is_closed = True

    def note(self, event: Event) -> None:
        if not self._is_closed:
            self.events.append(event)

    def server_time(self) -> float:
        """What the server's clock shows."""
        return self._now() + self._server_ahead

    def step_server_clock(self, by: float) -> None:
        self._server_ahead += by
        self.note(ClockStepped(self._now(), by))

    def _moment(self, server_ms: int) -> float:
        """When the server's clock shows this, unless it is set again."""
        return server_ms / 1000 - self._server_ahead

    def arrived(self, client: int, verb: str, tokens: tuple[str, ...], sent_at: float) -> None:
        self.note(Arrived(self._now(), client, verb, tokens, sent_at))

    def joined(self, name: str, party: Party) -> None:
        client = self._clients[party.channel]
        self.note(Joined(self._now(), name, party.token, client, party.mode, self._moment(party.deadline_ms)))

    def acquire_repeated(self, name: str, party: Party) -> None:
        self.note(AcquireRepeated(self._now(), name, party.token, self._moment(party.deadline_ms)))

    def seen_alive(self, name: str, channel: str, alive_until_ms: int) -> None:
        self.note(SeenAlive(self._now(), name, self._clients[channel], self._moment(alive_until_ms)))

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
                self._moment(lease.until_ms),
                party.ttl_ms / 1000,
                lease.is_claimed,
            )
        )

    def extended(self, name: str, lease: Lease) -> None:
        self.note(HoldExtended(self._now(), name, lease.token, self._moment(lease.until_ms)))

    def shifted(self, name: str, lease: Lease) -> None:
        self.note(HoldShifted(self._now(), name, lease.token, self._moment(lease.until_ms)))

    def ended(self, name: str, token: str, why: Literal["released", "taken"]) -> None:
        self.note(HoldEnded(self._now(), name, token, why))


class WatchedLease(LeaseState):
    """A lease that records until when its client counts it as held."""

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
            CountsAsHeld(
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
            CountsAsEnded(machine.universe.time, machine.number, self.name, self.token, self.ended)
        )


def watched_leases(history: History, machine: Machine) -> type[WatchedLease]:
    """The lease class of one client's engine."""
    return type("ClientLease", (WatchedLease,), {"history": history, "machine": machine})
