"""Prometheus metrics of file locks, under the names that orchestrators use: ``orchestrator_file_lock_…``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.extras import requires_extra

with requires_extra(__name__, "observe"):
    from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from leasehold.core.observer import Operation, Outcome, RateLimitChecked, Result

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_OUTCOMES: dict[Outcome, str] = {
    "success": "success",
    "busy": "busy",
    "timeout": "busy",
    "rate_limited": "rate_limited",
}
_REASONS = frozenset({"room_busy", "lock_contended", "lock_timeout"})


class FileMetrics:
    """The attempts of sessions and their outcomes. ``operation`` is read, write, upgrade or restore."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, about: str, *labels: str) -> Counter:
            return Counter(f"orchestrator_file_lock_{name}", about, labels, registry=registry)

        def histogram(name: str, about: str, *labels: str) -> Histogram:
            return Histogram(
                f"orchestrator_file_lock_{name}", about, labels, registry=registry, buckets=_BUCKETS
            )

        self._attempts = counter("attempts_total", "Attempts to lock files.", "operation", "outcome")
        self._attempt = histogram("attempt_seconds", "Duration of attempts.", "operation", "outcome")
        self._acquire = histogram("acquire_seconds", "Duration of successful attempts.", "operation")
        self._contention = counter(
            "contention_total", "Attempts that another session delayed or refused.", "operation", "reason"
        )
        self._rate_limit = counter("rate_limit_total", "Rate limit checks.", "operation", "result")
        self._release = counter("release_total", "Files released.", "outcome")

    def count(self, operation: Operation, result: Result) -> None:
        """Count a finished attempt, unless there was nothing to do."""
        if result.outcome == "nothing":
            return
        outcome = _OUTCOMES.get(result.outcome, "error")
        if operation.verb == "release":
            self._release.labels(outcome).inc()
            return
        self._attempts.labels(operation.verb, outcome).inc()
        self._attempt.labels(operation.verb, outcome).observe(result.seconds)
        if outcome == "success":
            self._acquire.labels(operation.verb).observe(result.seconds)
        elif outcome == "busy":
            self._contention.labels(operation.verb, _reason_of(result)).inc()

    def count_check(self, checked: RateLimitChecked) -> None:
        """Count one check of a session's rate limit."""
        self._rate_limit.labels(checked.verb, "allowed" if checked.is_allowed else "blocked").inc()


def _reason_of(result: Result) -> str:
    reason = getattr(result.error, "reason", None)
    if reason in _REASONS:
        return str(reason)
    return "lock_timeout" if result.outcome == "timeout" else "lock_contended"
