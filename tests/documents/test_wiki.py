"""The example: a whole application around the router, with its own users and pages."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import websockets
from examples.wiki import create_app
from tests.documents.workers import serving
from tests.support.eventually import LIMIT, eventually
from tests.support.servers import reserve_port

ROOT = Path(__file__).resolve().parents[2]
LOCK = "/api/documents/home/lock"


@pytest.fixture
async def wiki(valkey):
    """Its port, and a client of it."""
    async with (
        serving(create_app(valkey.url)) as (_, port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60, verify=False) as client,
    ):
        yield port, client


def as_user(name: str, tab: str = "") -> dict[str, str]:
    return {"Authorization": f"Bearer {name}", "Leasehold-Tab": tab}


async def test_people_edit_and_are_seen_editing_and_no_work_is_lost(wiki) -> None:
    port, client = wiki
    ana, olga = as_user("ana", "one"), as_user("olga", "two")
    assert (await client.get(LOCK)).status_code == 401
    assert (await client.post("/api/documents/away/lock", headers=ana)).status_code == 404
    ticket = (await client.post("/api/live/ticket", headers=ana)).json()["ticket"]
    async with websockets.connect(f"ws://127.0.0.1:{port}/ws", compression=None) as socket:

        async def receive(kind: str) -> dict:
            message = json.loads(await asyncio.wait_for(socket.recv(), LIMIT))
            assert message["type"] == kind, message
            return message["data"]

        await socket.send(json.dumps({"type": "authenticate", "data": {"ticket": ticket, "tab": "one"}}))
        await receive("authenticated")
        await socket.send(json.dumps({"type": "join", "data": {"document_id": "home"}}))
        assert not (await receive("joined"))["lock"]["locked"]

        fence = (await client.post(LOCK, headers=ana)).json()["fence"]
        assert (await receive("document_locked"))["lock_holder"]["tab_is_mine"]
        assert (await client.post(LOCK, headers=olga)).json()["lock_holder"]["user_name"] == "Ana"
        edit = {"content": "Welcome!", "base_version": 0, "fence": fence}
        assert (await client.put("/pages/home", json=edit, headers=ana)).json() == {"version": 1}
        assert (await client.put("/pages/home", json=edit, headers=ana)).json() == {"version": 1}

        taking = asyncio.create_task(client.post(f"{LOCK}/force-take", headers=olga))
        await receive("document_force_save_requested")
        last = {"content": "Welcome, all!", "base_version": 1, "fence": fence, "release": True}
        assert (await client.put("/pages/home", json=last, headers=ana)).json() == {"version": 2}
        taken = (await taking).json()
        assert (taken["saved"], taken["content_version"]) == (True, 2)
        assert (await receive("document_force_taken"))["lock_holder"]["user_name"] == "Olga"

        late = {"content": "too late", "base_version": 2, "fence": fence}
        rescued = (await client.put("/pages/home", json=late, headers=ana)).json()
        assert (rescued["reason"], rescued["version"]) == ("stale_fence", 2)


def test_it_runs_as_a_program(valkey) -> None:
    with reserve_port() as reservation, httpx.Client(verify=False) as client:
        port = reservation.getsockname()[1]
        wiki = subprocess.Popen([sys.executable, "-m", "examples.wiki", str(port), valkey.url], cwd=ROOT)
        try:

            def answer() -> httpx.Response | None:
                with suppress(httpx.TransportError):
                    return client.get(f"http://127.0.0.1:{port}{LOCK}", headers=as_user("ana"))

            assert eventually(answer).json()["locked"] is False
        finally:
            wiki.terminate()
            assert wiki.wait(LIMIT) in {0, -signal.SIGTERM}
