"""Around every request: a span that continues the caller's trace, and a place in the metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from leasehold.observe.request_id import request_id

if TYPE_CHECKING:
    from opentelemetry.trace import Span
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from leasehold.server.app.metrics import ServerMetrics

_W3C = TraceContextTextMapPropagator()
_OURS = (b"traceparent", b"tracestate")
_UNKNOWN = "unknown"
_FAILED = 500


class Telemetry:
    """The outermost layer. Sockets pass: a connection that stays for hours is no span, and is counted elsewhere."""

    def __init__(self, app: ASGIApp, *, metrics: ServerMetrics | None) -> None:
        self._app = app
        self._metrics = metrics
        self._tracer = trace.get_tracer("leasehold.server")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and tell."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began_at = time.perf_counter()
        span = self._tracer.start_span(scope["method"], context=_caller_of(scope), kind=SpanKind.SERVER)
        token = context.attach(trace.set_span_in_context(span))
        reply = _Reply(send, span)
        try:
            await self._app(scope, receive, reply.send)
        finally:
            context.detach(token)
            route = _route_of(scope)
            _tell(span, scope["method"], route, reply.status)
            if self._metrics is not None:
                self._metrics.count(scope["method"], route, reply.status, time.perf_counter() - began_at)


class _Reply:
    """Notes the status, and answers with the place in the trace where the request was done."""

    __slots__ = ("_send", "_span", "status")

    def __init__(self, send: Send, span: Span) -> None:
        self._send = send
        self._span = span
        self.status = _FAILED  # if nothing is ever answered, it failed

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            place = self._span.get_span_context()
            if place.is_valid:
                said = f"00-{place.trace_id:032x}-{place.span_id:016x}-{place.trace_flags & 0xFF:02x}"
                message["headers"] = [*message["headers"], (b"traceresponse", said.encode())]
        await self._send(message)


def _caller_of(scope: Scope) -> context.Context:
    """Where the request comes from; nowhere if it does not say, or says it in a way that makes no sense."""
    said = {key.decode(): value.decode("latin-1") for key, value in scope["headers"] if key in _OURS}
    return _W3C.extract(said, context=context.Context()) if said else context.Context()


def _route_of(scope: Scope) -> str:
    """The route as it is written in this program: there is no end of paths."""
    route: Any = scope.get("route")
    return getattr(route, "path", None) or _UNKNOWN


def _tell(span: Span, method: str, route: str, status: int) -> None:
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
