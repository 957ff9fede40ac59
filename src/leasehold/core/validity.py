"""Durations of leases: the part a holder may rely on, and milliseconds for the store."""

from __future__ import annotations

from math import ceil

# Two clocks that are to agree on an interval may differ by this much: one percent of it, as Redlock
# allows, and two milliseconds for the resolution of the server's expiry.
_DRIFT_PER_SECOND = 0.01
_DRIFT_ALWAYS = 0.002


def trusted_for(ttl: float) -> float:
    """Return the part of a ``ttl`` that a holder may rely on, whichever clock runs faster."""
    return ttl - ttl * _DRIFT_PER_SECOND - _DRIFT_ALWAYS


def drifted(seconds: float) -> float:
    """Return the least that ``seconds`` on one clock can be on another; negative ones count backwards."""
    return seconds - abs(seconds) * _DRIFT_PER_SECOND


def ttl_for(trusted: float) -> float:
    """Return the ttl to ask for so that ``trusted`` seconds of it can be relied on."""
    return (trusted + _DRIFT_ALWAYS) / (1 - _DRIFT_PER_SECOND)


def to_ms(seconds: float) -> int:
    """Return whole milliseconds, rounded up: the store must not end a lease before its holder does."""
    return ceil(seconds * 1000)
