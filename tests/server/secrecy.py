"""What nobody may ever be told: tabs, tokens, tickets."""

from __future__ import annotations

_KEPT = 200


class Secrets:
    """Looks for the newest of them in everything that is said."""

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
            assert secret not in text, f"{secret!r} was told: {text}"
