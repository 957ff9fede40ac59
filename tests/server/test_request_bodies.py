"""Bodies: nothing of a large one is read before the caller is known, and one user cannot have many at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from starlette.exceptions import HTTPException
from tests.server.api import Api
from tests.server.conftest import ON_SQLITE, client_of

from leasehold.errors import RateLimited
from leasehold.server.http.request_bodies import RequestBodies

if TYPE_CHECKING:
    from fastapi import FastAPI
    from tests.server.conftest import MakeApp

    from leasehold.server import Settings

CONTENT = "/api/documents/00000000-0000-4000-8000-000000000000/content"
LOGIN = "/api/auth/login"
PIECE = b" " * 65_536


async def ask(app: FastAPI, path: str, *headers: tuple[bytes, bytes]) -> tuple[int, int]:
    """Send a body without end; the status, and the bytes that were read of it."""
    read, statuses = 0, []

    async def receive() -> dict[str, Any]:
        nonlocal read
        read += len(PIECE)
        assert read < 1 << 26
        return {"type": "http.request", "body": PIECE, "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "method": "POST" if path == LOGIN else "PUT",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "headers": [(b"host", b"127.0.0.1:8000"), (b"content-type", b"application/json"), *headers],
    }
    await app(scope, receive, send)
    (status,) = statuses
    return status, read


DECLARED = (b"content-length", b"4200000")
CHUNKED = (b"transfer-encoding", b"chunked")


@ON_SQLITE
@pytest.mark.parametrize("token", [None, b"Bearer not.a.token", b"Basic YTpi", b"Bearer"])
async def test_of_an_unknown_caller_only_a_small_body_is_read(
    make_app: MakeApp, settings: Settings, token: bytes | None
) -> None:
    app = await make_app(settings)
    headers = () if token is None else ((b"authorization", token),)
    assert await ask(app, CONTENT, DECLARED, *headers) == (401, 0)
    assert await ask(app, CONTENT, CHUNKED, *headers) == (401, len(PIECE))
    assert await ask(app, LOGIN, (b"content-length", b"60000"), *headers) == (413, 0)
    assert await ask(app, LOGIN, CHUNKED, *headers) == (413, len(PIECE))


@ON_SQLITE
async def test_the_body_of_a_user_is_read_up_to_its_limit(make_app: MakeApp, settings: Settings) -> None:
    app = await make_app(settings)
    async with client_of(app) as client, Api(client) as api:
        ana = await api.register("Ana")
        token = f"Bearer {ana.token}".encode()
        status, read = await ask(app, CONTENT, CHUNKED, (b"authorization", token))
        assert status == 413
        assert 4 << 20 < read < 5 << 20


def check(bodies: RequestBodies, **headers: str) -> Any:
    return bodies.check(
        CONTENT, {name.replace("_", "-").encode(): text.encode() for name, text in headers.items()}
    )


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"x" * 100_000, "more_body": True}


async def test_one_user_cannot_have_many_large_bodies_unfinished() -> None:
    bodies = RequestBodies(max_body=65_536, max_content=1 << 20, user_of=bytes.decode)
    large = {"content_length": "4200000"}
    unfinished = []
    for _ in range(4):
        unfinished.append(bodies.reading(check(bodies, **large, authorization="ana"), receive))
        unfinished[-1].__enter__()
    for headers in (large, {"transfer_encoding": "chunked"}):
        with pytest.raises(RateLimited):
            check(bodies, **headers, authorization="ana")
        assert check(bodies, **headers, authorization="ben").user_id == "ben"
    assert check(bodies, content_length="16384", authorization="ana") is None
    for each in unfinished:
        each.__exit__(None, None, None)
    assert check(bodies, **large, authorization="ana").user_id == "ana"
    assert bodies._unfinished == {}


@pytest.mark.parametrize("length", ["-1", "1e3", "1" * 5000, "4300000", "\N{SUPERSCRIPT TWO}"])
async def test_a_length_that_is_too_large_or_no_number_is_refused(length: str) -> None:
    bodies = RequestBodies(max_body=65_536, max_content=1 << 20, user_of=bytes.decode)
    with pytest.raises(HTTPException) as refused:
        check(bodies, content_length=length, authorization="ana")
    assert refused.value.status_code == 413


async def test_zeros_before_a_length_are_ignored() -> None:
    bodies = RequestBodies(max_body=65_536, max_content=1 << 20, user_of=bytes.decode)
    assert check(bodies, content_length="0" * 5000) is None
    assert check(bodies, content_length="0" * 5000 + "20000", authorization="ana").most == 20_000


async def test_a_body_cannot_be_longer_than_declared() -> None:
    bodies = RequestBodies(max_body=65_536, max_content=1 << 20, user_of=bytes.decode)
    with (
        bodies.reading(check(bodies, content_length="20000", authorization="ana"), receive) as read,
        pytest.raises(HTTPException),
    ):
        await read()
