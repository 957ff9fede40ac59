"""Prometheus metrics of locks of every kind: ``leasehold_…``."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from leasehold.core.observer import LeaseEnded, LossFound, Renewed
from leasehold.errors import StoreError
from leasehold.extras import requires_extra
from leasehold.valkey.transport.error_mapping import fault_of

with requires_extra(__name__, "observe"):
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

    from leasehold.observe.file_metrics import FileMetrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from leasehold.core.observer import Event, Operation, Result

    PurposeOf = Callable[[str], str | None]

_QUICK = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_WAIT = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_HOLD = (0.001, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 3600)
_QUEUE = (0, 1, 2, 3, 5, 10, 20, 50, 100, 500)
_ACQUIRING = frozenset({"acquire", "try_acquire", "take", "lock_all"})
# Purposes named after user input would otherwise fill the memory of this program and of Prometheus.
_MAX_PURPOSES = 100


class LockMetrics:
    """The metrics in one registry, created once by `metrics_in`. Lock names are never labels."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, about: str, labels: list[str], buckets: tuple[float, ...]) -> Histogram:
            return Histogram(
                f"leasehold_{name}", about, ["kind", "purpose", *labels], registry=registry, buckets=buckets
            )

        def counter(name: str, about: str, labels: list[str]) -> Counter:
            return Counter(f"leasehold_{name}", about, labels, registry=registry)

        self.operation = histogram(
            "operation_seconds", "Every lock operation.", ["operation", "outcome"], _QUICK
        )
        self.acquire = histogram(
            "acquire_seconds", "Attempts to acquire a lock, by any operation.", ["outcome"], _WAIT
        )
        self.wait = histogram(
            "wait_seconds", "The part of acquire_seconds after the lock was found busy.", ["outcome"], _WAIT
        )
        self.hold = histogram("hold_seconds", "From the grant to the end of a lease.", ["reason"], _HOLD)
        self.hand_over = histogram(
            "hand_over_seconds",
            "From the store's grant to its arrival at the waiter; an upper bound.",
            [],
            _QUICK,
        )
        self.queue = histogram("queue_length", "Waiters in the queue when a lock was found busy.", [], _QUEUE)
        self.renewals = counter(
            "renewals_total",
            "Renewals of leases, explicit or in the background.",
            ["kind", "purpose", "outcome"],
        )
        self.losses = counter(
            "losses_total", "Leases that ended without being released.", ["kind", "purpose", "reason"]
        )
        self.store_errors = counter(
            "store_errors_total", "Operations that failed in the store.", ["error", "code"]
        )
        self.under_way = Gauge(
            "leasehold_operations_under_way",
            "Operations in progress, including acquires that wait.",
            ["kind", "purpose", "operation"],
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.files = FileMetrics(registry)


class MetricsObserver:
    """Implements `leasehold.core.observer.Observer`; ``purpose_of`` maps a lock's name to its purpose."""

    def __init__(self, metrics: LockMetrics, purpose_of: PurposeOf | None = None) -> None:
        self._metrics = metrics
        self._purpose_of = purpose_of
        self._purposes: set[str] = set()
        # An attempt often fails with the error of an operation inside it, which is one fault.
        self._counted: weakref.WeakSet[StoreError] = weakref.WeakSet()

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        """Count the operation as under way until it ends."""
        if operation.is_attempt:
            return lambda result: self._count_attempt(operation, result)
        purpose = self._purpose(operation.name)
        under_way = self._metrics.under_way.labels(operation.kind, purpose, operation.verb)
        under_way.inc()

        def end(result: Result) -> None:
            under_way.dec()
            self._count(operation, result, purpose)

        return end

    def hear(self, event: Event) -> None:
        """Count the event."""
        metrics = self._metrics
        if isinstance(event, LeaseEnded):
            labels = (event.kind, self._purpose(event.name), event.reason)
            if event.held is not None:
                metrics.hold.labels(*labels).observe(event.held)
            if event.reason != "released":
                metrics.losses.labels(*labels).inc()
        elif isinstance(event, LossFound):
            metrics.losses.labels(event.kind, self._purpose(event.name), event.reason).inc()
        elif isinstance(event, Renewed):
            metrics.renewals.labels(event.kind, self._purpose(event.name), event.outcome).inc()
            self._count_fault(event.error)
        else:
            metrics.files.count_check(event)

    def _count(self, operation: Operation, result: Result, purpose: str) -> None:
        metrics, labels = self._metrics, (operation.kind, purpose)
        metrics.operation.labels(*labels, operation.verb, result.outcome).observe(result.seconds)
        if operation.verb in _ACQUIRING:
            metrics.acquire.labels(*labels, result.outcome).observe(result.seconds)
        elif operation.verb == "renew":
            metrics.renewals.labels(*labels, result.outcome).inc()
        if result.waited is not None:
            metrics.wait.labels(*labels, result.outcome).observe(result.waited)
        if result.handed_over is not None:
            metrics.hand_over.labels(*labels).observe(result.handed_over)
        if result.queue is not None:
            metrics.queue.labels(*labels).observe(result.queue)
        self._count_fault(result.error)

    def _count_attempt(self, operation: Operation, result: Result) -> None:
        self._metrics.files.count(operation, result)
        self._count_fault(result.error)

    def _count_fault(self, error: BaseException | None) -> None:
        fault = fault_of(error)
        if fault is None or not isinstance(error, StoreError) or error in self._counted:
            return
        self._counted.add(error)
        self._metrics.store_errors.labels(fault.kind, fault.code).inc()

    def _purpose(self, name: str) -> str:
        purpose = "" if self._purpose_of is None else self._purpose_of(name) or ""
        if purpose and purpose not in self._purposes:
            if len(self._purposes) >= _MAX_PURPOSES:
                return "other"
            self._purposes.add(purpose)
        return purpose


_registered: weakref.WeakKeyDictionary[CollectorRegistry, LockMetrics] = weakref.WeakKeyDictionary()
_registering = threading.Lock()


def metrics_in(registry: CollectorRegistry | None = None) -> LockMetrics:
    """The metrics in ``registry`` (default: prometheus-client's own), registered there on first use."""
    registry = registry or REGISTRY
    with _registering:
        if registry not in _registered:
            _registered[registry] = LockMetrics(registry)
        return _registered[registry]
