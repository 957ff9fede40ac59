"""Middleware for traces and metrics: a span per request that continues the caller's trace, and a measurement."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from leasehold.observe.request_id import request_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import Span
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Record = Callable[[str, str, int, float], None]

_W3C = TraceContextTextMapPropagator()
_OURS = (b"traceparent", b"tracestate")
_UNKNOWN = "unknown"
_FAILED = 500


class Telemetry:
    """The outermost middleware. Sockets are not traced: they stay open for hours, and are counted elsewhere."""

    def __init__(self, app: ASGIApp, *, record: Record | None) -> None:
        self._app = app
        self._record = record
        self._tracer = trace.get_tracer("leasehold.server")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application in a span."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began_at = time.perf_counter()
        span = self._tracer.start_span(scope["method"], context=_caller_of(scope), kind=SpanKind.SERVER)
        token = context.attach(trace.set_span_in_context(span))
        response = _Response(send, span)
        try:
            await self._app(scope, receive, response.send)
        finally:
            context.detach(token)
            route = _route_of(scope)
            _end_span(span, scope["method"], route, response.status)
            if self._record is not None:
                self._record(scope["method"], route, response.status, time.perf_counter() - began_at)


class _Response:
    """Records the status, and adds a header with the span's place in the trace."""

    __slots__ = ("_send", "_span", "status")

    def __init__(self, send: Send, span: Span) -> None:
        self._send = send
        self._span = span
        self.status = _FAILED  # a request without a response has failed

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            place = self._span.get_span_context()
            if place.is_valid:
                header = f"00-{place.trace_id:032x}-{place.span_id:016x}-{place.trace_flags & 0xFF:02x}"
                message["headers"] = [*message["headers"], (b"traceresponse", header.encode())]
        await self._send(message)


def _caller_of(scope: Scope) -> context.Context:
    """The trace context of the request's headers; an empty one without valid headers."""
    headers = {key.decode(): value.decode("latin-1") for key, value in scope["headers"] if key in _OURS}
    return _W3C.extract(headers, context=context.Context()) if headers else context.Context()


def _route_of(scope: Scope) -> str:
    """The template of the route, because the number of paths is unbounded."""
    route: Any = scope.get("route")
    return getattr(route, "path", None) or _UNKNOWN


def _end_span(span: Span, method: str, route: str, status: int) -> None:
    if span.is_recording():
        span.update_name(f"{method} {route}")
        span.set_attributes(
            {
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
                "leasehold.request_id": request_id.get(),
            }
        )
        if status >= _FAILED:
            span.set_status(Status(StatusCode.ERROR))
    span.end()
