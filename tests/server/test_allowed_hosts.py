"""`Host`: a page of another site must not reach a server on loopback under a name of its own (DNS rebinding)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.server.conftest import ON_SQLITE, client_of

from leasehold.errors import InvalidRequest
from leasehold.server import Settings
from leasehold.server.http.allowed_hosts import AllowedHosts

if TYPE_CHECKING:
    from tests.server.conftest import MakeApp, MakeSettings

OWN = [
    "localhost",
    "localhost:8000",
    "LOCALHOST:8000",
    "localhost.:8000",
    "app.localhost",
    "127.0.0.1:8000",
    "[::1]:8000",
    "192.0.2.7",
]
FOREIGN = [
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "127.0.0.1.nip.io",
    "evil.example@127.0.0.1",
    "docs.example.com.evil.example",
    "",
    "[",
    ":8000",
]


@pytest.mark.parametrize("host", OWN)
def test_a_server_on_loopback_has_the_names_of_loopback_and_addresses(host: str) -> None:
    assert AllowedHosts(Settings().hosts).allows(host.encode())


@pytest.mark.parametrize("host", FOREIGN)
def test_a_server_on_loopback_has_no_other_name(host: str) -> None:
    hosts = AllowedHosts(Settings().hosts)
    assert not hosts.allows(host.encode())
    assert not hosts.allows(host.encode())  # also from its cache
    assert not hosts.allows(None)


def test_the_names_of_a_public_server_can_be_limited() -> None:
    assert AllowedHosts(Settings(host="0.0.0.0").hosts).allows(b"evil.example")
    named = AllowedHosts(Settings(host="0.0.0.0", allowed_hosts="Docs.example.com, other.example").hosts)  # type: ignore[arg-type]
    assert named.allows(b"docs.example.com:443")
    assert named.allows(b"OTHER.example")
    assert named.allows(b"192.0.2.7")
    assert not named.allows(b"evil.example")


def test_a_server_on_loopback_behind_a_proxy_has_the_names_that_are_set() -> None:
    for settings in (
        Settings(allowed_hosts="docs.example.com"),  # type: ignore[arg-type]
        Settings(allowed_origins="https://docs.example.com"),  # type: ignore[arg-type]
    ):
        assert AllowedHosts(settings.hosts).allows(b"docs.example.com")
        assert not AllowedHosts(settings.hosts).allows(b"evil.example")
    assert AllowedHosts(Settings(allowed_hosts="*").hosts).allows(b"evil.example")  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["https://docs.example.com", "docs.example.com:443", "a/b", "[::1"])
def test_a_host_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(InvalidRequest, match="LEASEHOLD_ALLOWED_HOSTS"):
        Settings.load(allowed_hosts=host)


@ON_SQLITE
@pytest.mark.parametrize("demo", [False, True])
async def test_a_request_under_another_name_is_refused(
    make_app: MakeApp, make_settings: MakeSettings, demo: bool
) -> None:
    app = await make_app(make_settings(demo=demo))
    async with client_of(app) as client:
        for path in ("/", "/api/auth/login", "/api/documents", "/nothing"):
            response = await client.get(path, headers={"Host": "evil.example:8000"})
            assert response.status_code == 421
            assert response.headers["content-type"] == "application/problem+json"
            assert "LEASEHOLD_ALLOWED_HOSTS" in response.json()["message"]
        assert (await client.get("/healthz", headers={"Host": "evil.example"})).status_code == 200
        assert (await client.get("/healthz")).status_code == 200


@ON_SQLITE
async def test_a_socket_under_another_name_is_refused(make_app: MakeApp, settings: Settings) -> None:
    app = await make_app(settings)
    sent = []

    async def send(message: dict) -> None:
        sent.append(message["type"])

    async def receive() -> dict:
        return {"type": "websocket.connect"}

    # As a rebound page would have it: its origin is the name that it asked.
    headers = [(b"host", b"evil.example:8000"), (b"origin", b"http://evil.example:8000")]
    await app({"type": "websocket", "path": "/ws", "headers": headers, "client": None}, receive, send)
    assert sent == ["websocket.close"]
