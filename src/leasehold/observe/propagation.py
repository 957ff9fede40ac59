"""Propagates the ids of trace and request between services: W3C ``traceparent`` and ``x-request-id``."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from leasehold.extras import requires_extra
from leasehold.observe.request_id import REQUEST_ID_HEADER, is_safe, request_id

with requires_extra(__name__, "observe"):
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, MutableMapping

# Not the process's global propagator: baggage, for one, may contain private data.
_W3C = TraceContextTextMapPropagator()


class _Request(Protocol):
    @property
    def headers(self) -> MutableMapping[str, str]: ...


def outgoing_headers() -> dict[str, str]:
    """The headers that continue the current trace and request in a called service; empty without either.

    They can be sent over any transport: HTTP, a message, the environment of a process.
    """
    headers: dict[str, str] = {}
    _W3C.inject(headers)
    if (name := request_id.get()) != "-":
        headers[REQUEST_ID_HEADER] = name
    return headers


@contextmanager
def continued(headers: Mapping[str, str]) -> Generator[None]:
    """Inside the block, continue the trace and the request of ``headers`` (names in lower case).

    Malformed values are ignored.
    """
    token = context.attach(_W3C.extract(dict(headers)))
    name = headers.get(REQUEST_ID_HEADER, "")
    request = request_id.set(name) if is_safe(name) else None
    try:
        yield
    finally:
        if request is not None:
            request_id.reset(request)
        context.detach(token)


def pass_on(request: _Request) -> None:
    """For ``httpx.Client(event_hooks={"request": [pass_on]})``."""
    request.headers.update(outgoing_headers())


async def pass_on_async(request: _Request) -> None:
    """For ``httpx.AsyncClient(event_hooks={"request": [pass_on_async]})``."""
    request.headers.update(outgoing_headers())


def current_ids() -> dict[str, str]:
    """The current ``trace_id``, ``span_id`` and ``request_id`` for a log line, without those that are not set."""
    ids: dict[str, str] = {}
    span = trace.get_current_span().get_span_context()
    if span.is_valid:
        ids["trace_id"] = trace.format_trace_id(span.trace_id)
        ids["span_id"] = trace.format_span_id(span.span_id)
    if (name := request_id.get()) != "-":
        ids["request_id"] = name
    return ids
