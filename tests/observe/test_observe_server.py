"""`/metrics` of a real `leasehold serve`: who may read it, and that the figures of all workers add up."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.observe.scraping import Scrape
from tests.server.api import PASSWORD, Api
from tests.support.waiting import eventually, eventually_async
from websockets.asyncio.client import connect

from leasehold.errors import InvalidRequest
from leasehold.server import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.observe.conftest import MakeServed
    from tests.server.serving import Served
    from tests.support.servers import Server

TOKEN = "METRICS-TOKEN-CANARY"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
ROUTE = "/api/documents/{document_id}/lock"
REQUESTS = "leasehold_http_requests_total"


def scrape(served: Served, **headers: str) -> Scrape:
    answer = httpx.get(served.told["metrics"], headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return Scrape(answer.text)


async def script(served: Served) -> list[str]:
    """Ana edits, Ben finds it busy and takes it, Ana's heartbeat is refused. What must not be told of it."""
    # A connection for each request, so that every worker gets some of them.
    async with (
        served.client(headers={"Connection": "close"}) as client,
        Api(client) as api,
    ):
        ana, ben = (
            await api.register("Ana", tab="TAB-CANARY-1"),
            await api.register("Ben", tab="TAB-CANARY-2"),
        )
        team = await ben.create_application()
        await ben.add_member(team, ana, "editor")
        document = await ben.create_document("Plan", application_id=team)
        path = f"/api/documents/{document}/lock"
        assert (await ana.http.post(path)).status_code == 200
        assert (await ben.http.post(path)).status_code == 409
        assert (await ana.http.post(f"{path}/heartbeat")).status_code == 200
        assert (await ben.http.post(f"{path}/force-take")).status_code == 200
        assert (await ana.http.post(f"{path}/heartbeat")).status_code == 409
        assert (await ben.http.get(path)).status_code == 200
        assert (await ben.http.delete(path)).status_code == 200
        assert (await client.get("/api/CANARY-path")).status_code == 404
        assert (await client.request("PROPFIND", "/healthz")).status_code == 405
        return [ana.token, ben.token, document, PASSWORD, "CANARY"]


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_script_leaves_these_figures_however_many_workers_there_are(
    served: MakeServed, workers: int
) -> None:
    running = served("--workers", str(workers), metrics_port=0, metrics_token=TOKEN)
    secrets = await script(running)
    found = scrape(running, **BEARER)

    assert found.label_names(REQUESTS) == {"method", "route", "status"}
    assert found.label_names("leasehold_http_request_seconds_count") == {"method", "route"}
    assert found.value(REQUESTS, method="POST", route=ROUTE, status="200") == 1
    assert found.value(REQUESTS, method="POST", route=ROUTE, status="409") == 1
    assert found.value(REQUESTS, method="POST", route=f"{ROUTE}/heartbeat", status="409") == 1
    assert found.value(REQUESTS, method="GET", route="unknown", status="404") == 1
    assert found.value(REQUESTS, method="other", route="/healthz", status="405") == 1
    assert found.value("leasehold_http_request_seconds_count", method="POST", route=ROUTE) == 2

    documents = {"kind": "document", "purpose": ""}
    done = "leasehold_operation_seconds_count"
    assert found.label_names(done) == {"kind", "purpose", "operation", "outcome"}
    assert found.value(done, **documents, operation="acquire", outcome="success") == 1
    assert found.value(done, **documents, operation="acquire", outcome="busy") == 1
    assert found.value(done, **documents, operation="take", outcome="success") == 1
    assert found.value(done, **documents, operation="renew", outcome="lost") == 1
    assert found.value(done, **documents, operation="release", outcome="success") == 1
    assert found.value("leasehold_renewals_total", **documents, outcome="success") == 1
    assert found.value("leasehold_acquire_seconds_count", **documents, outcome="success") == 2
    assert found.value("leasehold_hold_seconds_count", **documents, reason="released") == 1
    assert found.total("leasehold_operations_under_way") == 0

    assert [secret for secret in secrets if secret in found.text] == []
    assert [secret for secret in [*secrets[:2], TOKEN, PASSWORD] if secret in running.log()] == []


async def test_sockets_and_rooms_are_counted_over_all_workers(served: MakeServed) -> None:
    running = served("--workers", "2", metrics_port=0)
    async with running.client(headers={"Connection": "close"}) as client, Api(client) as api:
        ana = await api.register("Ana")
        document = await ana.create_document()
        address = running.base_url.replace("http", "ws") + "/ws"
        async with connect(address) as one, connect(address), connect(address):
            await one.send(json.dumps({"type": "authenticate", "data": {"token": ana.token}}))
            await one.recv()
            await one.send(json.dumps({"type": "join", "data": {"document_id": document}}))
            assert json.loads(await one.recv())["type"] == "joined"
            await eventually_async(lambda: _connected(running) == (3, 1), 30, every=0.1)
        await eventually_async(lambda: _connected(running) == (0, 0), 30, every=0.1)


def _connected(running: Served) -> tuple[float, float]:
    found = scrape(running)
    return found.total("leasehold_sockets"), found.total("leasehold_rooms")


async def test_a_worker_that_dies_takes_its_sockets_with_it_and_leaves_its_counts(served: MakeServed) -> None:
    running = served("--workers", "1", metrics_port=0)
    for _ in range(5):
        assert httpx.get(f"{running.base_url}/healthz").status_code == 200
    async with connect(running.base_url.replace("http", "ws") + "/ws"):
        await eventually_async(lambda: _connected(running) == (1, 0), 30, every=0.1)
        running.kill_worker()
        eventually(lambda: _connected(running) == (0, 0), 30, every=0.1)
    eventually(running.workers, 60)
    assert httpx.get(f"{running.base_url}/healthz", timeout=60).status_code == 200
    assert scrape(running).value(REQUESTS, method="GET", route="/healthz", status="200") == 6


async def test_metrics_are_closed_unless_they_are_asked_for(served: MakeServed) -> None:
    running = served()
    assert running.told["metrics"] is None
    assert httpx.get(f"{running.base_url}/healthz").status_code == 200
    for headers in ({}, {"Authorization": "Bearer None"}):
        assert httpx.get(f"{running.base_url}/metrics", headers=headers).status_code == 404


async def test_a_token_opens_them_on_the_servers_own_port(served: MakeServed) -> None:
    running = served("--workers", "2", metrics_token=TOKEN)
    assert running.told["metrics"] is None
    for _ in range(10):
        assert httpx.get(f"{running.base_url}/healthz").status_code == 200
    for wrong in (None, "", TOKEN, "Bearer", f"Bearer {TOKEN}x", f"bearer  {TOKEN}", "Bearer Ä"):
        headers = {} if wrong is None else {"Authorization": wrong.encode()}
        refused = httpx.get(f"{running.base_url}/metrics", headers=headers)
        assert (refused.status_code, "leasehold_" in refused.text) == (401, False)
    answer = httpx.get(f"{running.base_url}/metrics", headers=BEARER)
    assert answer.headers["cache-control"] == "no-store"
    # Whichever worker answers, it tells of both.
    assert Scrape(answer.text).value(REQUESTS, method="GET", route="/healthz", status="200") == 10


async def test_the_port_of_its_own_asks_for_the_token_too_and_has_nothing_else(served: MakeServed) -> None:
    running = served(metrics_port=0, metrics_token=TOKEN)
    where = running.told["metrics"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", where)
    refused = httpx.get(where)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert httpx.get(where, headers=BEARER).status_code == 200
    assert httpx.get(where.replace("/metrics", "/healthz"), headers=BEARER).status_code == 404
    assert httpx.post(where, headers=BEARER).status_code == 501


async def test_a_scrape_that_never_ends_keeps_nobody_else_from_it(served: MakeServed) -> None:
    running = served(metrics_port=0)
    port = int(running.told["metrics"].split(":")[2].split("/")[0])
    stuck = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
    assert await asyncio.to_thread(scrape, running)
    for _, writer in stuck:
        writer.close()


async def test_the_directory_of_the_metrics_is_private_and_gone_in_the_end(
    served: MakeServed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    running = served(metrics_port=0)
    (directory,) = tmp_path.glob("leasehold-metrics-*")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert list(directory.glob("*.db"))
    running.send(15)
    running.wait(60)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"METRICS_PORT": "9100", "METRICS_HOST": "0.0.0.0"},
            "LEASEHOLD_METRICS_PORT: on 0.0.0.0 others can read the metrics: set LEASEHOLD_METRICS_TOKEN as well",
        ),
        ({"METRICS_TOKEN": "short"}, "LEASEHOLD_METRICS_TOKEN: a token has 16 characters or more, of ASCII"),
        ({"METRICS_PORT": "-1"}, "LEASEHOLD_METRICS_PORT: Input should be greater than or equal to 0"),
    ],
    ids=["open", "short", "negative"],
)
def test_settings_that_would_open_them_to_anybody_are_refused(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], said: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(f"LEASEHOLD_{name}", value)
    with pytest.raises(InvalidRequest) as refused:
        Settings.load()
    assert said in str(refused.value)
    monkeypatch.setenv("LEASEHOLD_METRICS_TOKEN", TOKEN)
    monkeypatch.setenv("LEASEHOLD_METRICS_PORT", "9100")
    assert Settings.load().has_metrics
    assert TOKEN not in repr(Settings.load())


async def test_a_port_that_is_in_use_is_told_by_its_setting(served: MakeServed) -> None:
    first = served(metrics_port=0)
    port = first.told["metrics"].split(":")[2].split("/")[0]
    with pytest.raises(AssertionError, match=f"127.0.0.1:{port} is in use .* LEASEHOLD_METRICS_PORT"):
        served(metrics_port=port)


COLLECTS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
"""


async def test_workers_trace_if_their_process_is_started_with_a_provider(
    served: MakeServed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(COLLECTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    running = served()
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace_id}-{span_id}-01"}
    answer = httpx.get(f"{running.base_url}/healthz", headers=headers, timeout=60)
    _, same_trace, own_span, _ = answer.headers["traceresponse"].split("-")
    assert same_trace == trace_id
    assert own_span != span_id, "a span of its own"


@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_a_store_that_stops_is_logged_once_and_comes_back_by_itself(
    served: MakeServed, own_server: Callable[..., Server], log_format: str
) -> None:
    store = own_server("valkey9")
    running = served(metrics_port=0, store_url=store.url, log_format=log_format, timeout=1)
    async with running.client() as client, Api(client) as api:
        ana = await api.register("Ana")
        path = f"/api/documents/{await ana.create_document()}/lock"
        assert (await ana.http.post(path)).status_code == 200
        store.kill()
        for _ in range(4):
            answer = await ana.http.post(path, headers={"X-Request-Id": "request-1"})
            assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
        store.start()

        async def is_back() -> bool:
            return (await ana.http.get(path)).status_code == 200

        await eventually_async(is_back, 30)
    lines = running.log().splitlines()
    (away,) = [line for line in lines if "store_unavailable" in line and "leasehold.audit" not in line]
    (back,) = [line for line in lines if "store_is_back" in line]
    assert f"127.0.0.1:{store.port}" in away
    assert "request-1" in away
    assert lines.index(away) < lines.index(back)
    if log_format == "json":
        assert [json.loads(line)["event"] for line in (away, back)] == ["store_unavailable", "store_is_back"]
        assert all(json.loads(line) for line in lines)
    found = scrape(running)
    failed = {"kind": "document", "purpose": "", "operation": "acquire", "outcome": "unavailable"}
    assert found.value("leasehold_operation_seconds_count", **failed) == 4
    assert found.total("leasehold_store_errors_total", error="unavailable") >= 4
