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
# For so long the record outlives a lease that somebody may wait for: longer than any client waits without looking.
GUARD_MS = 300_000
NEVER_MS = 10**15


@dataclass(frozen=True, slots=True)
class Party:
    """Somebody who asks for the lock, on the terms of the request."""

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
    """One hold. ``is_claimed`` is false while it was handed over and its holder has not been heard of since."""

    party: Party
    fence: int
    since_ms: int
    until_ms: int
    is_claimed: bool = True

    @property
    def token(self) -> str:
        return self.party.token


class Observer:
    """Hears of every change in the store; the simulator's history is one. This one does not care."""

    def joined(self, name: str, party: Party) -> None: ...

    def asked_again(self, name: str, party: Party) -> None: ...

    def heard_of(self, name: str, channel: str, alive_until_ms: int) -> None: ...

    def left(self, name: str, token: str, why: Literal["granted", "left", "dropped"]) -> None: ...

    def granted(self, name: str, lease: Lease) -> None: ...

    def extended(self, name: str, lease: Lease) -> None: ...

    def ended(self, name: str, token: str, why: Literal["released", "taken"]) -> None: ...


class ModelLock:
    """Readers or a writer, a queue, a counter of grants, and the memory of the last take.

    ``is_plain`` says that nobody has waited since the lock was granted, so that the record goes with the lease.
    Otherwise it outlives the lease: while it is there, nobody passes the queue.
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
        """Let go of whatever has run out since last time; every verb begins with this."""
        self.now_ms = self._now_us() // 1000
        if self.now_ms > self.record_until_ms:
            self._drop_record()
        if self.now_ms > self.taken_until_ms:
            self.taken_by = 0

    @property
    def has_record(self) -> bool:
        """Whether the lock's own key is there, be it only to keep newcomers from passing the queue."""
        return self.record_until_ms >= 0

    def holders(self) -> list[Lease]:
        """Who holds the lock now: a writer, readers by the end of their leases, or nobody."""
        held = [self.writer] if self.writer else sorted(self.readers.values(), key=_by_end)
        return [lease for lease in held if lease.until_ms > self.now_ms]

    def lease_of(self, token: str) -> Lease | None:
        """The lease of this token, if it holds one."""
        lease = self.writer if self.writer and self.writer.token == token else self.readers.get(token)
        return lease if lease and lease.until_ms > self.now_ms else None

    def left_of(self, lease: Lease) -> int:
        return max(lease.until_ms - self.now_ms, 0)

    def is_alive(self, waiter: Party) -> bool:
        """Whether the waiter's client was heard of lately, and its deadline has not passed."""
        alive_until_ms = self.alive_until_ms.get(waiter.channel, 0)
        return alive_until_ms >= self.now_ms and waiter.deadline_ms >= self.now_ms

    def position_of(self, token: str) -> int | None:
        return list(self.queue).index(token) + 1 if token in self.queue else None

    def grant_plainly(self, party: Party) -> Lease:
        """Grant a lock that nobody holds and nobody waits for."""
        count = self.fence + 1
        lease = self._hold(party, count if count >= party.floor else self._restarted_fence(party.floor))
        self.is_plain = True
        self._write(lease)
        self._observer.granted(self.name, lease)
        return lease

    def extend(self, lease: Lease, ttl_ms: int) -> Lease:
        """Have the lease end ``ttl_ms`` from now, which claims one that was handed over."""
        extended = replace(lease, until_ms=self.now_ms + ttl_ms, is_claimed=True)
        self._write(extended)
        self._observer.extended(self.name, extended)
        return extended

    def join(self, party: Party, live_ms: int) -> None:
        """Stand at the end of the queue, or where one stands already, on the new terms."""
        if party.token in self.queue:
            self._observer.asked_again(self.name, party)
        else:
            self._observer.joined(self.name, party)
        self.queue[party.token] = party
        self.hear_of(party.channel, live_ms)

    def hear_of(self, channel: str, live_ms: int) -> None:
        """Count the client as alive for so long."""
        self.alive_until_ms[channel] = self.now_ms + live_ms
        self._observer.heard_of(self.name, channel, self.now_ms + live_ms)

    def guard_queue(self) -> None:
        """From now on somebody waits behind a plain record, so it must outlive the lease."""
        if self.queue and self.is_plain and self.writer:
            self.is_plain = False
            self._write(self.writer)

    def settle(self, asker: str | None = None, heard: str | None = None) -> None:
        """End what has run out, and grant what can be granted now, in the order of the queue.

        ``heard`` is the channel of the client that is being served, if any.
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
            self._observer.heard_of(self.name, lease.party.channel, 0)

    def hand_over(self, party: Party, *, is_asker: bool) -> None:
        """Grant to one who waits, for the claim window and with news, or to one who asks right now."""
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
        """End the lease of this token, or its waiting, and let the next in; whether there was a lease."""
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
        """End every lease, and tell the holders; until when they may have believed in theirs."""
        held = self.holders()
        for lease in held:
            self._observer.ended(self.name, lease.token, "taken")
            self._publish(lease.party.channel, Taken(lease.party.ticket))
        self._drop_record()
        return max((lease.until_ms for lease in held), default=-1)

    def remember_take(self, until_ms: int) -> None:
        """Let those who lost the lock this way know why, for as long as they may believe in it."""
        self.taken_by = self.fence
        self.taken_until_ms = max(until_ms, self.taken_until_ms, self.now_ms + 1)

    def deadlines_ms(self) -> list[int]:
        """Every moment at which something changes by itself."""
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
        """Wait no more."""
        if self.queue.pop(token, None):
            self._observer.left(self.name, token, why)


def _by_end(lease: Lease) -> tuple[int, str]:
    return lease.until_ms, lease.token


def milliseconds(seconds: float) -> int:
    """Whole milliseconds, rounded up, as `ValkeyStore` sends them."""
    return math.ceil(seconds * 1000)
