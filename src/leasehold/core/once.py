"""Work that is done once: what is kept of it, and what is said meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from leasehold.core import validation
from leasehold.errors import (
    InProgress,
    InvalidRequest,
    LeaseLost,
    StoreError,
    StoreUnavailable,
    describe_holder,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.engine import Engine
    from leasehold.core.lease import LeaseState
    from leasehold.core.ports import Results, Signal
    from leasehold.errors import LockBusy

MAX_RESULT_BYTES = 1 << 20
MAX_TTL = 366 * 86400.0


class Once:
    """Remembers results, over its ports; the run itself is the caller's."""

    def __init__(self, engine: Engine[Any], results: Results) -> None:
        self._engine = engine
        self._results = results
        self._unfinished: dict[LeaseState, Signal] = {}

    async def recall(self, key: str) -> Any | None:
        """What was kept under ``key``, in a list of one; None if nothing was."""
        kept = await self._retry(lambda: self._results.recall(key))
        return None if kept is None else [json.loads(kept)]

    async def recall_instead(self, key: str, busy: LockBusy) -> Any:
        """What was kept under ``key`` while we waited in vain for our turn to run it; `InProgress` if nothing was.

        The work may be done all the same: whoever comes next in the queue holds the lock for a moment, to see that
        there is nothing left to do, and one that died in the queue holds it until it is noticed.
        """
        if kept := await self.recall(key):
            return kept[0]
        by = f" by {describe_holder(busy.holder)}" if busy.holder is not None else ""
        raise InProgress(
            f"{key!r} is being run{by} right now", holder=busy.holder, retry_after=busy.retry_after
        ) from busy

    async def finish(self, lease: LeaseState, encoded: str, ttl: float) -> Any:
        """Keep the result and end the lease, in one step; the result as everybody after will get it.

        The work has been done, so this goes on when the caller is cancelled, and while the store cannot be
        reached, until the lease has ended. Raises `StoreError` if the result could not be kept until then: the lease
        is not given back, so that nobody runs it again before the lease has ended in the store too. Raises
        `LeaseLost` if it had ended there before: somebody else may have run it meanwhile, and what they keep counts.
        """
        done = self._unfinished[lease] = self._engine.concurrency.signal()
        failures: list[Exception] = []

        async def keep() -> None:
            try:
                await self._keep(lease, encoded, ttl)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)
            finally:
                del self._unfinished[lease]
                done.set()

        # Not by the caller itself, whose cancellation would end it half-way.
        self._engine.concurrency.spawn(keep())
        await done.wait()
        if failures:
            raise failures[0]
        if not lease.is_given_back:
            raise StoreUnavailable(f"the client was closed before the result of {lease.name!r} was kept")
        return json.loads(encoded)

    async def close(self) -> None:
        """Wait for a bounded time until the results are kept of callers that were cancelled."""
        give_up_at = self._engine.clock.now() + self._engine.timeout
        for lease, done in list(self._unfinished.items()):
            if lease.is_ours:  # in a forked child nobody would ever say that it is done
                await done.wait(max(0.0, give_up_at - self._engine.clock.now()))

    async def _keep(self, lease: LeaseState, encoded: str, ttl: float) -> None:
        engine = self._engine
        # A store that renews the lease and still cannot keep the result, say because it is too much for
        # the timeout, must not hold the caller for ever.
        give_up_at = engine.clock.now() + max(lease.ttl, engine.timeout)
        failure: StoreError | None = None
        tries = 0
        try:
            while True:
                tries += 1
                # Also asked once after the end: if the result was kept and only the answer got lost, then
                # a renewal found the lease gone.
                is_last = lease.is_lost or engine.clock.now() >= give_up_at
                try:
                    return await self._keep_in_turn(lease, encoded, ttl)
                except StoreError as error:
                    # Once in doubt, a later refusal does not say that nothing was kept.
                    if not isinstance(failure, StoreUnavailable) or isinstance(error, StoreUnavailable):
                        failure = error
                    if is_last:
                        raise failure  # noqa: B904 - one of them is enough
                await engine.clock.sleep(engine.backoff.pause(tries, engine.random.fraction()))
        except BaseException:
            engine.abandon(lease)
            raise

    async def _keep_in_turn(self, lease: LeaseState, encoded: str, ttl: float) -> None:
        """Ask while nobody renews the lease: a renewal that comes after would find nothing, and call it lost."""
        mine = self._engine.concurrency.signal()
        while (turn := lease.begin_exchange(mine)) is not mine:
            await turn.wait()
        try:
            if not await self._results.keep(lease.name, lease.token, encoded, ttl):
                lease.end("expired")
                raise LeaseLost(lease.name, lease.ended or "expired")
            # Before the turn is given back, or the keeper would renew what is gone.
            lease.is_given_back = True
            lease.end("released")
        finally:
            lease.end_exchange()

    async def first_time(self, key: str, ttl: float) -> bool:
        """Whether nobody has asked this before."""
        mark = self._engine.random.token()
        return await self._retry(lambda: self._results.mark(key, mark, ttl))

    async def _retry(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return await self._engine.retry(ask, self._engine.clock.now())


def check_once(key: str, run_it: object, ttl: float) -> None:
    """Refuse what cannot be done once."""
    validation.check_name(key)
    if not callable(run_it):
        raise InvalidRequest(f"once takes a function to run, not {type(run_it).__name__}")
    check_keep(ttl)


def check_keep(ttl: float) -> None:
    """Refuse a time for which nothing can be remembered."""
    validation.check_duration(ttl, "ttl")
    if ttl > MAX_TTL:
        raise InvalidRequest(f"a result is kept for {MAX_TTL:g} seconds (a year) at most, not {ttl!r}")


def key_of(operation: str, unique_key: str | int) -> str:
    """The key of one occurrence of an operation."""
    if not isinstance(operation, str) or not operation or ":" in operation:  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"an operation is named by text without a colon, not {operation!r}")
    if isinstance(unique_key, bool) or not isinstance(unique_key, str | int) or unique_key == "":  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a unique key is text or a whole number, not {unique_key!r}")
    return validation.check_name(f"{operation}:{unique_key}")


def encode_result(key: str, result: Any) -> str:
    """``result`` as JSON."""
    try:
        encoded = json.dumps(result, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"the result of {key!r} cannot be kept, because it is not JSON ({error}); "
            "it was run, and will be run again by the next caller"
        ) from error
    if len(encoded) > MAX_RESULT_BYTES:
        raise InvalidRequest(
            f"the result of {key!r} takes {len(encoded)} bytes as JSON, and {MAX_RESULT_BYTES} can be kept"
        )
    return encoded
