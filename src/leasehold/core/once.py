"""Work that is done once: what is kept of it, and what is said meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from leasehold.core import bounds
from leasehold.errors import InProgress, InvalidRequest, LeaseLost, describe_holder

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.engine import Engine
    from leasehold.core.lease import LeaseState
    from leasehold.core.ports import Results
    from leasehold.errors import LockBusy

MAX_RESULT_BYTES = 1 << 20
MAX_TTL = 366 * 86400.0


class Once:
    """Remembers results, over its ports; the run itself is the caller's."""

    def __init__(self, engine: Engine[Any], results: Results) -> None:
        self._engine = engine
        self._results = results

    async def recall(self, key: str) -> Any | None:
        """What was kept under ``key``, in a list of one; None if nothing was."""
        kept = await self._insist(lambda: self._results.recall(key))
        return None if kept is None else [json.loads(kept)]

    async def finish(self, lease: LeaseState, result: Any, ttl: float) -> Any:
        """Keep ``result`` and end the lease, in one step; the result as everybody after will get it.

        Raises `LeaseLost` if the lease had ended before: somebody else may have run it meanwhile, and what
        they keep counts.
        """
        encoded = encode_result(lease.name, result)
        lease.check()
        if not await self._insist(lambda: self._results.keep(lease.name, lease.token, encoded, ttl)):
            lease.end("expired")
            raise LeaseLost(lease.name, "expired")
        lease.is_given_back = True
        lease.end("released")
        return json.loads(encoded)

    async def first_time(self, key: str, ttl: float) -> bool:
        """Whether nobody has asked this before."""
        mark = self._engine.random.token()
        return await self._insist(lambda: self._results.mark(key, mark, ttl))

    async def _insist(self, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        return await self._engine.insist(ask, self._engine.clock.now())


def check_once(key: str, run_it: object, ttl: float) -> None:
    """Refuse what cannot be done once."""
    bounds.check_name(key)
    if not callable(run_it):
        raise InvalidRequest(f"once takes a function to run, not {type(run_it).__name__}")
    check_keep(ttl)


def check_keep(ttl: float) -> None:
    """Refuse a time for which nothing can be remembered."""
    bounds.check_duration(ttl, "ttl")
    if ttl > MAX_TTL:
        raise InvalidRequest(f"a result is kept for {MAX_TTL:g} seconds (a year) at most, not {ttl!r}")


def key_of(operation: str, unique_key: str | int) -> str:
    """The key of one occurrence of an operation."""
    if not isinstance(operation, str) or not operation or ":" in operation:  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"an operation is named by text without a colon, not {operation!r}")
    if isinstance(unique_key, bool) or not isinstance(unique_key, str | int) or unique_key == "":  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
        raise InvalidRequest(f"a unique key is text or a whole number, not {unique_key!r}")
    return bounds.check_name(f"{operation}:{unique_key}")


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


def in_progress(key: str, busy: LockBusy) -> InProgress:
    """The error for a caller that came while the work was being done."""
    by = f" by {describe_holder(busy.holder)}" if busy.holder is not None else ""
    return InProgress(f"{key!r} is being run{by} right now", holder=busy.holder, retry_after=busy.retry_after)
