"""OpenTelemetry spans around lock operations. Without an SDK in the application they are cheap no-ops."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from leasehold.extras import requires_extra
from leasehold.observe.request_id import request_id

with requires_extra(__name__, "observe"):
    from opentelemetry import context, trace
    from opentelemetry.trace import SpanKind, Status, StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Span, TracerProvider

    from leasehold.core.observer import Event, Operation, Result

# Busy and cancelled are normal outcomes; these need attention.
_ERRORS = frozenset({"unavailable", "refused", "lost", "error"})


class TracingObserver:
    """Implements `leasehold.core.observer.Observer`: each operation is a span, and the current one while it lasts.

    Attributes are the lock's name and the outcome. They never contain tokens, nor the message of an exception, which
    may come from any code: only its type.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None, *, where: str = "") -> None:
        self._tracer = trace.get_tracer("leasehold", version("leasehold"), tracer_provider)
        self._where = where

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        """Start the operation's span."""
        subject = "" if operation.kind == "lock" else f"{operation.kind}."
        span = self._tracer.start_span(
            f"leasehold.{subject}{operation.verb}",
            kind=SpanKind.CLIENT,
            attributes=self._attributes(operation),
        )
        ours = trace.set_span_in_context(span)
        token = context.attach(ours)

        def end(result: Result) -> None:
            # An abandoned coroutine is closed by the garbage collector in any context.
            if context.get_current() is ours:
                context.detach(token)
            _set_outcome(span, result)
            span.end()

        return end

    def hear(self, event: Event) -> None:
        """Ignore events: background work has no span."""

    def _attributes(self, operation: Operation) -> dict[str, str]:
        about = {
            "leasehold.kind": operation.kind,
            "leasehold.operation": operation.verb,
            "leasehold.name": operation.name,
        }
        if operation.mode is not None:
            about["leasehold.mode"] = operation.mode
        if self._where:
            about["server.address"] = self._where
        if (asked_by := request_id.get()) != "-":
            about["leasehold.request_id"] = asked_by
        return about


def _set_outcome(span: Span, result: Result) -> None:
    if not span.is_recording():
        return
    span.set_attribute("leasehold.outcome", result.outcome)
    for name, value in (
        ("leasehold.fence", result.fence),
        ("leasehold.waited_seconds", result.waited),
        ("leasehold.hand_over_seconds", result.handed_over),
        ("leasehold.queue_length", result.queue),
    ):
        if value is not None:
            span.set_attribute(name, value)
    if result.error is not None:
        span.set_attribute("error.type", getattr(result.error, "code", type(result.error).__name__))
    if result.outcome in _ERRORS:
        span.set_status(Status(StatusCode.ERROR, result.outcome))
