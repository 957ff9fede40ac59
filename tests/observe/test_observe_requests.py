"""A request to the server is a part of its caller's trace, in another process; so are the locks that it uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from tests.server.api import Api
from tests.server.conftest import QUICK

from leasehold.observe.propagating import pass_on_async

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.processes import Child
    from tests.support.servers import Server


async def serve_and_tell(parent: Any, settings: dict[str, Any]) -> None:
    """The server, in a process of its own that collects traces; tells its port, and in the end its spans."""
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
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    parent.tell(port=server.servers[0].sockets[0].getsockname()[1])
    await asyncio.to_thread(parent.hear)
    server.should_exit = True
    await serving
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
    parent.tell(spans=spans)


class Remote:
    """The server in its child process."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self.address = f"http://127.0.0.1:{child.read(90)['port']}"

    def spans(self) -> list[dict[str, Any]]:
        """Ends it, and asks what it has collected."""
        self._child.tell()
        return self._child.read(60)["spans"]


@pytest.fixture
def remote(spawn: Callable[..., Child], tmp_path: Path, valkey: Server) -> Callable[..., Remote]:
    def start(*, collects: bool = True) -> Remote:
        settings = QUICK | {"data_dir": str(tmp_path), "store_url": valkey.url, "collects": collects}
        return Remote(spawn(serve_and_tell, settings))

    return start


async def test_a_request_and_its_locks_are_in_the_trace_of_the_process_that_asked(
    remote: Callable[..., Remote],
) -> None:
    server = remote()
    tracer = TracerProvider().get_tracer("test")
    hooks = {"request": [pass_on_async]}
    async with httpx.AsyncClient(base_url=server.address, timeout=60) as client, Api(client) as api:
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
    assert "POST /api/auth/register" in [span["name"] for span in others], "it said nothing of a trace"
    assert {span["parent"] for span in others if span["name"].startswith("POST")} == {None}


async def test_no_secret_is_in_the_spans_of_the_server(remote: Callable[..., Remote]) -> None:
    server = remote()
    async with httpx.AsyncClient(base_url=server.address, timeout=60) as client, Api(client) as api:
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
async def test_a_trace_that_makes_no_sense_begins_anew(remote: Callable[..., Remote], said: str) -> None:
    server = remote()
    async with httpx.AsyncClient(base_url=server.address, timeout=60) as client:
        answer = await client.get("/healthz", headers={"traceparent": said})
        assert answer.status_code == 200
    (span,) = server.spans()
    assert (span["name"], span["parent"]) == ("GET /healthz", None)


async def test_where_nobody_collects_traces_the_callers_id_is_answered_all_the_same(
    remote: Callable[..., Remote],
) -> None:
    server = remote(collects=False)
    said = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with httpx.AsyncClient(base_url=server.address, timeout=60) as client:
        answer = await client.get("/healthz", headers={"traceparent": said})
        assert answer.headers["traceresponse"] == said
        assert "traceresponse" not in (await client.get("/healthz")).headers
    assert server.spans() == []
