"""Checks that no response and no message contains a secret: tab names, tokens, tickets."""

from __future__ import annotations

_KEPT = 200


class SecretsCheck:
    """Searches texts for the newest secrets."""

    def __init__(self) -> None:
        self._newest: dict[str, None] = {}

    def add(self, *secrets: str) -> None:
        for secret in secrets:
            self._newest.pop(secret, None)
            self._newest[secret] = None
        while len(self._newest) > _KEPT:
            del self._newest[next(iter(self._newest))]

    def check(self, text: str) -> None:
        for secret in self._newest:
            assert secret not in text, f"{secret!r} is in {text}"
