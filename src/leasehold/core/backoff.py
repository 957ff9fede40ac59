"""Pauses between tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double from ``first`` up to ``cap``, each spread over its upper half.

    The spread keeps callers that failed together from coming back together; half of each pause is fixed
    so that no caller floods the store.
    """

    first: float
    cap: float

    def pause(self, tries: int, fraction: float) -> float:
        """Return the pause after ``tries`` failures in a row (from 1), given a random ``fraction`` in [0, 1)."""
        # The exponent is bounded: 2.0 ** 2000, after hours without a server, would overflow.
        full = min(self.cap, self.first * 2.0 ** min(tries - 1, 32))
        return full * (0.5 + 0.5 * fraction)
