"""``observe()``: installs metrics, tracing and logging on a client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from leasehold.core.observer import Observer, Observers


class Observable(Protocol):
    """An async or blocking client, or an object built on one that shares its observers."""

    @property
    def lookout(self) -> Observers:
        """Where observers are added."""
        ...


def observe(
    locks: Observable,
    *,
    metrics: bool = True,
    tracing: bool = True,
    logging: bool = True,
    registry: CollectorRegistry | None = None,
    tracer_provider: TracerProvider | None = None,
    logger: Any = None,
    purpose_of: Callable[[str], str | None] | None = None,
) -> None:
    """Count, trace and log every operation of ``locks`` from now on; each of the three can be switched off.

    Metrics are registered in ``registry`` (default: prometheus-client's own), once, however many clients share it.
    Spans go to ``tracer_provider`` (default: the process's), log lines to ``logger`` (default: JSON in the logger
    ``leasehold.observe``, operations at ``DEBUG``). ``purpose_of`` gives the label ``purpose`` for the name of a lock,
    as `leasehold.operations.Purposes.purpose_of` does.

    Call it once for each client: a second call counts everything twice. Exceptions in observers are logged and never
    reach the caller of the lock. If a package is not installed, `ModuleNotFoundError` names the extra, and no observer
    is added.
    """
    # Imported only if requested: metrics alone need no OpenTelemetry.
    where = locks.lookout.where
    found: list[Observer] = []
    if tracing:  # first, so that the other observers run inside the span
        from leasehold.observe.tracing import TracingObserver  # noqa: PLC0415 - see above

        found.append(TracingObserver(tracer_provider, where=where))
    if metrics:
        from leasehold.observe.metrics import MetricsObserver, metrics_in  # noqa: PLC0415 - see above

        found.append(MetricsObserver(metrics_in(registry), purpose_of))
    if logging:
        from leasehold.observe.logging import LoggingObserver  # noqa: PLC0415 - see above

        found.append(LoggingObserver(logger, where=where))
    for observer in found:
        locks.lookout.add(observer)
