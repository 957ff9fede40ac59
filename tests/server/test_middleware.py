"""The middleware of every request: request id, security headers, body size, and a response in every case."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.responses import StreamingResponse
from tests.server.conftest import ON_SQLITE, MakeApp, MakeSettings, client_of

from leasehold import errors
from leasehold.http_problems import OF_ERROR
from leasehold.server.http.allowed_hosts import AllowedHosts
from leasehold.server.http.middleware import ApiMiddleware
from leasehold.server.http.problems import install_problems
from leasehold.server.http.request_bodies import RequestBodies

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

ERRORS: dict[type[errors.LeaseholdError], dict[str, Any]] = {
    errors.LockBusy: {"name": "canary"},
    errors.AcquireTimeout: {"name": "canary", "waited": 1.0},
    errors.LeaseLost: {"name": "canary", "reason": "taken"},
    errors.FileBusy: {"path": "canary", "reason": "lock_contended"},
    errors.FileTimeout: {"path": "canary", "reason": "lock_timeout", "waited": 1},
    errors.UpgradeRefused: {"path": "canary", "reason": "lock_contended"},
    errors.FileChanged: {"path": "canary", "seen": "", "found": None},
    errors.StaleFence: {"seen": 2, "given": 1},
    errors.RateLimited: {"message": "slowly", "retry_after": 7.2},
}
"""How to create an error that needs more than a message."""

STORE_MESSAGE = "no answer from canary.internal:6379"


class Body(BaseModel):
    number: int
    secret: str = ""


def every_error() -> list[type[errors.LeaseholdError]]:
    found: dict[type[errors.LeaseholdError], None] = {}
    pending = [errors.LeaseholdError]
    while pending:
        kind = pending.pop()
        if kind.__module__ == errors.__name__:
            found[kind] = None  # once, also for a class with two bases
        pending += kind.__subclasses__()
    return list(found)


def make(kind: type[errors.LeaseholdError]) -> errors.LeaseholdError:
    given = dict(ERRORS.get(kind, {}))
    if not given:
        return kind(STORE_MESSAGE if issubclass(kind, errors.StoreError) else "a message for callers")
    return kind(given.pop("name"), **given) if "name" in given else kind(**given)


def small_app() -> FastAPI:
    """Only the layers around a request, and routes that fail in every way."""
    app = FastAPI()
    install_problems(app)

    @app.get("/api/raise/{name}")
    async def fail(name: str) -> None:
        raise make(next(kind for kind in OF_ERROR if kind.__name__ == name))

    @app.get("/api/unexpected")
    async def unexpected() -> None:
        raise RuntimeError("canary in a traceback")

    @app.get("/api/half")
    async def half() -> StreamingResponse:
        async def pieces() -> AsyncIterator[str]:
            yield "half"
            raise RuntimeError("canary in a traceback")

        return StreamingResponse(pieces())

    @app.post("/api/body")
    async def body(given: Body) -> int:
        return given.number

    @app.put("/api/documents/1/content")
    async def content(request: Request) -> int:
        return len(await request.body())

    @app.get("/api/cached")
    async def cached() -> Any:
        from starlette.responses import Response

        return Response("x", headers={"Cache-Control": "max-age=60"})

    bodies = RequestBodies(max_body=1000, max_content=1000, user_of=lambda _: "ana")
    app.add_middleware(ApiMiddleware, bodies=bodies, hosts=AllowedHosts(None))
    return app


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(small_app()) as client:
        yield client


def check_problem(answer: httpx.Response, code: str) -> dict[str, Any]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert int(answer.headers["content-length"]) == len(answer.content)
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["type"] == body["code"] == code
    assert body["title"]
    assert body["message"]
    assert body["request_id"] == answer.headers["x-request-id"]
    return body


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
async def test_every_error_of_the_library_is_a_problem(
    http: httpx.AsyncClient, kind: type[errors.LeaseholdError]
) -> None:
    answer = await http.get(f"/api/raise/{kind.__name__}")
    body = check_problem(answer, kind.code)
    assert answer.status_code == OF_ERROR[kind].status
    assert "canary" not in answer.text
    if kind is errors.RateLimited:
        assert answer.headers["retry-after"] == "8"
    if answer.status_code == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
    assert set(body) <= {"type", "code", "title", "status", "message", "request_id", "seen", "given"}


async def test_an_unexpected_error_is_a_problem_without_details(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await http.get("/api/unexpected", headers={"X-Request-Id": "find-me"})
    assert answer.status_code == 500
    assert "canary" not in answer.text
    assert check_problem(answer, "leasehold_error")["request_id"] == "find-me"
    assert "canary in a traceback" in caplog.text


async def test_a_client_that_ends_within_its_request_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def read_body(scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive).body()

    async def disconnect() -> dict[str, str]:
        return {"type": "http.disconnect"}

    sent: list[Any] = []
    bodies = RequestBodies(max_body=65_536, max_content=1 << 20, user_of=lambda _: None)
    scope = {"type": "http", "method": "PUT", "path": "/api/x", "headers": [], "query_string": b""}
    await ApiMiddleware(read_body, bodies=bodies, hosts=AllowedHosts(None))(scope, disconnect, sent.append)
    assert sent == []
    assert "Traceback" not in caplog.text


async def test_a_response_that_fails_midway_is_cut(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RuntimeError, match="canary"):
        await http.get("/api/half")
    assert "GET /api/half failed" in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/nothing", 404, "not_found"),
        ("DELETE", "/api/body", 405, "invalid_request"),
    ],
)
async def test_errors_of_http_itself_are_problems(
    http: httpx.AsyncClient, method: str, path: str, status: int, code: str
) -> None:
    answer = await http.request(method, path)
    check_problem(answer, code)
    assert answer.status_code == status
    if status == 405:
        assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "body", [b'{"number": "x", "secret": "canary"}', b"{canary", b"[]", b"", b"\xff\xfe"], ids=repr
)
async def test_an_invalid_body_is_a_problem_that_repeats_no_input(
    http: httpx.AsyncClient, body: bytes
) -> None:
    answer = await http.post("/api/body", content=body, headers={"Content-Type": "application/json"})
    check_problem(answer, "invalid_request")
    assert answer.status_code in {400, 422}
    assert "canary" not in answer.text


async def test_a_body_that_is_too_large_is_not_read(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/body", content=json.dumps({"number": 1, "secret": "x" * 1000}))
    check_problem(answer, "invalid_request")
    assert answer.status_code == 413


async def test_a_body_without_content_length_is_counted(http: httpx.AsyncClient) -> None:
    sent = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1
            yield b"x" * 100

    answer = await http.post("/api/body", content=pieces())
    check_problem(answer, "invalid_request")
    assert answer.status_code == 413
    assert sent < 20


async def test_content_may_be_larger(http: httpx.AsyncClient) -> None:
    assert (await http.put("/api/documents/1/content", content=b"x" * 5000)).json() == 5000
    assert (await http.put("/api/documents/1/content", content=b"x" * 5001)).status_code == 413


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [
        ("a-sane_one.1:2", True),
        ("4bf92f3577b34da6a3ce929d0e0e4736", True),
        ("x" * 128, True),
        ("x" * 129, False),
        ("", False),
        ("two words", False),
        ('quote"brace}', False),
        ("\x1b[31mred", False),
    ],
    ids=["sane", "trace", "longest", "too-long", "empty", "space", "quote", "escape"],
)
async def test_a_valid_request_id_is_kept(http: httpx.AsyncClient, given: str, is_kept: bool) -> None:
    answer = await http.get("/api/nothing", headers={"X-Request-Id": given})
    assert (answer.headers["x-request-id"] == given) == is_kept
    check_problem(answer, "not_found")


async def test_each_request_has_an_id_of_its_own(http: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(http.get("/api/nothing") for _ in range(20)))
    assert len({answer.headers["x-request-id"] for answer in answers}) == 20


@pytest.mark.parametrize("path", ["/api/nothing", "/", "/docs", "/healthz"])
async def test_responses_have_security_headers(http: httpx.AsyncClient, path: str) -> None:
    headers = (await http.get(path)).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "default-src" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"


async def test_responses_of_the_api_are_not_cached(http: httpx.AsyncClient) -> None:
    assert (await http.get("/api/nothing")).headers["cache-control"] == "no-store"
    assert (await http.get("/api/cached")).headers.get_list("cache-control") == ["max-age=60"]
    assert "cache-control" not in (await http.get("/page.js")).headers


async def test_a_page_may_load_nothing_from_elsewhere_and_run_no_script_of_its_own(
    http: httpx.AsyncClient,
) -> None:
    policy = (await http.get("/")).headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'self'"
    assert "script-src" not in rules
    assert rules["object-src"] == "'none'"


async def test_refusals_are_in_the_log(http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "leasehold.server")
    await http.get("/api/raise/NotAllowed")
    assert "refused with 403: GET /api/raise/NotAllowed" in caplog.text


async def test_the_reason_for_an_unavailable_store_is_only_in_the_log(
    http: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await http.get("/api/raise/StoreUnavailable")
    assert STORE_MESSAGE in caplog.text
    assert "canary" not in answer.text


@ON_SQLITE
async def test_other_origins_may_call_only_if_they_were_named(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    app = await make_app(make_settings(cors_origins="https://docs.example.com"))
    preflight = {
        "Access-Control-Request-Method": "PUT",
        "Access-Control-Request-Headers": "authorization, leasehold-tab, content-type",
    }
    async with client_of(app) as client:
        named = {"Origin": "https://docs.example.com"}
        asked = await client.options("/api/auth/me", headers=named | preflight)
        assert asked.status_code == 200
        assert asked.headers["access-control-allow-origin"] == "https://docs.example.com"
        answer = await client.get("/api/auth/me", headers=named)
        assert answer.headers["access-control-allow-origin"] == "https://docs.example.com"
        assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()
        other = await client.get("/api/auth/me", headers={"Origin": "https://evil.example.com"})
        assert "access-control-allow-origin" not in other.headers


@ON_SQLITE
async def test_without_the_setting_no_other_origin_may_call(client: httpx.AsyncClient) -> None:
    answer = await client.get("/api/auth/me", headers={"Origin": "https://docs.example.com"})
    assert not [name for name in answer.headers if name.startswith("access-control")]
