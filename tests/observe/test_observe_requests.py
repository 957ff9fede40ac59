"""A request to the server, and its locks, are part of the trace of the calling process."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.server.api import Api
from tests.server.served import QUICK, START
from tests.support.eventually import LIMIT
from tests.support.processes import Child

from leasehold.observe.propagation import pass_on_async

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Server


async def serve_and_tell(parent: Any, settings: dict[str, Any]) -> None:
    """The server, in a process of its own that collects traces; reports its port, and on request its new spans."""
    import asyncio

    import uvicorn
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from leasehold.server import Settings, create_app

    kept = InMemorySpanExporter()
    if settings.pop("collects"):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(kept))
        trace.set_tracer_provider(provider)
    app = create_app(Settings(**settings))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    serving = asyncio.create_task(server.serve())  # for as long as the process lives
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    parent.send(port=server.servers[0].sockets[0].getsockname()[1])
    while True:
        await asyncio.to_thread(parent.receive)
        while server.server_state.tasks:  # a request that was answered may not have ended yet
            await asyncio.sleep(0.01)
        spans = [
            {
                "name": span.name,
                "trace": f"{span.context.trace_id:032x}",
                "id": f"{span.context.span_id:016x}",
                "parent": f"{span.parent.span_id:016x}" if span.parent else None,
                "attributes": dict(span.attributes or {}),
            }
            for span in kept.get_finished_spans()
        ]
        kept.clear()
        parent.send(spans=spans)


class Remote:
    """The server in its child process."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.address = f"http://127.0.0.1:{child.read(START)['port']}"

    def spans(self) -> list[dict[str, Any]]:
        """What it has collected since it was last asked."""
        self._child.send()
        return self._child.read(LIMIT)["spans"]


@pytest.fixture(scope="module")
def remotes(
    service_store: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[bool], Remote]]:
    """A server that collects traces, and one that does not, each started when first asked for."""
    with ExitStack() as running:
        started: dict[bool, Remote] = {}

        def find(collects: bool) -> Remote:
            if collects not in started:
                where = {"data_dir": str(tmp_path_factory.mktemp("remote")), "store_url": service_store.url}
                settings = QUICK | where | {"collects": collects}
                started[collects] = Remote(running.enter_context(Child.spawn(serve_and_tell, settings)))
            return started[collects]

        yield find


@pytest.fixture
def remote(remotes: Callable[[bool], Remote]) -> Callable[..., Remote]:
    def find(*, collects: bool = True) -> Remote:
        server = remotes(collects)
        server.spans()  # those of other tests
        return server

    return find


async def test_a_request_and_its_locks_are_in_the_trace_of_the_calling_process(
    remote: Callable[..., Remote],
) -> None:
    server = remote()
    tracer = TracerProvider().get_tracer("test")
    hooks = {"request": [pass_on_async]}
    async with httpx.AsyncClient(base_url=server.address, timeout=LIMIT) as client, Api(client) as api:
        ana = await api.register("Ana")
        document = await ana.create_document()
        ana.http.event_hooks = hooks
        with tracer.start_as_current_span("caller") as caller:
            answer = await ana.http.post(
                f"/api/documents/{document}/lock", headers={"X-Request-Id": "request-1"}
            )
        assert answer.status_code == 200
    here = caller.get_span_context()
    spans = server.spans()
    (request,) = [span for span in spans if span["name"] == "POST /api/documents/{document_id}/lock"]
    assert (request["trace"], request["parent"]) == (f"{here.trace_id:032x}", f"{here.span_id:016x}")
    assert request["attributes"] == {
        "http.request.method": "POST",
        "http.route": "/api/documents/{document_id}/lock",
        "http.response.status_code": 200,
        "leasehold.request_id": "request-1",
    }
    assert answer.headers["x-request-id"] == "request-1"
    version, *place, flags = answer.headers["traceresponse"].split("-")
    assert (version, place) == ("00", [request["trace"], request["id"]])
    assert int(flags, 16) & 1, "it was sampled"
    (acquire,) = [span for span in spans if span["name"] == "leasehold.document.acquire"]
    assert (acquire["trace"], acquire["parent"]) == (request["trace"], request["id"])
    assert acquire["attributes"]["leasehold.request_id"] == "request-1"
    assert acquire["attributes"]["leasehold.name"] == document

    others = [span for span in spans if span["trace"] != request["trace"]]
    assert "POST /api/auth/register" in [span["name"] for span in others], "a request without a trace"
    assert {span["parent"] for span in others if span["name"].startswith("POST")} == {None}


async def test_no_secret_is_in_the_spans_of_the_server(remote: Callable[..., Remote]) -> None:
    server = remote()
    async with httpx.AsyncClient(base_url=server.address, timeout=LIMIT) as client, Api(client) as api:
        ana = await api.register("Ana", tab="TAB-CANARY")
        document = await ana.create_document()
        answer = await ana.http.post(
            f"/api/documents/{document}/lock?secret=QUERY-CANARY", headers={"Baggage": "a=BAGGAGE-CANARY"}
        )
        assert answer.status_code == 200
        assert (await client.get("/PATH-CANARY")).status_code == 404
    told = str(server.spans())
    assert "leasehold.document.acquire" in told
    assert "CANARY" not in told
    assert ana.token not in told


@pytest.mark.parametrize("said", ["nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ff" * 300])
async def test_a_malformed_trace_header_starts_a_new_trace(remote: Callable[..., Remote], said: str) -> None:
    server = remote()
    async with httpx.AsyncClient(base_url=server.address, timeout=LIMIT) as client:
        answer = await client.get("/healthz", headers={"traceparent": said})
        assert answer.status_code == 200
    (span,) = server.spans()
    assert (span["name"], span["parent"]) == ("GET /healthz", None)


async def test_without_tracing_the_callers_request_id_is_still_returned(
    remote: Callable[..., Remote],
) -> None:
    server = remote(collects=False)
    said = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with httpx.AsyncClient(base_url=server.address, timeout=LIMIT) as client:
        answer = await client.get("/healthz", headers={"traceparent": said})
        assert answer.headers["traceresponse"] == said
        assert "traceresponse" not in (await client.get("/healthz")).headers
    assert server.spans() == []
