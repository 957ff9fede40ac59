"""Settings of file locks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leasehold.core.validation import MIN_TTL, check_wait
from leasehold.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_SECONDS = 30 * 86400.0
_MAX_NUMBER = 10**12


@dataclass(frozen=True, slots=True)
class FileSettings:
    """Times in seconds; `InvalidRequest` for values out of range.

    ``ttl`` of a lease and ``wait`` for it are the defaults of a call; a ttl above ``max_ttl`` is trimmed to it. A session
    is forgotten after ``session_ttl`` without use, and its history ``history_ttl`` after its last change (None: at the
    same time as the session).

    ``rate_limit`` attempts to lock or restore are allowed to a session in any ``rate_window``, which is rounded up to
    whole seconds; None is no limit. Counted in this process, or for all processes in the store at ``rate_limit_url``.
    """

    ttl: float = 30.0
    max_ttl: float = 300.0
    wait: float | None = 5.0
    session_ttl: float = 86400.0
    history_ttl: float | None = None
    rate_limit: int | None = None
    rate_window: float = 60.0
    rate_limit_url: str | None = field(default=None, repr=False)  # it may have a password in it

    def __post_init__(self) -> None:
        _check_seconds(self.max_ttl, "max_ttl", least=MIN_TTL, most=300.0)
        _check_seconds(self.ttl, "ttl", least=MIN_TTL, most=math.inf)
        check_wait(self.wait)
        _check_seconds(self.session_ttl, "session_ttl", least=1.0, most=_MAX_SECONDS)
        if self.history_ttl is not None:
            _check_seconds(self.history_ttl, "history_ttl", least=1.0, most=_MAX_SECONDS)
        _check_seconds(self.rate_window, "rate_window", least=0.001, most=86400.0)
        limit: Any = self.rate_limit
        if limit is not None and (type(limit) is not int or not 1 <= limit <= 10**6):
            raise InvalidRequest(
                f"rate_limit must be a whole number from 1 to 1000000, or None, not {limit!r}"
            )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> FileSettings:
        """The settings in ``environ``, such as ``os.environ``; the defaults for the rest.

        ``LOCK_TTL_MS``, ``LOCK_HISTORY_TTL_SEC``, ``LOCK_RATE_LIMIT_PER_MIN``, ``LOCK_RATE_LIMIT_WINDOW_MS``,
        ``ORCHESTRATOR_RATE_LIMIT_BACKEND`` (``memory`` or ``redis``) and with ``redis``
        ``ORCHESTRATOR_RATE_LIMIT_REDIS_URL`` or ``RATE_LIMIT_REDIS_URL``. An empty value counts as not set.
        """
        found = {name: text.strip() for name, text in environ.items() if text.strip()}
        given: dict[str, Any] = {}
        if (ttl_ms := _whole_number(found, "LOCK_TTL_MS")) is not None:
            given["ttl"] = ttl_ms / 1000
        if (history := _whole_number(found, "LOCK_HISTORY_TTL_SEC")) is not None:
            given["history_ttl"] = float(history)
        if (limit := _whole_number(found, "LOCK_RATE_LIMIT_PER_MIN")) is not None:
            given["rate_limit"] = limit
        if (window_ms := _whole_number(found, "LOCK_RATE_LIMIT_WINDOW_MS")) is not None:
            given["rate_window"] = window_ms / 1000
        if (url := _rate_limit_url(found)) is not None:
            given["rate_limit_url"] = url
        return cls(**given)


def _rate_limit_url(found: Mapping[str, str]) -> str | None:
    backend = found.get("ORCHESTRATOR_RATE_LIMIT_BACKEND", "memory")
    if backend == "memory":
        return None
    if backend != "redis":
        raise InvalidRequest(f"ORCHESTRATOR_RATE_LIMIT_BACKEND must be 'memory' or 'redis', not {backend!r}")
    url = found.get("ORCHESTRATOR_RATE_LIMIT_REDIS_URL") or found.get("RATE_LIMIT_REDIS_URL")
    if url is None:
        raise InvalidRequest(
            "ORCHESTRATOR_RATE_LIMIT_BACKEND=redis needs ORCHESTRATOR_RATE_LIMIT_REDIS_URL or RATE_LIMIT_REDIS_URL"
        )
    return url


def _whole_number(found: Mapping[str, str], name: str) -> int | None:
    text = found.get(name)
    if text is None:
        return None
    is_number = text.isascii() and text.isdigit()
    digits = text.lstrip("0") if is_number else ""
    # By its length first: a number that is far too long is not parsed.
    if not digits or len(digits) > len(str(_MAX_NUMBER)) or int(digits) > _MAX_NUMBER:
        raise InvalidRequest(f"{name} must be a whole number from 1 to {_MAX_NUMBER}, not {text!r}")
    return int(digits)


def _check_seconds(seconds: Any, what: str, *, least: float, most: float) -> None:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not (is_number and least <= seconds <= most):
        limit = "" if math.isinf(most) else f" to {most:g}"
        raise InvalidRequest(f"{what} must be a number of seconds from {least:g}{limit}, not {seconds!r}")
