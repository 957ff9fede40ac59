"""Bugs, planted one at a time to see that somebody notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.machines import Machine
from tests.simulation.model import ModelStore
from tests.simulation.model_lock import ModelLock

from leasehold.core import acquire as acquiring
from leasehold.core import engine, multi_lock, renewal
from leasehold.core.orphan_cleanup import OrphanCleaner
from leasehold.core.replies import DONE, Ended
from leasehold.core.waiters import WaiterPoller

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from tests.simulation.model_lock import Party


def _store_of(lock: type[ModelLock]) -> type[ModelStore]:
    return type(f"StoreOf{lock.__name__}", (ModelStore,), {"make_lock": lock})


class ReleasesAnything(ModelLock):
    """A release does not compare the token."""

    def leave(self, token: str) -> bool:
        return super().leave(self.writer.token if self.writer else token)


class WaitsForTheDead(ModelLock):
    """Whoever is first in the queue stays first, dead or alive."""

    def settle(self, asker: str | None = None, heard: str | None = None) -> None:
        first = next(iter(self.queue.values()), None)
        if first is None or self.is_alive(first):
            super().settle(asker, heard)


class LetsNewcomersPass(ModelLock):
    """Once a lease has run out, the lock is there for whoever asks first."""

    @property
    def has_record(self) -> bool:
        return bool(self.holders())


class LetsInOneReader(ModelLock):
    """Queued readers come in one by one."""

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
    """A renewal writes without looking, so one of a lease that has run out makes a new one."""

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


def count_from_the_reply(patch: pytest.MonkeyPatch) -> None:
    """A slow reply lengthens the lease."""
    honest = acquiring.trusted_grant
    for module in (acquiring, engine, multi_lock):
        patch.setattr(module, "trusted_grant", lambda answer, _sent_at, now: honest(answer, now, now))


def allow_for_no_drift(patch: pytest.MonkeyPatch) -> None:
    """Whoever's clock is slow believes for too long."""
    for module in (acquiring, engine, renewal):
        patch.setattr(module, "trusted_for", lambda ttl: ttl)


def never_look(patch: pytest.MonkeyPatch) -> None:
    """Those who wait rely on being told."""

    async def look(room: WaiterPoller) -> None:
        room._expires_at.clear()

    patch.setattr(WaiterPoller, "_poll", look)


def never_settle(patch: pytest.MonkeyPatch) -> None:
    """Nobody cleans up after a request that ended in doubt."""
    patch.setattr(OrphanCleaner, "add", lambda _orphan_cleaner, _orphan: None)


def never_give_up(patch: pytest.MonkeyPatch) -> None:
    """Whoever waits waits for ever."""
    wait = WaiterPoller.wait
    patch.setattr(
        WaiterPoller, "wait", lambda room, waiter, _timeout, remaining: wait(room, waiter, 1e6, remaining)
    )


def renew_for_the_dead(patch: pytest.MonkeyPatch) -> None:
    """What looks after the leases of a client outlives the client."""
    patch.setattr(Machine, "crash", lambda _machine: None)


def _no_patch(_patch: pytest.MonkeyPatch) -> None:
    """The bug is in the store."""


PLANTED: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None], type[ModelStore]]] = {
    "validity is counted from the reply": ("S2", count_from_the_reply, ModelStore),
    "no allowance for clocks that drift": ("S2", allow_for_no_drift, ModelStore),
    "a release does not compare the token": ("S5", _no_patch, _store_of(ReleasesAnything)),
    "a release of what others hold lets two hold": ("S1", _no_patch, _store_of(ReleasesAnything)),
    "a renewal re-creates a lost lease": ("S6", _no_patch, RecreatingStore),
    "a dead head blocks the queue": ("L2", _no_patch, _store_of(WaitsForTheDead)),
    "nobody looks when news get lost": ("L2", never_look, ModelStore),
    "a newcomer passes the queue after an expiry": ("FIFO", _no_patch, _store_of(LetsNewcomersPass)),
    "queued readers come in one by one": ("FIFO", _no_patch, _store_of(LetsInOneReader)),
    "a hand-over repeats the fence": ("S3", _no_patch, _store_of(RepeatsFences)),
    "what a failed call left is not cleaned up": ("S7", never_settle, ModelStore),
    "a dead client's lock stays held": ("L1", renew_for_the_dead, ModelStore),
    "a wait does not end": ("calls", never_give_up, ModelStore),
}
"""Each bug, the promise that it breaks, and how it is planted."""
