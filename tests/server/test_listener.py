"""The addresses on which the server listens, and the proxies that it trusts."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from tests.server.conftest import ON_SQLITE, MakeApp, MakeSettings, client_of

from leasehold.errors import InvalidRequest
from leasehold.server import Settings
from leasehold.server.process.listener import address_of, listen
from leasehold.server.process.worker import configure


@pytest.mark.parametrize(
    ("host", "shown", "reached"),
    [
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("localhost", "localhost", "localhost"),
        ("::1", "[::1]", "::1"),
        ("[::1]", "[::1]", "::1"),
        ("0.0.0.0", "127.0.0.1", "127.0.0.1"),
        ("::", "[::1]", "127.0.0.1"),
    ],
)
def test_the_address_that_is_shown_can_be_reached(host: str, shown: str, reached: str) -> None:
    settings = Settings(host=host, port=0)
    with listen(settings) as listener:
        port = listener.getsockname()[1]
        assert address_of(listener, settings) == f"http://{shown}:{port}"
        socket.create_connection((reached, port), 10).close()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "203.0.113.1"])
def test_a_host_that_is_no_local_address_is_explained(host: str) -> None:
    with pytest.raises(InvalidRequest, match="listen"):
        listen(Settings(host=host, port=0))


def test_the_demo_listens_on_loopback_only_under_any_name() -> None:
    settings = Settings(demo=True, port=0)
    with pytest.raises(InvalidRequest, match="loopback only"):
        listen(settings.model_copy(update={"host": "0.0.0.0"}))


@ON_SQLITE
@pytest.mark.parametrize(
    ("trusted", "codes"),
    [
        pytest.param((), [401, 429], id="anybody-could-write-it"),
        pytest.param(("127.0.0.1",), [401, 401], id="from-a-proxy-that-is-trusted"),
        pytest.param(("10.0.0.1",), [401, 429], id="from-another-address"),
    ],
)
async def test_a_trusted_proxy_names_the_client_address(
    make_app: MakeApp, make_settings: MakeSettings, trusted: tuple[str, ...], codes: list[int]
) -> None:
    settings = make_settings(trusted_proxies=trusted, rate_sign_in="1/minute")
    config = configure(await make_app(settings), settings)
    config.load()
    app: Any = config.loaded_app
    async with client_of(app) as client:
        asked = {"email": "nobody@example.com", "password": "wrong password"}
        found = [
            (
                await client.post("/api/auth/login", json=asked, headers={"X-Forwarded-For": address})
            ).status_code
            for address in ("198.51.100.1", "198.51.100.2")
        ]
    assert found == codes
