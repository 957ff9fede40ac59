"""Bugs, planted one at a time to prove that a check fails."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tests.simulation.machines import Machine
from tests.simulation.model import ModelStore
from tests.simulation.model_lock import ModelLock

from leasehold.core import acquire as acquiring
from leasehold.core import engine, multi_lock, not_after, waiters
from leasehold.core.leases import renewal
from leasehold.core.orphan_cleanup import OrphanCleaner
from leasehold.core.replies import DONE, Ended, NotAfter
from leasehold.core.waiters import WaiterPoller

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from tests.simulation.model_lock import Party


def _store_of(lock: type[ModelLock]) -> type[ModelStore]:
    return type(f"StoreOf{lock.__name__}", (ModelStore,), {"make_lock": lock})


class ReleasesAnyToken(ModelLock):
    """A release does not compare the token."""

    def leave(self, token: str) -> bool:
        return super().leave(self.writer.token if self.writer else token)


class DeadHeadBlocks(ModelLock):
    """The first in the queue stays first, dead or alive."""

    def settle(self, asker: str | None = None, heard: str | None = None) -> None:
        first = next(iter(self.queue.values()), None)
        if first is None or self.is_alive(first):
            super().settle(asker, heard)


class NewcomersPass(ModelLock):
    """Once a lease has expired, the first request gets the lock."""

    @property
    def has_record(self) -> bool:
        return bool(self.holders())


class GrantsOneReader(ModelLock):
    """Queued readers are granted one by one."""

    def settle(self, asker: str | None = None, heard: str | None = None) -> None:
        others = dict(list(self.queue.items())[1:])
        for token in others:
            del self.queue[token]
        super().settle(asker, heard)
        self.queue.update(others)


class RepeatsFences(ModelLock):
    """A hand-over does not count."""

    def _restarted_fence(self, floor: int) -> int:
        return max(self.fence, floor)


class RecreatingStore(ModelStore):
    """A renewal writes without a check, so it re-creates an expired lease."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._parties: dict[str, Party] = {}

    def acquire(self, name: str, party: Party, wait_ms: int, live_ms: int) -> Any:
        self._parties[party.token] = party
        return super().acquire(name, party, wait_ms, live_ms)

    def renew(self, name: str, token: str, fence: int, ttl_ms: int) -> Any:
        answer = super().renew(name, token, fence, ttl_ms)
        lock = self.lock(name)
        if answer is Ended.EXPIRED and token in self._parties:
            lock._drop_record()
            lock.hand_over(self._parties[token], is_asker=True)
            return DONE
        return answer


class LateRenewalsShorten(ModelStore):
    """A renewal sets the end of the lease, whatever it was."""

    def renew(self, name: str, token: str, fence: int, ttl_ms: int) -> Any:
        return self.shorten(name, token, fence, ttl_ms)


class IgnoresNotAfter(ModelStore):
    """The store looks at no not-after."""

    def check_in_time(self, not_after_ms: int) -> None:
        pass


def trust_every_push(patch: pytest.MonkeyPatch) -> None:
    """A pushed grant counts from a moment that the client's own clock has not reached."""
    patch.setattr(waiters, "_RESOLUTION", math.inf)


def repeat_at_once(patch: pytest.MonkeyPatch) -> None:
    """A request with a not-after is repeated although the one before it may still be done."""

    class Unsent(NotAfter):
        is_sent = property(lambda _: False, lambda _, __: None)  # type: ignore[assignment]

    patch.setattr(not_after, "NotAfter", Unsent)


def count_from_the_reply(patch: pytest.MonkeyPatch) -> None:
    """A slow reply lengthens the lease."""
    honest = acquiring.trusted_grant
    for module in (acquiring, engine, multi_lock):
        patch.setattr(module, "trusted_grant", lambda answer, _sent_at, now: honest(answer, now, now))


def allow_for_no_drift(patch: pytest.MonkeyPatch) -> None:
    """A client with a slow clock counts its lease as held for too long."""
    for module in (acquiring, engine, renewal):
        patch.setattr(module, "trusted_for", lambda ttl: ttl)


def never_poll(patch: pytest.MonkeyPatch) -> None:
    """Waiters rely on notifications only."""

    async def look(room: WaiterPoller) -> None:
        room._expires_at.clear()

    patch.setattr(WaiterPoller, "_poll", look)


def never_clean_up_orphans(patch: pytest.MonkeyPatch) -> None:
    """A request that ended in doubt is not cleaned up."""
    patch.setattr(OrphanCleaner, "add", lambda _orphan_cleaner, _orphan: None)


def never_give_up(patch: pytest.MonkeyPatch) -> None:
    """A wait never ends."""
    wait = WaiterPoller.wait
    patch.setattr(
        WaiterPoller, "wait", lambda room, waiter, _timeout, remaining: wait(room, waiter, 1e6, remaining)
    )


def renew_after_death(patch: pytest.MonkeyPatch) -> None:
    """The renewal of a client's leases outlives the client."""
    patch.setattr(Machine, "crash", lambda _machine: None)


def _no_patch(_patch: pytest.MonkeyPatch) -> None:
    """The bug is in the store."""


PLANTED: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], type[ModelStore]]] = {
    "validity is counted from the reply": ("S2", count_from_the_reply, ModelStore),
    "no allowance for clocks that drift": ("S2", allow_for_no_drift, ModelStore),
    "a release does not compare the token": ("S5", _no_patch, _store_of(ReleasesAnyToken)),
    "a release of another token lets two hold": ("S1", _no_patch, _store_of(ReleasesAnyToken)),
    "a renewal re-creates a lost lease": ("S6", _no_patch, RecreatingStore),
    "a dead head blocks the queue": ("L2", _no_patch, _store_of(DeadHeadBlocks)),
    "no poll after a lost notification": ("L2", never_poll, ModelStore),
    "a newcomer passes the queue after an expiry": ("FIFO", _no_patch, _store_of(NewcomersPass)),
    "queued readers are granted one by one": ("FIFO", _no_patch, _store_of(GrantsOneReader)),
    "a hand-over repeats the fence": ("S3", _no_patch, _store_of(RepeatsFences)),
    "the entries of a failed call are not cleaned up": ("S7", never_clean_up_orphans, ModelStore),
    "a dead client's lock stays held": ("L1", renew_after_death, ModelStore),
    "a late renewal shortens a lease": ("S2", _no_patch, LateRenewalsShorten),
    "a late renewal to a shorter ttl is executed": ("S2", _no_patch, IgnoresNotAfter),
    "a late take is executed": ("late", _no_patch, IgnoresNotAfter),
    "a take is repeated while the first may be executed": ("late", repeat_at_once, ModelStore),
    "a push after a step of the server's clock is trusted": ("S2", trust_every_push, ModelStore),
    "a wait does not end": ("calls", never_give_up, ModelStore),
}
"""Each bug, the promise that it breaks, and how it is planted."""
