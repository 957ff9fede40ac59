"""Several locks at once: all of them or none."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core import validation
from leasehold.core.acquire import late_grant, to_timeout, trusted_grant
from leasehold.core.leases.lease import LeaseState
from leasehold.core.not_after import NotAfterRetry
from leasehold.core.replies import Owner, Request
from leasehold.errors import InvalidRequest, LeaseholdError, LeaseLost, LockBusy, StoreRefused

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from leasehold.core.acquire import TrustedGrant
    from leasehold.core.engine import Engine
    from leasehold.core.replies import Mode, NotAfter
    from leasehold.errors import Holder, LossReason

L = TypeVar("L", bound=LeaseState)


class LeasesState(Generic[L]):
    """Leases that are held together: as soon as one is lost, all count as lost."""

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
        """Whether every lease has been abandoned, so that none is to be released."""
        return all(lease.is_abandoned for lease in self)

    def loss(self) -> LossReason | None:
        """Return the reason of the first lost lease, None while all are held."""
        return next((reason for lease in self if (reason := lease.loss())), None)

    @property
    def is_lost(self) -> bool:
        """Whether any of the leases has ended, for any reason."""
        return self.loss() is not None

    def remaining(self) -> float:
        """Return the seconds for which all of them can still be relied on; 0.0 once one is lost."""
        return min(lease.remaining() for lease in self)

    def check(self) -> None:
        """Return if all of them are held at this moment, raise `LeaseLost` for the first that is not."""
        for lease in self:
            lease.check()

    def abandon(self) -> None:
        """Stop renewing without releasing: the locks stay held until their ttl ends."""
        for lease in self:
            self._engine.abandon(lease)

    async def wait_until_lost(self, timeout: float | None) -> LossReason | None:
        """Wait until one of them has ended and return the reason; None if ``timeout`` seconds pass first."""
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
        """Release each of them, even if another fails; then raise the first error."""
        await release_each(self._engine, list(self))


async def release_each(engine: Engine[L], leases: Sequence[L]) -> None:
    """Release each of ``leases``, even if another fails; then raise the first error."""
    failure: Exception | None = None
    for number, lease in enumerate(leases):
        try:
            await engine.release(lease)
        except Exception as error:  # noqa: BLE001 - the others are released all the same
            failure = failure or error
        except BaseException:
            # Cancelled: the caller does not wait for the rest, so the orphan cleaner releases them.
            release_in_background(engine, leases[number + 1 :])
            raise
    if failure is not None:
        raise failure


def release_in_background(engine: Engine[L], leases: Sequence[L]) -> None:
    """Release each of ``leases`` without waiting for it."""
    # First, and without a call: an exception of a signal handler leaves none that is renewed without an owner.
    for lease in leases:
        lease.renews = False
    for lease in leases:
        engine.release_in_background(lease)


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
    """Return a lease on each of ``names``, in their order; an exception means none of them.

    One atomic attempt; if a lock is busy, or the store keeps them in several places, one after another in the byte order of the names, so that two callers that
    want the same locks never wait for each other. The leases already held are renewed in the meantime.
    """
    return engine.observed(
        "lock_all",
        ", ".join(names),
        lambda: _acquire_all(engine, names, ttl, wait, mode, holder, renew, max_hold, floor),
        mode=mode,
        undo=partial(release_in_background, engine),
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
        leases = await try_acquire_all(engine, names, ttl, holder, renew, max_hold, floor)
        if leases is not None:
            return leases
    return await acquire_in_turn(engine, names, ttl, wait, started_at, mode, holder, renew, max_hold, floor)


async def try_acquire_all(
    engine: Engine[L],
    names: Sequence[str],
    ttl: float,
    holder: Holder | None,
    renew: bool,  # noqa: FBT001 - as above
    max_hold: float | None,
    floor: int | None,
    owners: Mapping[str, Owner] | None = None,
) -> list[L] | None:
    """Return a lease on each of ``names`` if all of them are free now, None if one is not or the store keeps them apart.

    ``owners`` is as in `acquire_in_turn`.
    """
    asked_ttl, encoded, least = engine.grant_terms(ttl, holder, max_hold, floor)
    if owners is None:
        shown = engine.holder if holder is None else holder
        owners = {name: Owner(engine.random.token(), shown) for name in names}
        encoded_of = dict.fromkeys(names, encoded)
    else:
        encoded_of = {name: validation.encode_holder(owners[name].holder) for name in names}
    new_ticket = engine.notifications.new_ticket
    requests = [
        Request(name, owners[name].token, new_ticket(), asked_ttl, least, encoded_of[name]) for name in names
    ]
    retry = NotAfterRetry(engine)

    async def ask(not_after: NotAfter) -> list[TrustedGrant] | None:
        sent_at = engine.clock.now()
        reply = await engine.store.acquire_all(requests, not_after)
        if reply is None or isinstance(reply, str):
            return None
        grants = [trusted_grant(grant, sent_at, engine.clock.now()) for grant in reply]
        if None in grants:
            raise late_grant(names[grants.index(None)], asked_ttl)
        return [grant for grant in grants if grant]

    def clean_up() -> None:
        for request in requests:
            engine.schedule_cleanup(request.name, request.token, asked_ttl, was_silent=True)

    leases: list[L] = []
    try:
        grants = await retry.run(ask)
        if grants is None:
            if retry.was_silent:  # an earlier request, whose reply was lost, may have been granted
                clean_up()
            return None
        for (name, token, ticket, *_, mode), grant in zip(requests, grants, strict=True):
            shown = owners[name].holder
            leases.append(
                engine.new_lease(name, token, ticket, mode, shown, ttl, grant, renew=renew, max_hold=max_hold)
            )
    except BaseException as error:
        release_in_background(engine, leases)
        # A refusal that comes after silence says nothing of the request before it.
        if retry.was_silent or not isinstance(error, StoreRefused | InvalidRequest):
            clean_up()
        raise
    return leases


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
    owners: Mapping[str, Owner] | None = None,
) -> list[L]:
    """Return a lease on each of ``names``, acquired one after another; see `acquire_all`.

    ``owners`` has the token and the holder of each; without it tokens are random and ``holder`` is that of all.
    """
    held: dict[str, L] = {}
    try:
        for name in sorted(names, key=str.encode):
            left = None if wait is None else max(0.0, started_at + wait - engine.clock.now())
            token, shown = (None, holder) if owners is None else owners[name]
            try:
                held[name] = await engine.acquire(
                    name, ttl, left, mode, shown, True, None, floor, None, token
                )
            except LockBusy as busy:
                # The time may have been over before this lock was asked for.
                raise (to_timeout(busy, wait, is_own=engine.is_holding(name)) if wait else busy) from None
        # The hold begins now, when all are granted.
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
        with suppress(LeaseholdError):  # the first error is the one to raise
            await release_each(engine, list(held.values()))
        raise
    except BaseException:
        release_in_background(engine, list(held.values()))
        raise
    return [held[name] for name in names]
