"""Hostile clients of every kind: a worker's memory stays where it was, and other clients are served as before."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.server.hostile_clients import ATTACKS, many_objects
from tests.server.served import QUICK, Served
from tests.support.eventually import LIMIT
from tests.support.launcher import launch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import Count
    from tests.support.servers import Server

pytestmark = pytest.mark.timeout(300)

MIB = 1 << 20
MOST_MEMORY = 64 * MIB
SLOWEST = 0.25
"""Seconds of the 99th percentile, or ten times that of a server without an attack, whichever is longer."""

OTHER_ADDRESS = "127.0.0.2"


@pytest.fixture(scope="module")
def attacked(service_store: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A service with one worker and the usual limits, and slow clients ended soon."""
    settings = QUICK | {
        "data_dir": tmp_path_factory.mktemp("attacked"),
        "store_url": service_store.url,
        "request_seconds": 1,
    }
    with Served([], settings) as served:
        yield Victim(served)


class Victim:
    """The attacked service, with a user who attacks."""

    def __init__(self, served: Served) -> None:
        self.served = served
        (self.worker,) = served.workers()
        self.token = register(served, "mallory")
        headers = {"Authorization": f"Bearer {self.token}"}
        with httpx.Client(base_url=served.base_url, headers=headers, timeout=LIMIT) as http:
            self.document, _ = self._make_document(http, "x" * 1_000_000)
            self.nested, grant = self._make_document(http, json.loads(many_objects(65_000)))
            rescued = http.put(f"/api/documents/{self.nested}/content", json={**grant, "content": {"a": 1}})
            assert rescued.status_code == 409, rescued.text
            self.draft = rescued.json()["draft_id"]

    @staticmethod
    def _make_document(http: httpx.Client, content: Any) -> tuple[str, dict[str, Any]]:
        """A new document's id, and the grant that its first version was saved under."""
        document = http.post("/api/documents", json={"title": "Large"}).json()["id"]
        fence = http.post(f"/api/documents/{document}/lock", json={}).json()["fence"]
        grant = {"fence": fence, "base_version": 0}
        saved = http.put(f"/api/documents/{document}/content", json={**grant, "content": content})
        assert saved.status_code == 200, saved.text
        return document, grant

    def memory(self) -> int:
        """Resident bytes of the worker."""
        status = Path(f"/proc/{self.worker}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024


class OtherClient:
    """A user at another address, who asks for the own documents over one connection."""

    def __init__(self, served: Served) -> None:
        self._port = int(served.base_url.rpartition(":")[2])
        self._headers = {"Authorization": f"Bearer {register(served, 'vera')}"}
        self._connection = self._connect()
        # Linux' ids of the clocks that count the CPU time of these processes.
        self._work_clocks = [(~worker << 3) | 2 for worker in served.workers()]
        self.times: list[float] = []
        self.work: list[float] = []
        """CPU seconds of the workers until the response was there, which a busy machine does not change."""
        self.failures: list[str] = []

    def ask(self) -> None:
        """One request, measured."""
        began_at, worked_before = time.perf_counter(), self._worked()
        try:
            self._get()
        except http.client.RemoteDisconnected:
            # As every client does: the server may end an idle connection, and this process may have been idle for long.
            self._get()
        self.times.append(time.perf_counter() - began_at)
        self.work.append(self._worked() - worked_before)

    def _get(self) -> None:
        try:
            self._connection.request("GET", "/api/documents", headers=self._headers)
            response = self._connection.getresponse()
            response.read()
            if response.status != 200:
                self.failures.append(f"{response.status}")
        except http.client.RemoteDisconnected:
            self._connection.close()
            raise
        except (OSError, http.client.HTTPException) as error:
            self.failures.append(repr(error))
            self._connection.close()

    def _worked(self) -> float:
        return sum(time.clock_gettime(each) for each in self._work_clocks)

    def close(self) -> None:
        self._connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(
            "127.0.0.1", self._port, timeout=LIMIT, source_address=(OTHER_ADDRESS, 0)
        )


def p99(times: list[float]) -> float:
    """The 99th percentile; of few, the longest but one."""
    return sorted(times)[int(0.99 * (len(times) - 1))]


def time_to_decode() -> float:
    """CPU seconds for decoding one large content: a slow machine may take longer for everything."""
    content = many_objects(65_000)
    began_at = time.thread_time()
    json.loads(content)
    return time.thread_time() - began_at


def register(served: Served, name: str) -> str:
    """A new user's access token."""
    asked = {
        "email": f"{name}-{time.monotonic_ns()}@example.com",
        "password": "correct horse battery",
        "display_name": name,
    }
    answer = httpx.post(f"{served.base_url}/api/auth/register", json=asked, timeout=LIMIT)
    assert answer.status_code == 201, answer.text
    return answer.json()["access_token"]


@contextmanager
def attacking(victim: Victim, attack: str, connections: int) -> Iterator[subprocess.Popen[bytes]]:
    """Inside, the clients attack."""
    order = {
        "port": int(victim.served.base_url.rpartition(":")[2]),
        "attack": attack,
        "connections": connections,
        "token": victim.token,
        "document": victim.document,
        "nested": victim.nested,
        "draft": victim.draft,
    }
    command = [sys.executable, "-m", "tests.server.hostile_clients"]
    process = launch(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(order).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"attacking\n"
        yield process
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(LIMIT)
        finally:
            process.kill()
            process.wait(LIMIT)
            process.stdout.close()


@pytest.mark.parametrize("attack", ATTACKS)
def test_others_are_served_and_memory_stays(
    attacked: Victim, service: Served, count: Count, full: bool, attack: str
) -> None:
    with closing(OtherClient(service)) as quiet, closing(OtherClient(attacked.served)) as other:
        more, decoding = _measure(
            attacked, quiet, other, attack, count(full=100, quick=30), 12 if full else 1
        )
    figures = (
        f"p99 {1000 * p99(other.times):.0f} ms (quiet {1000 * p99(quiet.times):.0f}), "
        f"{1000 * p99(other.work):.0f} ms of CPU (quiet {1000 * p99(quiet.work):.0f}), {more / MIB:.1f} MiB more"
    )
    print(attack, figures, f"{1000 * decoding:.0f} ms to decode")
    assert other.failures == []
    # Where the other client has to wait for the machine, the worker goes on with the attack.
    slowest = max(SLOWEST if full else 2 * SLOWEST, 10 * decoding)
    assert p99(other.work) < max(slowest, 10 * p99(quiet.work)), figures
    if full:  # which has the machine for itself
        assert p99(other.times) < max(slowest, 10 * p99(quiet.times)), figures
    assert more < MOST_MEMORY, figures


def _measure(
    attacked: Victim, quiet: OtherClient, other: OtherClient, attack: str, connections: int, seconds: float
) -> tuple[int, float]:
    """Attack for some seconds. Return by how many bytes the worker's memory grew, and the longest `time_to_decode`."""
    decoding = 0.0
    other.ask()
    before = most = attacked.memory()
    other.times.clear()
    other.work.clear()
    with attacking(attacked, attack, connections):
        until = time.monotonic() + seconds
        while time.monotonic() < until or len(other.times) < 30:
            # In turns, so that whatever else the machine does slows both.
            quiet.ask()
            other.ask()
            most = max(most, attacked.memory())
            if len(other.times) % 5 == 0:
                decoding = max(decoding, time_to_decode())
            time.sleep(0.005)
    return most - before, decoding
