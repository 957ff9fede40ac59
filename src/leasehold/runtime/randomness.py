"""Secrets and jitter."""

from __future__ import annotations

import os
import random

_TOKEN_BYTES = 16
_TOKENS_AT_ONCE = 64


class SystemRandom:
    """Implements `leasehold.core.ports.Random`.

    Tokens are drawn from the system in batches, because each draw is a system call. `after_fork` must be
    called in a child process: parent and child would otherwise return the same ones.
    """

    def __init__(self) -> None:
        # Jitter need not be secret, but two clients that start together must not pause in step.
        self._jitter = random.Random()  # noqa: S311 - not for secrets
        self._tokens: list[str] = []
        self.fraction = self._jitter.random

    def token(self) -> str:
        """Return a fresh 128-bit secret as 32 hexadecimal digits."""
        try:
            return self._tokens.pop()
        except IndexError:
            # A list of its own, so that threads that run out together do not return one token twice.
            digits = os.urandom(_TOKEN_BYTES * _TOKENS_AT_ONCE).hex()
            width = 2 * _TOKEN_BYTES
            fresh = [digits[start : start + width] for start in range(0, len(digits), width)]
            token = fresh.pop()
            self._tokens = fresh
            return token

    def after_fork(self) -> None:
        """In a child process: drop the tokens that the parent will return too."""
        self._tokens = []
        self._jitter.seed()
