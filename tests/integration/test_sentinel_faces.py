"""Everything that uses locks goes on after a fail-over: redis-py clients, `once`, guards, files, `leasehold run`, the service."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import redis.asyncio.sentinel
import redis.sentinel
from tests.server.api import Api
from tests.server.served import QUICK, Served
from tests.server.team import acquire, make_team, save
from tests.server.test_two_workers import watching_both
from tests.support.clients import insist
from tests.support.eventually import LIMIT, eventually_async
from tests.support.sentinels import SERVICE, Monitored
from tests.support.threads import InThread

import leasehold
from leasehold import RateLimited, StaleFence, StoreError
from leasehold.files import FileLocks, FileSettings
from leasehold.operations.guards.valkey import guarded_get, guarded_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path

    Face = Callable[["Scene"], Coroutine[Any, Any, None]]

DOWN_AFTER_MS = 1000


class Scene:
    """A service that is failed over once all faces have prepared for it."""

    def __init__(self, group: Monitored, directory: Path, faces: int) -> None:
        self.group = group
        self.directory = directory
        self._ready = asyncio.Barrier(faces + 1)
        self._failed_over = asyncio.Event()

    @property
    def sentinels(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", each.port) for each in self.group.sentinels]

    async def fail_over(self) -> None:
        """What a face waits for in its middle."""
        await self._ready.wait()
        await self._failed_over.wait()

    async def direct(self) -> None:
        """Kill the primary, when all are ready and the replica has everything."""
        await self._ready.wait()
        self.group.replicas[0].wait_until_synced()
        self.group.primary.kill()
        self._failed_over.set()


async def retried(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """What `work` returns once there is a primary."""
    results = []

    async def is_done() -> bool:
        try:
            results.append(await work())
        except (StoreError, redis.RedisError):
            return False
        return True

    await eventually_async(is_done, every=0.1)
    return results[-1]


async def over_redis_py_async(scene: Scene) -> None:
    sentinel = redis.asyncio.sentinel.Sentinel(scene.sentinels, socket_timeout=2)
    async with (
        sentinel,
        sentinel.master_for(SERVICE, socket_timeout=2) as existing,
        leasehold.from_client(existing) as locks,
    ):
        before = await locks.acquire("redis-py async", ttl=1)
        other = await locks.acquire("redis-py async", ttl=60, wait=LIMIT)
        await other.release()
        assert before.fence + 1 < other.fence  # by the clock
        await scene.fail_over()
        after = await insist(locks, "redis-py async")
        assert other.fence < after.fence
        await after.release()


async def over_redis_py_blocking(scene: Scene) -> None:
    sentinel = redis.sentinel.Sentinel(scene.sentinels, socket_timeout=2)
    with (
        sentinel.master_for(SERVICE, socket_timeout=2) as existing,
        leasehold.from_client(existing) as client,
    ):
        locks = InThread(client)
        before = await locks.acquire("redis-py blocking", ttl=60)
        await scene.fail_over()
        taken = await retried(lambda: locks.take("redis-py blocking", ttl=60))
        assert before.fence + 1 < taken.fence
        await taken.release()
    for each in sentinel.sentinels:
        each.close()


async def once(scene: Scene) -> None:
    runs = []
    async with leasehold.connect(scene.group.url) as locks:
        assert await locks.once("payout", lambda: runs.append(1) or "paid") == "paid"
        assert await locks.first_time("deposit", 7)
        await scene.fail_over()
        assert await retried(lambda: locks.once("payout", lambda: runs.append(2) or "again")) == "paid"
        assert not await retried(lambda: locks.first_time("deposit", 7))
    assert runs == [1]


async def guards(scene: Scene) -> None:
    sentinel = redis.asyncio.sentinel.Sentinel(scene.sentinels, socket_timeout=2)
    async with sentinel, sentinel.master_for(SERVICE, socket_timeout=2) as resource:
        await guarded_set(resource, "balance", "100", 8)
        await scene.fail_over()
        with pytest.raises(StaleFence):
            await retried(lambda: guarded_set(resource, "balance", "90", 7))  # type: ignore[arg-type]
        assert await guarded_get(resource, "balance", 9) == b"100"


async def files(scene: Scene) -> None:
    settings = FileSettings(ttl=120, rate_limit=4, rate_limit_url=scene.group.url)
    async with leasehold.connect(scene.group.url) as locks:
        session = await FileLocks(locks, root=scene.directory, settings=settings).session("one")
        lease = await session.acquire_write("a.txt")
        await scene.fail_over()
        await retried(lease.renew)
        await session.write_file("a.txt", b"text")
        assert [entry.path for entry in await session.history()]
        names = itertools.count()

        async def is_limited() -> bool:
            try:
                await session.acquire_read(f"{next(names)}.txt")
            except RateLimited:
                return True
            except StoreError:
                pass  # of the counters: their client has not found the primary yet
            return False

        await eventually_async(is_limited)
        await session.release("a.txt")
        assert (scene.directory / "a.txt").read_bytes() == b"text"


async def command_line(scene: Scene) -> None:
    """`leasehold run` keeps its lock, and ends with the code of its command."""
    go_on = scene.directory / "go-on"
    wait_for_it = f"until test -e {go_on}; do sleep 0.1; done; exit 7"
    command = [sys.executable, "-m", "leasehold", "run", "--url", scene.group.url, "--ttl", "60", "nightly"]
    process = await asyncio.create_subprocess_exec(
        *command, "--", "sh", "-c", wait_for_it, stderr=subprocess.PIPE
    )
    try:
        async with leasehold.connect(scene.group.url) as locks:

            async def holder() -> Any:
                return (await locks.inspect("nightly")).holds

            await eventually_async(holder)
            await scene.fail_over()
            assert await retried(holder)
            go_on.touch()
            _, said = await process.communicate()
            assert process.returncode == 7, said.decode()
            assert not await retried(holder)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


FACES: tuple[Face, ...] = (over_redis_py_async, over_redis_py_blocking, once, guards, files, command_line)


async def test_every_use_of_locks_goes_on_after_a_fail_over(tmp_path: Path) -> None:
    """One fail-over for all of them."""
    with Monitored(down_after_ms=DOWN_AFTER_MS) as group:
        scene = Scene(group, tmp_path, len(FACES))

        async def show(face: Face) -> None:
            try:
                await face(scene)
            except BaseException as error:
                error.add_note(f"in {face.__name__}")
                raise

        async with asyncio.TaskGroup() as tasks:
            for face in FACES:
                tasks.create_task(show(face))
            tasks.create_task(scene.direct())


@asynccontextmanager
async def service(group: Monitored, data_dir: Path) -> AsyncIterator[Served]:
    settings = QUICK | {"data_dir": data_dir, "store_url": group.url, "document_ttl": 120}
    served = Served(["--workers", "2"], settings)
    await asyncio.to_thread(served.start)
    try:
        yield served
    finally:
        await asyncio.to_thread(served.close)


async def test_documents_are_edited_over_a_fail_over_with_two_workers(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        group = stack.enter_context(Monitored(down_after_ms=DOWN_AFTER_MS))
        running = await stack.enter_async_context(service(group, tmp_path))
        assert running.told["store_url"] == group.url
        api = await stack.enter_async_context(Api(await stack.enter_async_context(running.client())))
        team = await make_team(api)
        document_id = await team.document()
        watchers = await stack.enter_async_context(watching_both(running, team.vera, document_id))
        grant = await acquire(team.ana, document_id)
        group.replicas[0].wait_until_synced()
        group.primary.pause()
        try:
            is_unready = await eventually_async(lambda: readiness(running, 503))
            assert is_unready
            # The database is there, so what was typed is saved.
            saved = await save(team.ana, document_id, "typed meanwhile", 0, grant["fence"])
            assert saved.status_code == 200, saved.text
            assert await eventually_async(lambda: readiness(running, 200))
        finally:
            group.primary.resume()

        async def is_taken() -> bool:
            answer = await team.olga.http.post(f"/api/documents/{document_id}/lock/force-take")
            return answer.status_code == 200

        await eventually_async(is_taken, every=0.2)
        for watcher in watchers:
            await watcher.until("document_force_taken")
        late = await save(team.ana, document_id, "too late", 1, grant["fence"])
        assert late.status_code == 409
        assert "sentinel_password" not in running.log()


async def readiness(running: Served, status: int) -> bool:
    async with running.client() as http:
        return (await http.get("/readyz")).status_code == status
