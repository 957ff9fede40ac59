"""Spans around lock operations, in the caller's trace, across processes; without secrets."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from tests.observe.recorder import SCRIPTED, play, play_blocking
from tests.support.eventually import LIMIT

import leasehold
from leasehold.observe import observe
from leasehold.observe.propagation import continued, current_ids, outgoing_headers, pass_on, pass_on_async
from leasehold.observe.request_id import request_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace import ReadableSpan
    from tests.support.processes import Child
    from tests.support.servers import Server

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Traces:
    """A provider of the test's own, and what has ended in it."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._kept = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = self.provider.get_tracer("test")

    def watch(self, locks: Any) -> None:
        observe(locks, metrics=False, logging=False, tracer_provider=self.provider)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._kept.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found


@pytest.fixture
def traces() -> Iterator[Traces]:
    made = Traces()
    yield made
    made.provider.shutdown()


def _names() -> list[str]:
    return [
        f"leasehold.{verb}" if kind == "lock" else f"leasehold.{kind}.{verb}" for kind, verb, _ in SCRIPTED
    ]


async def test_every_operation_is_a_span_under_the_callers(valkey: Server, traces: Traces) -> None:
    async with leasehold.connect(valkey.url) as locks:
        traces.watch(locks)
        with traces.tracer.start_as_current_span("caller") as caller:
            await play(locks)
            assert trace.get_current_span() is caller, "each operation leaves the trace as it found it"
    spans = traces.spans[:-1]
    assert [span.name for span in spans] == _names()
    above = {span.context.span_id: span.name for span in traces.spans}
    parents = {(span.name, above[span.parent.span_id]) for span in spans}
    assert ("leasehold.once.acquire", "leasehold.once.once") in parents
    assert {parent for name, parent in parents if not name.startswith("leasehold.once")} == {"caller"}
    assert {span.context.trace_id for span in spans} == {caller.get_span_context().trace_id}


def test_threads_have_the_same_spans(valkey: Server, traces: Traces) -> None:
    with leasehold.blocking.connect(valkey.url) as locks:
        traces.watch(locks)
        play_blocking(locks)
    assert [span.name for span in traces.spans] == _names()


async def test_a_span_has_the_outcome(valkey: Server, traces: Traces) -> None:
    async with leasehold.connect(valkey.url) as locks:
        traces.watch(locks)
        reset = request_id.set("request-7")
        lease = await locks.acquire("deal:42")
        request_id.reset(reset)
        assert await locks.try_acquire("deal:42") is None
        await locks.take("deal:42")
        await lease.lost(LIMIT)
        with pytest.raises(leasehold.LeaseLost):
            await lease.release()
    acquired = traces.named("leasehold.acquire")
    assert dict(acquired.attributes or {}) == {
        "leasehold.kind": "lock",
        "leasehold.operation": "acquire",
        "leasehold.name": "deal:42",
        "leasehold.mode": "exclusive",
        "leasehold.request_id": "request-7",
        "leasehold.outcome": "success",
        "leasehold.fence": lease.fence,
        "server.address": f"127.0.0.1:{valkey.port}",
    }
    refused = traces.named("leasehold.try_acquire")
    assert refused.attributes
    assert (refused.attributes["leasehold.outcome"], refused.attributes["error.type"]) == (
        "busy",
        "lock_busy",
    )
    assert refused.status.status_code is StatusCode.UNSET, "busy is an answer, no failure"
    lost = traces.named("leasehold.release")
    assert lost.status.status_code is StatusCode.ERROR


async def test_once_only_work_is_inside_the_span(valkey: Server, traces: Traces) -> None:
    async def work() -> int:
        with traces.tracer.start_as_current_span("payout"):
            return 1

    async with leasehold.connect(valkey.url) as locks:
        traces.watch(locks)
        await locks.once("job", work)
    parent = traces.named("payout").parent
    assert parent
    assert parent.span_id == traces.named("leasehold.once.once").context.span_id


async def test_tasks_side_by_side_keep_their_traces_apart(valkey: Server, traces: Traces) -> None:
    async with leasehold.connect(valkey.url) as locks:
        traces.watch(locks)

        async def one(number: int) -> None:
            with traces.tracer.start_as_current_span(f"caller-{number}"):
                for _ in range(3):
                    async with locks.lock("contended", wait=60):
                        await asyncio.sleep(0)

        await asyncio.gather(*(one(number) for number in range(8)))
    above = {span.context.span_id: span for span in traces.spans}
    callers = [span for span in traces.spans if span.name.startswith("caller")]
    children = [span for span in traces.spans if span.parent]
    assert (len(callers), len(children)) == (8, 8 * 3 * 2)
    for child in children:
        assert above[child.parent.span_id].context.trace_id == child.context.trace_id
        assert above[child.parent.span_id] in callers


async def test_an_abandoned_acquire_does_not_affect_other_traces(
    valkey: Server, traces: Traces, caplog: pytest.LogCaptureFixture
) -> None:
    async with leasehold.connect(valkey.url) as holder, leasehold.connect(valkey.url) as locks:
        traces.watch(locks)
        await holder.acquire("a")
        given_up = locks.acquire("a", wait=60)
        await asyncio.create_task(_begin(given_up))  # in a context of its own, which is gone by then
        with traces.tracer.start_as_current_span("elsewhere") as elsewhere:
            given_up.close()
            assert trace.get_current_span() is elsewhere
    assert traces.named("leasehold.acquire").attributes["leasehold.outcome"] == "cancelled"
    assert "detach" not in caplog.text


async def _begin(coroutine: Any) -> None:
    coroutine.send(None)


async def hold_in_this_trace(parent: Any, url: str, headers: dict[str, str]) -> None:
    """What the child process does: lock as a part of the trace and the request that it was given."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    import leasehold
    from leasehold.observe import observe
    from leasehold.observe.propagation import continued

    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    async with leasehold.connect(url) as locks:
        observe(locks, metrics=False, logging=False, tracer_provider=provider)
        with continued(headers):
            async with locks.lock("deal:42"):
                pass
        await (await locks.acquire("elsewhere")).release()
    for span in kept.get_finished_spans():
        parent.send(
            name=span.name,
            trace_id=f"{span.context.trace_id:032x}",
            parent_id=f"{span.parent.span_id:016x}" if span.parent else None,
            request_id=span.attributes.get("leasehold.request_id"),
        )


async def test_a_child_process_continues_its_parents_trace(
    valkey: Server, traces: Traces, spawn: Callable[..., Child]
) -> None:
    with traces.tracer.start_as_current_span("parent") as span:
        reset = request_id.set("request-8")
        headers = outgoing_headers()
        request_id.reset(reset)
    child = spawn(hold_in_this_trace, valkey.url, headers)
    told = [await child.aread(LIMIT) for _ in range(4)]
    here = span.get_span_context()
    for each, name in zip(told[:2], ("leasehold.acquire", "leasehold.release"), strict=True):
        assert each == {
            "name": name,
            "trace_id": f"{here.trace_id:032x}",
            "parent_id": f"{here.span_id:016x}",
            "request_id": "request-8",
        }
    for each in told[2:]:
        assert each["trace_id"] != f"{here.trace_id:032x}"
        assert (each["parent_id"], each["request_id"]) == (None, None)


def test_headers_are_propagated_unchanged() -> None:
    assert outgoing_headers() == {}
    with continued({"traceparent": TRACEPARENT, "x-request-id": "request-9", "baggage": "secret=CANARY"}):
        assert outgoing_headers() == {"traceparent": TRACEPARENT, "x-request-id": "request-9"}
        assert current_ids() == {
            "trace_id": TRACEPARENT[3:35],
            "span_id": TRACEPARENT[36:52],
            "request_id": "request-9",
        }
    assert (outgoing_headers(), current_ids()) == ({}, {})


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"traceparent": "nonsense"},
        {"traceparent": TRACEPARENT.replace("00-", "ff-", 1)},
        {"traceparent": "00-" + "0" * 32 + "-" + "0" * 16 + "-01"},
        {"x-request-id": "two\nlines"},
        {"x-request-id": "x" * 129},
    ],
    ids=["none", "nonsense", "version", "zeros", "lines", "long"],
)
def test_malformed_headers_are_not_propagated(headers: dict[str, str]) -> None:
    with continued(headers):
        assert outgoing_headers() == {}


async def test_httpx_propagates_the_ids() -> None:
    seen: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append({name: request.headers.get(name, "") for name in ("traceparent", "x-request-id")})
        return httpx.Response(204)

    transport = httpx.MockTransport(answer)
    with continued({"traceparent": TRACEPARENT, "x-request-id": "request-9"}):
        with httpx.Client(transport=transport, event_hooks={"request": [pass_on]}) as client:
            client.get("http://localhost/")
        hooks = {"request": [pass_on_async]}
        async with httpx.AsyncClient(transport=transport, event_hooks=hooks) as client:
            await client.get("http://localhost/")
    assert seen == [{"traceparent": TRACEPARENT, "x-request-id": "request-9"}] * 2


async def test_no_secret_is_in_a_span(own_server: Callable[..., Server], traces: Traces) -> None:
    store = own_server("valkey9", user=["holder on >PASSWORD-CANARY ~* &* +@all"])
    tokens: list[str] = []

    def fail() -> None:
        raise ValueError("the message is RESULT-CANARY")

    url = f"redis://holder:PASSWORD-CANARY@127.0.0.1:{store.port}"
    async with leasehold.connect(url, timeout=3) as locks:
        traces.watch(locks)
        lease = await locks.acquire("a")
        tokens.append(lease.token)
        with pytest.raises(ValueError, match="CANARY"):
            await locks.once("job", fail)
        store.kill()
        with pytest.raises(leasehold.StoreUnavailable):
            await lease.renew()
    written = "".join(span.to_json() for span in traces.spans)
    assert "leasehold.renew" in written
    assert '"unavailable"' in written
    assert not re.search("CANARY", written)
    assert tokens[0] not in written
