"""Two worker processes, and people who are killed, frozen and overtaken while they edit."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.api import Api
from tests.server.team import Team, acquire, make_team, problem, save
from tests.support.waiting import eventually_async
from websockets.asyncio.client import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.server.api import Person
    from tests.server.conftest import MakeServed
    from tests.server.serving import Served

PATIENCE = 20.0
EDIT = "from tests.server.holder import edit; edit(parent)"


class Watcher:
    """A socket in the room of a document, served by a known worker."""

    def __init__(self, socket: Any, worker: int) -> None:
        self.worker = worker
        self.heard: list[tuple[float, str, dict[str, Any]]] = []
        self._reading = asyncio.create_task(self._read(socket))

    async def until(self, kind: str) -> tuple[float, dict[str, Any]]:
        """When it was told so, and what."""
        found = await eventually_async(
            lambda: [(at, data) for at, k, data in self.heard if k == kind], PATIENCE
        )
        return found[0]

    async def _read(self, socket: Any) -> None:
        async for text in socket:
            message = json.loads(text)
            self.heard.append((time.monotonic(), message["type"], message["data"]))


def worker_of(served: Served, client_port: int) -> int:
    """Which worker serves the connection from this port."""
    port = int(served.base_url.rsplit(":", 1)[1])
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, *rest = line.split()
        if int(local.split(":")[1], 16) == port and int(remote.split(":")[1], 16) == client_port:
            inodes.add(f"socket:[{rest[6]}]")
    for pid in served.workers():
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                if str(descriptor.readlink()) in inodes:
                    return pid
            except OSError:
                continue  # closed meanwhile
    raise AssertionError("no worker has this connection")


@asynccontextmanager
async def watching(served: Served, person: Person, document_id: str) -> AsyncIterator[Watcher]:
    async with connect(served.base_url.replace("http", "ws") + "/ws", max_queue=None) as socket:
        await socket.send(json.dumps({"type": "authenticate", "data": {"token": person.token}}))
        await socket.recv()
        await socket.send(json.dumps({"type": "join", "data": {"document_id": document_id}}))
        assert json.loads(await socket.recv())["type"] == "joined"
        yield Watcher(socket, worker_of(served, socket.local_address[1]))


@asynccontextmanager
async def watching_both(served: Served, person: Person, document_id: str) -> AsyncIterator[list[Watcher]]:
    """One watcher at each of two workers: as many are connected as that takes."""
    watchers: dict[int, Watcher] = {}
    async with AsyncExitStack() as sockets:
        async with asyncio.timeout(60):
            while len(watchers) < 2:
                watcher = await sockets.enter_async_context(watching(served, person, document_id))
                watchers.setdefault(watcher.worker, watcher)
        yield list(watchers.values())


@asynccontextmanager
async def team_of(served: Served) -> AsyncIterator[Team]:
    async with served.client() as client, Api(client) as api:
        yield await make_team(api)


@pytest.fixture
async def two_workers(served: MakeServed) -> Served:
    """Where whoever is asked to save has so much time that it matters to nobody how fast this machine is."""
    return served("--workers", "2", document_ttl=60, document_save_within=30)


@pytest.fixture
async def brief_workers(served: MakeServed) -> Served:
    """For what happens when that time is over: long enough for what must come before."""
    return served("--workers", "2", document_ttl=60, document_save_within=6)


async def content_of(person: Person, document_id: str) -> tuple[int, Any]:
    document = (await person.http.get(f"/api/documents/{document_id}")).json()
    return document["version"], document["content"]


async def lock_of(person: Person, document_id: str) -> dict[str, Any]:
    return (await person.http.get(f"/api/documents/{document_id}/lock")).json()


async def drafts_of(person: Person, document_id: str) -> list[dict[str, Any]]:
    answer = await person.http.get(f"/api/documents/{document_id}/drafts")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return body["drafts"] if "drafts" in body else body["items"]


async def test_what_happens_through_one_worker_is_told_by_both(two_workers: Served) -> None:
    async with team_of(two_workers) as team:
        document_id = await team.document()
        async with watching_both(two_workers, team.vera, document_id) as watchers:
            grant = await acquire(team.ana, document_id)
            await team.ana.http.delete(f"/api/documents/{document_id}/lock")
            for watcher in watchers:
                _, locked = await watcher.until("document_locked")
                assert locked["lock"]["version"]["fence"] == grant["fence"]
                await watcher.until("document_unlocked")


async def test_a_living_holder_s_last_text_is_a_version_before_the_taker_gets_the_lock(
    two_workers: Served, spawn: Callable[..., Any]
) -> None:
    async with team_of(two_workers) as team:
        document_id = await team.document()
        holder = spawn(EDIT, two_workers.base_url, team.ana.token, document_id, 3.0)
        assert (await holder.aread(60))["did"] == "acquire"
        answer = await team.olga.http.post(f"/api/documents/{document_id}/lock/force-take")
        assert answer.status_code == 200, answer.text
        taken = answer.json()
        # What the taker is told to begin with is the holder's text.
        assert (taken["saved"], taken["content_version"]) == (True, 1)
        assert await content_of(team.olga, document_id) == (1, "the last text")
        yielded = await holder.aread(60)
        assert (yielded["did"], yielded["status"], yielded["version"]) == ("yield", 200, 1)


async def test_a_frozen_holder_s_later_save_is_rescued(served: MakeServed, spawn: Callable[..., Any]) -> None:
    running = served("--workers", "2", document_ttl=60)
    async with team_of(running) as team:
        document_id = await team.document()
        holder = spawn(EDIT, running.base_url, team.ana.token, document_id, 3.0)
        assert (await holder.aread(60))["did"] == "acquire"
        holder.pause()
        began = time.monotonic()
        answer = await team.olga.http.post(f"/api/documents/{document_id}/lock/force-take")
        assert answer.status_code == 200, answer.text
        assert time.monotonic() - began >= 2.9  # the holder had its three seconds
        assert answer.json()["saved"] is False
        fence = answer.json()["fence"]
        assert (await save(team.olga, document_id, "Olga's", 0, fence)).status_code == 200

        holder.resume()
        holder.tell("what Ana had written")
        late = await holder.aread(60)
        while late["did"] != "save":  # it has also heard, late, that it should have saved
            late = await holder.aread(60)
        assert (late["status"], late["code"]) == (409, "save_rescued")
        assert await content_of(team.olga, document_id) == (1, "Olga's")
        drafts = {draft["id"] for draft in await drafts_of(team.olga, document_id)}
        assert late["draft_id"] in drafts


async def test_a_killed_holder_is_told_of_by_both_workers_within_a_second_after_the_ttl(
    served: MakeServed, spawn: Callable[..., Any]
) -> None:
    ttl = 4.0
    running = served("--workers", "2", document_ttl=ttl, document_heartbeat=1)
    async with team_of(running) as team:
        document_id = await team.document()
        async with watching_both(running, team.vera, document_id) as watchers:
            holder = spawn(EDIT, running.base_url, team.ana.token, document_id, 0.5)
            assert (await holder.aread(60))["did"] == "acquire"
            holder.kill()
            killed = time.monotonic()
            left = (await lock_of(team.vera, document_id))["expires_in"]
            # Read after the answer: however long that was under way, it has not ended later than this.
            ends = time.monotonic() + left
            for watcher in watchers:
                at, told = await watcher.until("document_lock_expired")
                assert told["lock_holder"] is None
                assert at - ends < 1.0
                assert at - killed > 0.5


async def test_a_worker_killed_in_the_middle_of_a_force_take_loses_no_save_and_blocks_nobody(
    brief_workers: Served,
) -> None:
    async with team_of(brief_workers) as team:
        document_id = await team.document()
        grant = await acquire(team.ana, document_id)
        host, port = brief_workers.base_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST /api/documents/{document_id}/lock/force-take HTTP/1.1\r\nHost: {host}\r\n"
            f"Authorization: Bearer {team.olga.token}\r\nContent-Length: 0\r\n\r\n".encode()
        )

        async def is_marked() -> bool:
            async with brief_workers.client(headers=team.ana.http.headers) as http:
                return (await http.get(f"/api/documents/{document_id}/lock")).json()["taking"] is not None

        await eventually_async(is_marked, PATIENCE)
        brief_workers.kill_worker(worker_of(brief_workers, writer.get_extra_info("sockname")[1]))
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()

        async with brief_workers.client(headers=team.ana.http.headers) as http:
            body = {"content": "kept", "base_version": 0, "fence": grant["fence"]}
            answer = await http.put(f"/api/documents/{document_id}/content", json=body)
            assert answer.status_code == 200, answer.text
            assert answer.json() == {"version": 1, "lock_lost": False}

            async def is_free_of_the_mark() -> bool:
                lock = (await http.get(f"/api/documents/{document_id}/lock")).json()
                assert lock["lock_holder"]["user_id"] == team.ana.id
                await http.post(f"/api/documents/{document_id}/lock/heartbeat")
                return lock["taking"] is None

            await eventually_async(is_free_of_the_mark, 60)

        # And now the owner takes it for good; nobody answers.
        async with brief_workers.client(headers=team.olga.http.headers) as http:
            answer = await http.post(f"/api/documents/{document_id}/lock/force-take")
            assert answer.status_code == 200, answer.text
            assert answer.json()["content_version"] == 1
            assert (await http.get(f"/api/documents/{document_id}")).json()["content"] == "kept"


async def test_a_holder_who_releases_meanwhile_hands_over_without_waiting(two_workers: Served) -> None:
    async with team_of(two_workers) as team:
        document_id = await team.document()
        await acquire(team.ana, document_id)
        taking = asyncio.create_task(team.olga.http.post(f"/api/documents/{document_id}/lock/force-take"))

        async def is_marked() -> bool:
            return (await lock_of(team.ana, document_id))["taking"] is not None

        await eventually_async(is_marked, PATIENCE)
        left = (await lock_of(team.ana, document_id))["taking"]["seconds_left"]
        released = await team.ana.http.delete(f"/api/documents/{document_id}/lock")
        # The release itself has handed it over: nobody had to wait for the deadline.
        assert released.json()["lock_holder"]["user_id"] == team.olga.id
        assert left > 0
        assert (await taking).status_code == 200


async def test_of_two_owners_who_take_at_once_one_wins_and_the_other_is_told_who(
    brief_workers: Served,
) -> None:
    async with team_of(brief_workers) as team:
        second = team.ben
        answer = await team.olga.http.patch(
            f"/api/applications/{team.application_id}/members/{second.id}", json={"role": "owner"}
        )
        assert answer.status_code == 200, answer.text
        document_id = await team.document()
        await acquire(team.ana, document_id)
        path = f"/api/documents/{document_id}/lock/force-take"
        answers = await asyncio.gather(team.olga.http.post(path), second.http.post(path))
        winners = [a for a in answers if a.status_code == 200]
        losers = [a for a in answers if a.status_code == 409]
        assert (len(winners), len(losers)) == (1, 1), [a.text for a in answers]
        assert problem(losers[0]) == (409, "lock_busy")
        assert losers[0].json()["lock_holder"]["user_id"] == winners[0].json()["lock_holder"]["user_id"]
