"""One lock of the model store: the state that the Lua scripts keep in their keys, and what they do with it.

Time is in whole milliseconds, as it is there. A key that was to go at some moment is still there in that very
millisecond and gone in the next one, as on the servers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from leasehold.core.replies import Granted, Taken

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.replies import Mode, Notification

CLAIM_WINDOW_MS = 2_000
# The record outlives a lease with waiters by this time: longer than any client waits without a look.
GUARD_MS = 300_000
NEVER_MS = 10**15


@dataclass(frozen=True, slots=True)
class Party:
    """A client's request for the lock, with its terms."""

    token: str
    channel: str
    ticket: int
    mode: Mode
    ttl_ms: int
    floor: int
    holder: str
    deadline_ms: int = NEVER_MS


@dataclass(frozen=True, slots=True)
class Lease:
    """One hold. ``is_claimed`` is false from a hand-over until the first request of its holder."""

    party: Party
    fence: int
    since_ms: int
    until_ms: int
    is_claimed: bool = True

    @property
    def token(self) -> str:
        return self.party.token


class Observer:
    """Is called for every change in the store; the simulator's history is one. This one ignores them."""

    def joined(self, name: str, party: Party) -> None: ...

    def acquire_repeated(self, name: str, party: Party) -> None: ...

    def seen_alive(self, name: str, channel: str, alive_until_ms: int) -> None: ...

    def left(self, name: str, token: str, why: Literal["granted", "left", "dropped"]) -> None: ...

    def granted(self, name: str, lease: Lease) -> None: ...

    def extended(self, name: str, lease: Lease) -> None: ...

    def ended(self, name: str, token: str, why: Literal["released", "taken"]) -> None: ...

    def shifted(self, name: str, lease: Lease) -> None: ...


class ModelLock:
    """Readers or a writer, a queue, a counter of grants, and the memory of the last take.

    ``is_plain`` says that the lock has had no waiter since its grant, so the record ends with the lease.
    Otherwise it outlives the lease: while it exists, no newcomer passes the queue.
    """

    def __init__(
        self,
        name: str,
        now_us: Callable[[], int],
        publish: Callable[[str, Notification], None],
        observer: Observer,
    ) -> None:
        self.name = name
        self._now_us = now_us
        self._publish = publish
        self._observer = observer
        self.now_ms = 0
        self.fence = 0
        self.writer: Lease | None = None
        self.readers: dict[str, Lease] = {}
        self.is_plain = False
        self.record_until_ms = -1
        self.queue: dict[str, Party] = {}
        self.alive_until_ms: dict[str, int] = {}
        self.taken_by = 0
        self.taken_until_ms = -1

    def turn_to_now(self) -> None:
        """Removes everything that has expired; every verb begins with this."""
        self.now_ms = self._now_us() // 1000
        if self.now_ms > self.record_until_ms:
            self._drop_record()
        if self.now_ms > self.taken_until_ms:
            self.taken_by = 0

    def report_times(self) -> None:
        """Reports when leases and waits end by a clock that was set."""
        before_ms, self.now_ms = self.now_ms, self._now_us() // 1000
        for lease in [*([self.writer] if self.writer else []), *self.readers.values()]:
            if lease.until_ms > min(before_ms, self.now_ms):
                self._observer.shifted(self.name, lease)
        for waiter in self.queue.values():
            self._observer.acquire_repeated(self.name, waiter)
        for channel, until_ms in self.alive_until_ms.items():
            self._observer.seen_alive(self.name, channel, until_ms)

    @property
    def has_record(self) -> bool:
        """Whether the lock's own key exists, even if only to keep newcomers from passing the queue."""
        return self.record_until_ms >= 0

    def holders(self) -> list[Lease]:
        """The current leases: a writer's, readers' by their end, or none."""
        held = [self.writer] if self.writer else sorted(self.readers.values(), key=_by_end)
        return [lease for lease in held if lease.until_ms > self.now_ms]

    def lease_of(self, token: str) -> Lease | None:
        """The lease of this token, if it holds one."""
        lease = self.writer if self.writer and self.writer.token == token else self.readers.get(token)
        return lease if lease and lease.until_ms > self.now_ms else None

    def left_of(self, lease: Lease) -> int:
        return max(lease.until_ms - self.now_ms, 0)

    def is_alive(self, waiter: Party) -> bool:
        """Whether the waiter's client counts as alive, and its deadline has not passed."""
        alive_until_ms = self.alive_until_ms.get(waiter.channel, 0)
        return alive_until_ms >= self.now_ms and waiter.deadline_ms >= self.now_ms

    def position_of(self, token: str) -> int | None:
        return list(self.queue).index(token) + 1 if token in self.queue else None

    def grant_plainly(self, party: Party) -> Lease:
        """Grants a lock without holder and waiters."""
        count = self.fence + 1
        lease = self._hold(party, count if count >= party.floor else self._restarted_fence(party.floor))
        self.is_plain = True
        self._write(lease)
        self._observer.granted(self.name, lease)
        return lease

    def extend(self, lease: Lease, ttl_ms: int) -> Lease:
        """Sets the end of the lease to ``ttl_ms`` from now, which claims one that was handed over."""
        extended = replace(lease, until_ms=self.now_ms + ttl_ms, is_claimed=True)
        self._write(extended)
        self._observer.extended(self.name, extended)
        return extended

    def join(self, party: Party, live_ms: int) -> None:
        """Joins the end of the queue, or keeps the place, with the new terms."""
        if party.token in self.queue:
            self._observer.acquire_repeated(self.name, party)
        else:
            self._observer.joined(self.name, party)
        self.queue[party.token] = party
        self.mark_alive(party.channel, live_ms)

    def mark_alive(self, channel: str, live_ms: int) -> None:
        """Counts the client as alive for ``live_ms``."""
        self.alive_until_ms[channel] = self.now_ms + live_ms
        self._observer.seen_alive(self.name, channel, self.now_ms + live_ms)

    def guard_queue(self) -> None:
        """Marks a plain record as having a waiter, so that it outlives the lease."""
        if self.queue and self.is_plain and self.writer:
            self.is_plain = False
            self._write(self.writer)

    def settle(self, asker: str | None = None, heard: str | None = None) -> None:
        """Ends expired leases, and grants what can be granted now, in the order of the queue.

        ``heard`` is the channel of the client whose request this is, if any.
        """
        if self.has_record and self.is_plain:
            return
        if self.writer and self.writer.until_ms > self.now_ms:
            return
        for lease in [*([self.writer] if self.writer else []), *self.readers.values()]:
            if lease.until_ms <= self.now_ms:
                self._forget_client_without_claim(lease, heard)
        self.readers = {token: lease for token, lease in self.readers.items() if lease.until_ms > self.now_ms}
        if not self.readers:
            self._drop_record()
        while (waiter := next(iter(self.queue.values()), None)) is not None:
            if not self.is_alive(waiter):
                self.leave_queue(waiter.token, "dropped")
            elif waiter.mode == "exclusive" and self.readers:
                return
            else:
                self.hand_over(waiter, is_asker=waiter.token == asker)
                if waiter.mode == "exclusive":
                    return

    def _forget_client_without_claim(self, lease: Lease, heard: str | None) -> None:
        """A client that did not claim a grant is most likely gone, so its other waiters are passed over."""
        is_claim_due = not lease.is_claimed and lease.party.ttl_ms >= CLAIM_WINDOW_MS
        if is_claim_due and lease.party.channel != heard:
            self.alive_until_ms.pop(lease.party.channel, None)
            self._observer.seen_alive(self.name, lease.party.channel, 0)

    def hand_over(self, party: Party, *, is_asker: bool) -> None:
        """Grants to a waiter, for the claim window and with a notification, or to the current request."""
        left_ms = party.ttl_ms if is_asker else min(party.ttl_ms, CLAIM_WINDOW_MS)
        fence = self._restarted_fence(party.floor)
        lease = replace(self._hold(party, fence), until_ms=self.now_ms + left_ms, is_claimed=is_asker)
        self.leave_queue(party.token, "granted")
        self.is_plain = False
        self._write(lease)
        self._observer.granted(self.name, lease)
        if not is_asker:
            self._publish(
                party.channel, Granted(party.ticket, lease.fence, self.now_ms / 1000, left_ms / 1000)
            )

    def leave(self, token: str) -> bool:
        """Ends the lease of this token, or its wait, and grants to the next; returns whether there was a lease."""
        lease = self.lease_of(token)
        if self.writer and self.writer.token == token:
            self._drop_record()
        self.readers.pop(token, None)
        self.leave_queue(token, "left")
        if lease:
            self._observer.ended(self.name, token, "released")
        self.settle()
        return lease is not None

    def take_from_all(self) -> int:
        """Ends every lease, and notifies the holders; returns until when they may count theirs as held."""
        held = self.holders()
        for lease in held:
            self._observer.ended(self.name, lease.token, "taken")
            self._publish(lease.party.channel, Taken(lease.party.ticket))
        self._drop_record()
        return max((lease.until_ms for lease in held), default=-1)

    def remember_take(self, until_ms: int) -> None:
        """Keeps the take as the reason, for as long as old holders may count their leases as held."""
        self.taken_by = self.fence
        self.taken_until_ms = max(until_ms, self.taken_until_ms, self.now_ms + 1)

    def deadlines_ms(self) -> list[int]:
        """Every instant at which something expires."""
        return [
            *(lease.until_ms for lease in [*([self.writer] if self.writer else []), *self.readers.values()]),
            *(waiter.deadline_ms for waiter in self.queue.values()),
            *self.alive_until_ms.values(),
            self.record_until_ms,
            self.taken_until_ms,
        ]

    def _hold(self, party: Party, fence: int) -> Lease:
        self.fence = fence
        return Lease(party, fence, self.now_ms, self.now_ms + party.ttl_ms)

    def _restarted_fence(self, floor: int) -> int:
        return max(self._now_us(), floor, self.fence + 1)

    def _write(self, lease: Lease) -> None:
        if lease.party.mode == "exclusive":
            self.writer = lease
            ends_ms = lease.until_ms
        else:
            self.readers[lease.token] = lease
            ends_ms = max(reader.until_ms for reader in self.readers.values())
        self.record_until_ms = ends_ms if self.is_plain else ends_ms + GUARD_MS

    def _drop_record(self) -> None:
        self.writer = None
        self.readers = {}
        self.is_plain = False
        self.record_until_ms = -1

    def leave_queue(self, token: str, why: Literal["granted", "left", "dropped"]) -> None:
        """Removes a waiter from the queue."""
        if self.queue.pop(token, None):
            self._observer.left(self.name, token, why)


def _by_end(lease: Lease) -> tuple[int, str]:
    return lease.until_ms, lease.token


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, rounded up, as `ValkeyStore` sends them."""
    return math.ceil(seconds * 1000)
