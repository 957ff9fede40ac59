"""The web page from the same server: its files, its URLs, and URLs that must not return the page."""

from __future__ import annotations

import asyncio
import gzip
import html
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.conftest import ON_SQLITE, MakeApp, MakeSettings, client_of
from tests.support.eventually import LIMIT

from leasehold.server.app.demo_team import TEAM

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import httpx
    from tests.server.conftest import MakeServed

pytestmark = ON_SQLITE

INDEX = '<!doctype html><html><head><title>Page</title></head><body><script src="/assets/main-1a2b.js"></script></body></html>'
SCRIPT = "// a script\n" + "console.log('long enough to be worth compressing');\n" * 50
SECRET = "not for users outside"
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def page_dir(tmp_path: Path, database_url: str) -> Path:
    """A build, and beside it a file that must not be served."""
    directory = tmp_path / "built" / "page"
    (directory / "assets").mkdir(parents=True)
    (directory / "index.html").write_text(INDEX)
    (directory / "icon.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    (directory / "assets" / "main-1a2b.js").write_text(SCRIPT)
    (directory / "assets" / "main-1a2b.css").write_text("body{}")
    (directory.parent / "secret.txt").write_text(SECRET)
    return directory


@pytest.fixture
async def http(
    make_app: MakeApp, make_settings: MakeSettings, page_dir: Path
) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(await make_app(make_settings(page_dir=page_dir))) as client:
        yield client


@pytest.mark.parametrize(
    "path",
    ["/", "/sign-in", "/register", "/documents", "/documents/a-b_c", "/documents/x/history", "/editing-now"],
)
async def test_every_url_of_the_page_can_be_reloaded(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)
    assert (answer.status_code, answer.text) == (200, INDEX)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert (await http.head(path)).status_code == 200


@pytest.mark.parametrize(
    "path", ["/api/nothing", "/api", "/ws", "/healthz/x", "/metrics", "/docs", "/openapi.json"]
)
async def test_requests_of_programs_never_return_the_page(http: httpx.AsyncClient, path: str) -> None:
    for headers in ({}, BROWSER):
        answer = await http.get(path, headers=headers)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "not_found"


async def test_a_browser_gets_an_error_page_for_an_unknown_page(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.get("/nowhere", headers=BROWSER)
    assert (answer.status_code, answer.text) == (404, INDEX)
    assert (await http.get("/nowhere")).json()["code"] == "not_found"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_the_page_can_only_be_read(http: httpx.AsyncClient, method: str) -> None:
    for path in ("/", "/documents", "/assets/main-1a2b.js", "/nowhere"):
        assert (await http.request(method, path, headers=BROWSER)).status_code == 404
    assert (await http.request(method, "/healthz")).status_code == 405


async def test_a_file_whose_name_changes_with_its_content_is_cached_forever(http: httpx.AsyncClient) -> None:
    answer = await http.get("/assets/main-1a2b.js")
    assert (answer.status_code, answer.text) == (200, SCRIPT)
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    style = await http.get("/assets/main-1a2b.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    icon = await http.get("/icon.svg")
    assert icon.headers["content-type"] == "image/svg+xml"
    assert icon.headers["cache-control"] == "public, max-age=3600"


async def test_files_are_compressed_for_clients_that_accept_it(http: httpx.AsyncClient) -> None:
    plain = await http.get("/assets/main-1a2b.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.text == SCRIPT
    async with http.stream("GET", "/assets/main-1a2b.js", headers={"Accept-Encoding": "br, gzip"}) as small:
        assert small.headers["content-encoding"] == "gzip"
        assert small.headers["vary"] == "Accept-Encoding"
        sent = b"".join([part async for part in small.aiter_raw()])
    assert len(sent) == int(small.headers["content-length"]) < len(SCRIPT) / 4
    assert gzip.decompress(sent).decode() == SCRIPT


async def test_the_page_itself_is_revalidated_each_time_and_sent_only_when_changed(
    http: httpx.AsyncClient,
) -> None:
    answer = await http.get("/documents")
    assert answer.headers["cache-control"] == "no-cache"
    again = await http.get("/", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = await http.get("/", headers={"If-None-Match": '"another"'})
    assert (other.status_code, other.text) == (200, INDEX)


async def test_the_page_may_load_only_from_this_server(http: httpx.AsyncClient) -> None:
    for path in ("/", "/assets/main-1a2b.js", "/nowhere"):
        answer = await http.get(path, headers=BROWSER)
        rules = {}
        for rule in answer.headers["content-security-policy"].split(";"):
            name, *sources = rule.split()
            rules[name] = sources
        assert rules["default-src"] == ["'self'"]
        assert rules["frame-ancestors"] == rules["object-src"] == rules["base-uri"] == ["'none'"]
        assert not {"script-src", "style-src", "connect-src"} & set(rules)
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


SPELLINGS = [
    "/../secret.txt",
    "/assets/../../secret.txt",
    "/assets/..%2f..%2fsecret.txt",
    "/%2e%2e/secret.txt",
    "/assets/%2e%2e/%2e%2e/secret.txt",
    "/..\\secret.txt",
    "//secret.txt",
    "/assets//../../secret.txt",
    "/assets/main-1a2b.js%00.txt",
    "/documents/../../secret.txt",
]


async def test_no_spelling_leads_out_of_the_build(served: MakeServed, page_dir: Path) -> None:
    """Sent unchanged over a real connection, because HTTP clients normalize such paths."""
    server = served(page_dir=page_dir)
    assert b"200" in (await _raw(server.base_url, "/assets/main-1a2b.js")).split(b"\r\n")[0]
    for path in SPELLINGS:
        answer = await _raw(server.base_url, path)
        assert answer.startswith(b"HTTP/1.1 "), path
        assert SECRET.encode() not in answer, path
        assert b" 200 " not in answer.split(b"\r\n")[0] or INDEX.encode() in answer, path


async def test_only_files_that_existed_at_the_start_are_served(
    http: httpx.AsyncClient, page_dir: Path
) -> None:
    (page_dir / "later.txt").write_text(SECRET)
    (page_dir / "assets" / "main-1a2b.css").unlink()
    assert (await http.get("/assets/main-1a2b.css")).json()["code"] == "not_found"
    assert (await http.get("/later.txt")).status_code == 404
    assert (await http.get("/icon.svg")).status_code == 200


async def test_without_a_build_the_page_says_how_to_make_one_and_the_api_answers(
    make_app: MakeApp, make_settings: MakeSettings, tmp_path: Path
) -> None:
    app = await make_app(make_settings(page_dir=tmp_path / "nothing", demo=True))
    async with client_of(app) as http:
        answer = await http.get("/")
        assert answer.status_code == 200
        assert "make web" in answer.text
        assert "demo-olga" not in answer.text
        assert (await http.get("/assets/main.js")).json()["code"] == "not_found"
        assert (await http.get("/nowhere", headers=BROWSER)).json()["code"] == "not_found"
        assert (await http.get("/healthz")).json() == {"status": "alive"}


async def test_the_users_of_the_demo_are_named_in_the_demo_only(
    make_app: MakeApp, make_settings: MakeSettings, page_dir: Path
) -> None:
    async with client_of(await make_app(make_settings(page_dir=page_dir, demo=True))) as http:
        people = _team_in((await http.get("/sign-in")).text)
        assert [person["name"] for person in people] == [person.name for person in TEAM]
        for person in people:
            who = {"email": person["email"], "password": person["password"]}
            assert (await http.post("/api/auth/login", json=who)).status_code == 200
    async with client_of(await make_app(make_settings(page_dir=page_dir))) as http:
        for path in ("/", "/sign-in", "/nowhere"):
            text = (await http.get(path, headers=BROWSER)).text
            assert "leasehold-demo" not in text
            assert not [person for person in TEAM if person.password in text]


def _team_in(text: str) -> list[dict[str, Any]]:
    found = re.search(r'<meta name="leasehold-demo" content="([^"]*)" />', text)
    assert found, text
    return json.loads(html.unescape(found[1]))


async def _raw(base_url: str, path: str) -> bytes:
    """The response to a path that no client has normalized."""
    host, port = base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAccept: text/html\r\n\r\n"
    writer.write(request.encode())
    async with asyncio.timeout(LIMIT):
        answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer
