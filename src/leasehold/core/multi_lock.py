"""Several locks at once: all of them or none."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core import validation
from leasehold.core.acquire import timed_out
from leasehold.core.lease import LeaseState
from leasehold.errors import LeaseholdError, LeaseLost, LockBusy

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from leasehold.core.engine import Engine
    from leasehold.core.replies import Mode, Own
    from leasehold.errors import Holder, LossReason

L = TypeVar("L", bound=LeaseState)


class LeasesState(Generic[L]):
    """Leases that are held together: as soon as one is lost, they count as lost."""

    def __init__(self, engine: Engine[L], leases: Sequence[L]) -> None:
        self._engine = engine
        self._leases = {lease.name: lease for lease in leases}
        self._lost = engine.concurrency.signal()
        for lease in leases:
            lease.group_signal = self._lost

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {list(self._leases.values())}>"

    def __getitem__(self, name: str) -> L:
        return self._leases[name]

    def __iter__(self) -> Iterator[L]:
        return iter(self._leases.values())

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def fences(self) -> dict[str, int]:
        """The fence of each lock by its name."""
        return {name: lease.fence for name, lease in self._leases.items()}

    @property
    def is_abandoned(self) -> bool:
        """Whether nothing is to be given back."""
        return all(lease.is_abandoned for lease in self)

    def loss(self) -> LossReason | None:
        """Why they are not held together any more, or None while they are."""
        return next((reason for lease in self if (reason := lease.loss())), None)

    @property
    def is_lost(self) -> bool:
        """Whether any of the leases has ended, for whatever reason."""
        return self.loss() is not None

    def remaining(self) -> float:
        """Seconds for which all of them can still be relied on; 0.0 once one is lost."""
        return min(lease.remaining() for lease in self)

    def check(self) -> None:
        """Return if all of them are held at this moment, raise `LeaseLost` for the first that is not."""
        for lease in self:
            lease.check()

    def abandon(self) -> None:
        """Stop renewing and give nothing back: the locks stay held until their ttl ends."""
        for lease in self:
            self._engine.abandon(lease)

    async def wait_until_lost(self, timeout: float | None) -> LossReason | None:
        """Wait until any of them has ended, and say why; None if ``timeout`` seconds passed first."""
        clock = self._engine.clock
        give_up_at = math.inf if timeout is None else clock.now() + timeout
        while (reason := self.loss()) is None:
            ends_at = min(lease.valid_until for lease in self)
            left = min(ends_at, give_up_at) - clock.now()
            if left <= 0 and give_up_at <= ends_at:
                return None
            await self._lost.wait(max(left, 0))
        return reason

    async def renew_all(self, ttl: float | None) -> None:
        """Renew each of them; `LeaseLost` for the first that has ended."""
        for lease in self:
            await self._engine.renew(lease, ttl)

    async def release_all(self) -> None:
        """Give each of them back, whatever happens to the others; then raise what happened first."""
        await give_back(self._engine, list(self))


async def give_back(engine: Engine[L], leases: Sequence[L]) -> None:
    """Release every one of ``leases``, and then raise the first error there was."""
    failure: Exception | None = None
    for number, lease in enumerate(leases):
        try:
            await engine.release(lease)
        except Exception as error:  # noqa: BLE001 - the others are given back all the same
            failure = failure or error
        except BaseException:
            # Cancelled: nobody waits for the rest, so the settler does it.
            for other in leases[number + 1 :]:
                engine.renounce(other)
            raise
    if failure is not None:
        raise failure


def acquire_all(
    engine: Engine[L],
    names: list[str],
    ttl: float,
    wait: float | None,
    mode: Mode,
    holder: Holder | None,
    renew: bool,  # noqa: FBT001 - as the other verbs of the engine
    max_hold: float | None,
    floor: int | None,
) -> Coroutine[Any, Any, list[L]]:
    """A lease on each of ``names``, in their order, or an exception and none of them.

    One atomic attempt; if anything is busy, one after another in the byte order of the names, so that two
    who want the same locks never wait for each other. What is already held is renewed meanwhile.
    """
    return engine.observed(
        "lock_all",
        ", ".join(names),
        lambda: _acquire_all(engine, names, ttl, wait, mode, holder, renew, max_hold, floor),
        mode=mode,
    )


async def _acquire_all(
    engine: Engine[L],
    names: list[str],
    ttl: float,
    wait: float | None,
    mode: Mode,
    holder: Holder | None,
    renew: bool,  # noqa: FBT001 - as above
    max_hold: float | None,
    floor: int | None,
) -> list[L]:
    validation.check_max_hold(max_hold)
    started_at = engine.clock.now()
    if mode == "exclusive":
        leases = await engine.attempt_all(names, ttl, holder, renew, max_hold, floor)
        if leases is not None:
            return leases
    return await acquire_in_turn(engine, names, ttl, wait, started_at, mode, holder, renew, max_hold, floor)


async def acquire_in_turn(
    engine: Engine[L],
    names: Sequence[str],
    ttl: float,
    wait: float | None,
    started_at: float,
    mode: Mode,
    holder: Holder | None,
    renew: bool,  # noqa: FBT001 - as above
    max_hold: float | None = None,
    floor: int | None = None,
    own: Mapping[str, Own] | None = None,
) -> list[L]:
    """A lease on each of ``names``, one after another, or an exception and none of them; see `acquire_all`.

    ``own`` has the token and the holder of each, if they are not to be made up and not the same for all.
    """
    held: dict[str, L] = {}
    try:
        for name in sorted(names, key=str.encode):
            left = None if wait is None else max(0.0, started_at + wait - engine.clock.now())
            token, shown = (None, holder) if own is None else own[name]
            try:
                held[name] = await engine.acquire(
                    name, ttl, left, mode, shown, True, None, floor, None, token
                )
            except LockBusy as busy:
                raise (timed_out(busy, wait) if wait else busy) from None
        # The hold begins now, when all are there.
        for lease in held.values():
            lease.renews = renew
            if max_hold is not None:
                lease.hold_until = engine.clock.now() + max_hold
            if not renew or max_hold is not None:
                await engine.renew(lease)
            reason = lease.loss()
            if reason is not None:
                raise LeaseLost(lease.name, reason)
    except Exception:
        with suppress(LeaseholdError):  # what went wrong first is what the caller hears
            await give_back(engine, list(held.values()))
        raise
    except BaseException:
        for lease in held.values():
            engine.renounce(lease)
        raise
    return [held[name] for name in names]
