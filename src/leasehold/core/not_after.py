"""Requests with a not-after: a moment after which the store must not do them.

A request that was lost with its connection may still be delivered, seconds later, by something in between. Most do no
harm then: a token is used once, and a renewal never shortens. A take, `lock_all`, an upgrade or a renewal to a shorter
ttl does. So these say until when they may be done, on the store's clock, and such a request is repeated only when
the one before it cannot be done any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from leasehold.core.replies import NotAfter, TooLate
from leasehold.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.backoff import Backoff
    from leasehold.core.ports import Clock, Random

T = TypeVar("T")

# Long enough for a slow network, short enough to be waited for when a connection breaks.
_FIRST_AT_MOST = 0.5


def first_allowance(timeout: float) -> float:
    """Return the seconds within which the store has to do the first request."""
    return min(_FIRST_AT_MOST, timeout / 2)


class RetryPorts(Protocol):
    """The part of the engine that a retry uses."""

    clock: Clock
    random: Random
    timeout: float
    backoff: Backoff


class NotAfterRetry:
    """Repeats a request with a not-after until there is a reply or the engine's timeout has passed.

    ``was_silent``: a request that was sent got no reply, so it may have been done.
    """

    def __init__(self, engine: RetryPorts) -> None:
        self._engine = engine
        self.was_silent = False

    async def run(self, ask: Callable[[NotAfter], Coroutine[Any, Any, T]]) -> T:
        """Return the reply to ``ask``; `StoreUnavailable` if there is none."""
        engine = self._engine
        now = engine.clock.now()
        give_up_at = now + engine.timeout
        allowance = first_allowance(engine.timeout)
        tries = 0
        while True:
            tries += 1
            not_after = NotAfter(now + allowance)
            try:
                return await ask(not_after)
            except TooLate as error:
                # The store's clock is known now. Longer, because the way to the store may take so long.
                allowance = min(2 * allowance, engine.timeout)
                failure, settled_at = error, 0.0
            except StoreUnavailable as error:
                self.was_silent = self.was_silent or not_after.is_sent
                failure, settled_at = error, not_after.at if not_after.is_sent else 0.0
            now = engine.clock.now()
            if now >= give_up_at or settled_at > give_up_at:
                raise failure
            pause = min(engine.backoff.pause(tries, engine.random.fraction()), give_up_at - now)
            if tries == 1 and isinstance(failure, TooLate):
                # Nothing to pause for: it was our reading of the store's clock that was old or missing.
                pause = 0.0
            await engine.clock.sleep(max(pause, settled_at - now))
            now = engine.clock.now()
