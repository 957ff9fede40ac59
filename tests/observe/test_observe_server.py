"""`/metrics` of a real `leasehold serve`: access, and the sums over all workers."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.observe.scrape import Scrape
from tests.server.api import PASSWORD, Api
from tests.server.served import METRICS_TOKEN as TOKEN
from tests.support.eventually import LIMIT, eventually_async
from websockets.asyncio.client import connect

from leasehold.errors import InvalidRequest
from leasehold.server import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.observe.conftest import MakeServed
    from tests.server.served import Served
    from tests.support.servers import Server

BEARER = {"Authorization": f"Bearer {TOKEN}"}
ROUTE = "/api/documents/{document_id}/lock"
REQUESTS = "leasehold_http_requests_total"


def scrape(served: Served) -> Scrape:
    answer = httpx.get(served.told["metrics"], headers=BEARER, timeout=LIMIT)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    return Scrape(answer.text)


async def script(served: Served) -> list[str]:
    """Ana edits, Ben finds it busy and takes it, Ana's heartbeat is refused. Returns the values that metrics must not contain."""
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


async def check_figures(running: Served) -> None:
    """Plays the script, and compares the increments of the metrics."""
    before = scrape(running)
    secrets = await script(running)
    found = scrape(running)

    def added(name: str, **labels: str) -> float:
        return found.value(name, **labels) - before.value(name, **labels)

    assert found.label_names(REQUESTS) == {"method", "route", "status"}
    assert found.label_names("leasehold_http_request_seconds_count") == {"method", "route"}
    assert added(REQUESTS, method="POST", route=ROUTE, status="200") == 1
    assert added(REQUESTS, method="POST", route=ROUTE, status="409") == 1
    assert added(REQUESTS, method="POST", route=f"{ROUTE}/heartbeat", status="409") == 1
    assert added(REQUESTS, method="GET", route="unknown", status="404") == 1
    assert added(REQUESTS, method="other", route="/healthz", status="405") == 1
    assert added("leasehold_http_request_seconds_count", method="POST", route=ROUTE) == 2

    documents = {"kind": "document", "purpose": ""}
    done = "leasehold_operation_seconds_count"
    assert found.label_names(done) == {"kind", "purpose", "operation", "outcome"}
    assert added(done, **documents, operation="acquire", outcome="success") == 1
    assert added(done, **documents, operation="acquire", outcome="busy") == 1
    assert added(done, **documents, operation="take", outcome="success") == 1
    assert added(done, **documents, operation="renew", outcome="lost") == 1
    assert added(done, **documents, operation="release", outcome="success") == 1
    assert added("leasehold_renewals_total", **documents, outcome="success") == 1
    assert added("leasehold_acquire_seconds_count", **documents, outcome="success") == 2
    assert added("leasehold_hold_seconds_count", **documents, reason="released") == 1
    assert found.total("leasehold_operations_under_way") == 0

    assert [secret for secret in secrets if secret in found.text] == []
    assert [secret for secret in [*secrets[:2], TOKEN, PASSWORD] if secret in running.log()] == []


async def test_one_worker_has_these_metrics_and_its_counters_survive_it(served: MakeServed) -> None:
    running = served("--workers", "1", metrics_port=0, metrics_token=TOKEN, document_save_within=0.1)
    await check_figures(running)
    for _ in range(5):
        assert httpx.get(f"{running.base_url}/healthz", timeout=LIMIT).status_code == 200
    async with connect(running.base_url.replace("http", "ws") + "/ws"):
        await eventually_async(lambda: _connected(running) == (1, 0), every=0.1)
        running.kill_worker()
        await eventually_async(lambda: _connected(running) == (0, 0), every=0.1)
    assert httpx.get(f"{running.base_url}/healthz", timeout=LIMIT).status_code == 200
    assert scrape(running).value(REQUESTS, method="GET", route="/healthz", status="200") == 6


async def test_two_workers_have_the_same_metrics(service: Served) -> None:
    await check_figures(service)


async def test_sockets_and_rooms_are_counted_over_all_workers(service: Served) -> None:
    async with service.client(headers={"Connection": "close"}) as client, Api(client) as api:
        ana = await api.register("Ana")
        document = await ana.create_document()
        address = service.base_url.replace("http", "ws") + "/ws"
        await eventually_async(
            lambda: _connected(service) == (0, 0), every=0.1
        )  # those of other tests are gone
        async with connect(address) as one, connect(address), connect(address):
            await one.send(json.dumps({"type": "authenticate", "data": {"token": ana.token}}))
            await one.recv()
            await one.send(json.dumps({"type": "join", "data": {"document_id": document}}))
            assert json.loads(await one.recv())["type"] == "joined"
            await eventually_async(lambda: _connected(service) == (3, 1), every=0.1)
        await eventually_async(lambda: _connected(service) == (0, 0), every=0.1)


def _connected(running: Served) -> tuple[float, float]:
    found = scrape(running)
    return found.total("leasehold_sockets"), found.total("leasehold_rooms")


async def test_with_a_token_the_servers_own_port_has_the_metrics(service: Served) -> None:
    def count(answer: httpx.Response) -> float:
        return Scrape(answer.text).value(REQUESTS, method="GET", route="/healthz", status="200")

    where = f"{service.base_url}/metrics"
    before = count(httpx.get(where, headers=BEARER, timeout=LIMIT))
    for _ in range(10):
        assert httpx.get(f"{service.base_url}/healthz", timeout=LIMIT).status_code == 200
    for wrong in (None, "", TOKEN, "Bearer", f"Bearer {TOKEN}x", f"bearer  {TOKEN}", "Bearer Ä"):
        headers = {} if wrong is None else {"Authorization": wrong.encode()}
        refused = httpx.get(where, headers=headers, timeout=LIMIT)
        assert (refused.status_code, "leasehold_" in refused.text) == (401, False)
    answer = httpx.get(where, headers=BEARER, timeout=LIMIT)
    assert answer.headers["cache-control"] == "no-store"
    # The response of either worker contains both.
    assert count(answer) - before == 10


async def test_the_metrics_port_requires_the_token_too_and_serves_nothing_else(service: Served) -> None:
    where = service.told["metrics"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", where)
    refused = httpx.get(where, timeout=LIMIT)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert httpx.get(where, headers=BEARER, timeout=LIMIT).status_code == 200
    elsewhere = where.replace("/metrics", "/healthz")
    assert httpx.get(elsewhere, headers=BEARER, timeout=LIMIT).status_code == 404
    assert httpx.post(where, headers=BEARER, timeout=LIMIT).status_code == 501


async def test_a_scrape_that_hangs_does_not_block_others(service: Served) -> None:
    port = int(service.told["metrics"].split(":")[2].split("/")[0])
    stuck = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
    assert await asyncio.to_thread(scrape, service)
    for _, writer in stuck:
        writer.close()


async def test_with_only_a_token_no_other_port_is_opened_and_the_private_directory_is_removed(
    served: MakeServed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    running = served(metrics_token=TOKEN)
    assert running.told["metrics"] is None
    assert httpx.get(f"{running.base_url}/metrics", headers=BEARER, timeout=LIMIT).status_code == 200
    (directory,) = tmp_path.glob("leasehold-metrics-*")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert list(directory.glob("*.db"))
    running.send(signal.SIGTERM)
    running.wait()
    assert not directory.exists()


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"METRICS_PORT": "9100", "METRICS_HOST": "0.0.0.0"},
            "LEASEHOLD_METRICS_PORT: other hosts can read the metrics on 0.0.0.0: set LEASEHOLD_METRICS_TOKEN too",
        ),
        ({"METRICS_TOKEN": "short"}, "LEASEHOLD_METRICS_TOKEN: a token needs at least 16 ASCII characters"),
        ({"METRICS_PORT": "-1"}, "LEASEHOLD_METRICS_PORT: must be greater than or equal to 0"),
    ],
    ids=["open", "short", "negative"],
)
def test_settings_that_would_publish_the_metrics_are_refused(
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


async def test_a_port_in_use_is_reported_with_its_setting(service: Served, served: MakeServed) -> None:
    port = service.told["metrics"].split(":")[2].split("/")[0]
    with pytest.raises(AssertionError, match=f"127.0.0.1:{port} is in use .* LEASEHOLD_METRICS_PORT"):
        served(metrics_port=port)


COLLECTS = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

trace.set_tracer_provider(TracerProvider())
"""


async def test_workers_trace_if_started_with_a_provider_and_have_no_metrics_by_default(
    served: MakeServed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(COLLECTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    running = served()
    # Metrics are closed unless they are asked for.
    assert running.told["metrics"] is None
    for headers in ({}, {"Authorization": "Bearer None"}):
        assert httpx.get(f"{running.base_url}/metrics", headers=headers, timeout=LIMIT).status_code == 404
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    headers = {"traceparent": f"00-{trace_id}-{span_id}-01"}
    answer = httpx.get(f"{running.base_url}/healthz", headers=headers, timeout=LIMIT)
    _, same_trace, own_span, _ = answer.headers["traceresponse"].split("-")
    assert same_trace == trace_id
    assert own_span != span_id, "a span of its own"


@pytest.mark.parametrize("log_format", ["json", "text"])
async def test_a_store_that_stops_is_logged_once_and_the_server_recovers(
    served: MakeServed, own_server: Callable[..., Server], log_format: str
) -> None:
    store = own_server("valkey9")
    running = served(metrics_port=0, store_url=store.url, log_format=log_format)
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

        await eventually_async(is_back)
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
