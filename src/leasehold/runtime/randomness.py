"""Secrets and jitter."""

from __future__ import annotations

import os
import random


class SystemRandom:
    """Implements `leasehold.core.ports.Random`."""

    def __init__(self) -> None:
        # Jitter need not be secret, but two clients that start together must not pause in step.
        self._jitter = random.Random()  # noqa: S311

    def token(self) -> str:
        """A fresh 128-bit secret, straight from the system: nothing is kept that a fork could repeat."""
        return os.urandom(16).hex()

    def fraction(self) -> float:
        """A number in [0, 1)."""
        return self._jitter.random()
