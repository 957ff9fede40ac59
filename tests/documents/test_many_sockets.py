"""Very many sockets in one room of one worker, and some of them that do not read."""

from __future__ import annotations

import json
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest
from bench.documents.processes import raise_file_limit, resident_bytes
from bench.documents.websocket_clients import LOST, SocketClient, WebSocketClients
from tests.server.served import QUICK, Served
from tests.support.eventually import LIMIT, eventually

if TYPE_CHECKING:
    from tests.conftest import Count
    from tests.support.servers import Server

SETTINGS: dict[str, Any] = QUICK | {"max_sockets_per_user": 10_000}

# As large as a message gets, so that a queue without a limit shows in the worker's memory.
LONG_NAME = "\N{CJK UNIFIED IDEOGRAPH-20000}" * 80

GROWTH = 8 * 1024 * 1024
"""Bytes. Without limits each change would add 1.5 KB for each socket that does not read: see the counts below."""

TOO_SLOW = 4508
TINY_BUFFER = 2048

Version = tuple[int, int]


class Team:
    """An editor who changes the lock over REST, and its watchers."""

    def __init__(self, served: Served) -> None:
        self._http = httpx.Client(base_url=served.base_url, timeout=LIMIT)
        editor, viewer = self._register(LONG_NAME, "editor"), self._register("Vera", "viewer")
        self._as_editor = {"Authorization": f"Bearer {editor['access_token']}"}
        application = self._create("/api/applications", name="Team")["id"]
        self._create(f"/api/applications/{application}/members", email=viewer["email"], role="viewer")
        self.document = self._create("/api/documents", title="Plan", application_id=application)["id"]
        self.watching = [
            json.dumps({"type": "authenticate", "data": {"token": viewer["access_token"]}}),
            json.dumps({"type": "join", "data": {"document_id": self.document}}),
        ]
        self.slowest = 0.0

    def change(self, number: int) -> Version:
        """Acquire or release, in turn; returns the version of the lock that every watcher is to get."""
        began_at = time.monotonic()
        answer = self._http.request(
            "DELETE" if number % 2 else "POST",
            f"/api/documents/{self.document}/lock",
            headers=self._as_editor,
        )
        self.slowest = max(self.slowest, time.monotonic() - began_at)
        assert answer.status_code == 200, answer.text
        return _version(answer.json())

    def close(self) -> None:
        self._http.close()

    def _register(self, name: str, who: str) -> dict[str, Any]:
        asked = {"email": f"{who}@example.com", "password": "correct horse battery", "display_name": name}
        return self._answer(self._http.post("/api/auth/register", json=asked))

    def _create(self, path: str, **members: str) -> dict[str, Any]:
        return self._answer(self._http.post(path, json=members, headers=self._as_editor))

    def _answer(self, answer: httpx.Response) -> dict[str, Any]:
        assert answer.status_code == 201, answer.text
        return answer.json()


class Received:
    """The messages of each member, as versions of the lock."""

    def __init__(self) -> None:
        self.count = 0
        self.by_member: dict[int, list[Version]] = {}
        self._known: dict[bytes, Version] = {}  # nearly all get the same

    def note(self, member: SocketClient, text: bytes) -> None:
        if text not in self._known:
            self._known[text] = _version(json.loads(text)["data"]["lock"])
        self.by_member.setdefault(member.number, []).append(self._known[text])
        self.count += 1

    def of(self, member: SocketClient) -> list[Version]:
        return self.by_member.get(member.number, [])


@pytest.mark.timeout(900)
def test_sockets_that_read_get_every_change_although_others_do_not(
    tmp_path: Path, valkey: Server, count: Count
) -> None:
    sockets, silent = count(full=2000, quick=160), count(full=50, quick=60)
    changes = count(full=500, quick=150)
    settings = SETTINGS | {"data_dir": tmp_path / "data", "store_url": valkey.url}
    received = Received()
    raise_file_limit()
    with Served(["--workers", "1"], settings) as served, closing(Team(served)) as team:
        port, (worker,) = urlsplit(served.base_url).port, served.workers()
        assert port is not None
        with closing(WebSocketClients(port, "/ws", received.note)) as clients:
            readers = clients.connect([team.watching] * (sockets - silent), within=300)
            stalled = clients.connect([team.watching] * silent, within=60, receive_buffer=TINY_BUFFER)
            ports = {member.connection.getsockname()[1] for member in stalled}
            assert ports <= _connected_to(port)
            for member in stalled:
                clients.stall(member)

            sent: list[Version] = []

            def change() -> None:
                sent.append(team.change(len(sent)))
                expected = received.count + len(readers)
                all_received = clients.pump_until(lambda: received.count >= expected, within=LIMIT)
                assert all_received, f"{expected - received.count} did not get change {len(sent)}"

            for _ in range(20):
                change()
            before = most = resident_bytes(worker)
            for _ in range(changes):
                change()
                most = max(most, resident_bytes(worker))
            assert most - before < GROWTH

            # Half of them wake up, each perhaps before and perhaps after it was given up.
            late = stalled[: silent // 2]
            for member in late:
                clients.wake(member)
            assert clients.pump_until(
                lambda: all(
                    member.code is not None or received.of(member)[-1:] == sent[-1:] for member in late
                ),
                within=LIMIT,
            )
            for member in late:
                versions = received.of(member)
                assert len(versions) < len(sent), "messages to a socket that does not read are not kept"
                assert all(earlier < later for earlier, later in pairwise(versions))
                assert set(versions) <= set(sent)
                assert member.code in {None, TOO_SLOW, LOST}

            # The others never do: the worker closes them, without effect on the others.
            eventually(lambda: not ports & _connected_to(port) - _ports(late), every=0.2)
            change()
            assert {tuple(received.of(member)) for member in readers} == {tuple(sent)}
            assert all(member.code is None for member in readers)
            print(
                f"{sockets} sockets, {silent} silent, {len(sent)} changes: memory +{(most - before) // 1024} KiB, "
                f"slowest request {1000 * team.slowest:.0f} ms, late ones {[member.code for member in late]}"
            )


def _version(lock: dict[str, Any]) -> Version:
    return int(lock["version"]["fence"]), lock["version"]["step"]


def _ports(members: list[SocketClient]) -> set[int]:
    return {member.connection.getsockname()[1] for member in members if member.code is None}


def _connected_to(port: int) -> set[int]:
    """The ports of the clients that are connected to this one, as the kernel shows them at the server's end."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {
        int(row[2].partition(":")[2], 16)
        for row in rows
        if int(row[1].partition(":")[2], 16) == port and row[3] == "01"
    }
