"""Work that runs once per key: its result is kept for all other callers."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from leasehold.core import validation
from leasehold.core.replies import NotReplicated
from leasehold.errors import (
    InProgress,
    InvalidRequest,
    LeaseLost,
    StoreError,
    StoreUnavailable,
    describe_holder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.engine import Engine
    from leasehold.core.leases.lease import LeaseState
    from leasehold.core.ports import Results, Signal
    from leasehold.errors import LockBusy

T = TypeVar("T")

MAX_RESULT_BYTES = 1 << 20
MAX_TTL = 366 * 86400.0


class Once:
    """Reads and keeps results over its ports; the caller runs the work."""

    def __init__(self, engine: Engine[Any], results: Results) -> None:
        self._engine = engine
        self._results = results
        self._unfinished: dict[LeaseState, Signal] = {}

    async def recall(self, key: str) -> Any | None:
        """Return the result kept under ``key`` in a list of one, None if there is none."""
        kept = await self._engine.retry(lambda: self._results.recall(key))
        return None if kept is None else [json.loads(kept)]

    async def recall_instead(self, key: str, busy: LockBusy) -> Any:
        """Return the result that was kept while we waited in vain for the lock; `InProgress` if there is none.

        The work may be done although the lock is held: the next in the queue holds it for a moment, to see that there
        is nothing left to do, and one that died in the queue holds it until its grant expires.
        """
        if kept := await self.recall(key):
            return kept[0]
        by = f" by {describe_holder(busy.holder)}" if busy.holder is not None else ""
        raise InProgress(
            f"{key!r} is being run{by} right now", holder=busy.holder, retry_after=busy.retry_after
        ) from busy

    async def finish(self, lease: LeaseState, encoded: str, ttl: float) -> Any:
        """Keep the result and end the lease, in one step; return the result as later callers get it.

        The work has been done, so this goes on when the caller is cancelled, and while the store cannot be
        reached, until the lease has ended. Raises `StoreError` if the result could not be kept until then: the lease
        is not released, so that the work does not run again before the lease has ended in the store too. Raises
        `LeaseLost` if it had ended there before: another caller may have run the work since, and its result counts.
        """
        done = self._engine.concurrency.signal()
        failures: list[Exception] = []

        async def keep() -> None:
            try:
                await self._keep(lease, encoded, ttl)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)
            finally:
                self._unfinished.pop(lease, None)
                done.set()

        try:
            self._unfinished[lease] = done
            # Not in the caller itself, whose cancellation would end it half-way.
            self._engine.concurrency.spawn(keep())
        except BaseException:  # from a signal handler, perhaps before `keep` has begun
            self._unfinished.pop(lease, None)
            raise
        await done.wait()
        if failures:
            raise failures[0]
        if not lease.is_given_back:
            raise StoreUnavailable(f"the client was closed before the result of {lease.name!r} was kept")
        return json.loads(encoded)

    async def close(self) -> None:
        """Wait for a bounded time until the results of cancelled callers are kept."""
        give_up_at = self._engine.clock.now() + self._engine.timeout
        for lease, done in list(self._unfinished.items()):
            if lease.is_ours:  # in a forked child the signal is never set
                await done.wait(max(0.0, give_up_at - self._engine.clock.now()))

    async def _keep(self, lease: LeaseState, encoded: str, ttl: float) -> None:
        engine = self._engine
        # A store that renews the lease and still cannot keep the result, because it takes longer than the timeout for
        # instance, must not hold the caller for ever.
        give_up_at = engine.clock.now() + max(lease.ttl, engine.timeout)
        failure: StoreError | None = None
        tries = 0
        try:
            while True:
                tries += 1
                # By its time, and also asked once after that: if the result was kept and only the reply was lost, then a
                # renewal, or the check after a reconnect, finds the lease gone in the store at once.
                is_last = engine.clock.now() >= min(lease.valid_until, give_up_at)
                try:
                    return await self._keep_in_turn(lease, encoded, ttl)
                except StoreError as error:
                    # Once in doubt, a later refusal does not say that nothing was kept.
                    if not isinstance(failure, StoreUnavailable) or isinstance(error, StoreUnavailable):
                        failure = error
                    if is_last:
                        raise failure  # noqa: B904 - one of them is enough
                except InvalidRequest as error:
                    closed = f"the client was closed before the result of {lease.name!r} was kept"
                    raise StoreUnavailable(closed) from error
                await engine.clock.sleep(engine.backoff.pause(tries, engine.random.fraction()))
        except BaseException:
            engine.abandon(lease)
            raise

    async def _keep_in_turn(self, lease: LeaseState, encoded: str, ttl: float) -> None:
        """Ask while no renewal is under way: one that comes after would find nothing, and call the lease lost."""

        async def keep() -> None:
            if not await self._results.keep(lease.name, lease.token, encoded, ttl):
                lease.end("expired")
                raise LeaseLost(lease.name, lease.ended or "expired")
            # Before the turn is given back, or the renewer would renew a lease that has ended.
            lease.is_given_back = True
            lease.end("released")

        await lease.run_in_turn(keep)

    async def first_time(self, key: str, ttl: float) -> bool:
        """Return True for the first caller with this key, False for all others."""
        mark = self._engine.random.token()
        is_marked = False

        async def ask() -> bool:
            nonlocal is_marked
            try:
                return await self._results.mark(key, mark, ttl)
            except NotReplicated:
                is_marked = True
                raise

        try:
            return await self._engine.retry(ask)
        except BaseException:
            if is_marked:
                # Or the next caller would take the work for done.
                self._engine.concurrency.spawn(self._unmark(key, mark))
            raise

    async def _unmark(self, key: str, mark: str) -> None:
        with suppress(StoreError):  # then it ends with its ttl
            await self._results.unmark(key, mark)


def check_once(key: str, run_it: Callable[..., T], ttl: float) -> Callable[[Any], T]:
    """Return ``run_it`` as a function of the lease; `InvalidRequest` for arguments that `once` cannot take."""
    validation.check_name(key)
    if not callable(run_it):  # pyright: ignore[reportUnnecessaryComparison] - callers need not type-check
        raise InvalidRequest(f"once takes a function to run, not {type(run_it).__name__}")
    check_keep(ttl)
    required = _required_parameters(run_it)
    if required > 1:
        raise InvalidRequest(
            f"once runs a function without parameters, or with one for the lease, not with {required}"
        )
    return run_it if required else lambda _lease: run_it()


def _required_parameters(function: Callable[..., Any]) -> int:
    import inspect  # noqa: PLC0415 - slow to load, and few programs use `once`

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C
        return 0
    # Not those with a default, which the function may have for other reasons.
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in by_position and each.default is each.empty for each in parameters)


def check_keep(ttl: float) -> None:
    """Raise `InvalidRequest` for a time for which a result cannot be kept."""
    validation.check_duration(ttl, "ttl")
    if ttl > MAX_TTL:
        raise InvalidRequest(f"a result is kept for {MAX_TTL:g} seconds (a year) at most, not {ttl!r}")


def key_of(operation: str, unique_key: str | int) -> str:
    """Return the key of one occurrence of an operation."""
    if not isinstance(operation, str) or not operation or ":" in operation:  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"operation must be text without a colon, not {operation!r}")
    if isinstance(unique_key, bool) or not isinstance(unique_key, str | int) or unique_key == "":  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"unique_key must be text or a whole number, not {unique_key!r}")
    return validation.check_name(f"{operation}:{unique_key}")


def encode_result(key: str, result: Any) -> str:
    """Return ``result`` as JSON."""
    try:
        encoded = json.dumps(result, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"the result of {key!r} cannot be kept, because it is not JSON ({error}). "
            "The work was run, and the next caller runs it again"
        ) from error
    if len(encoded) > MAX_RESULT_BYTES:
        raise InvalidRequest(
            f"the result of {key!r} takes {len(encoded)} bytes as JSON; at most {MAX_RESULT_BYTES} can be kept"
        )
    return encoded
