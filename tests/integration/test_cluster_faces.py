"""Documents, files and the command line on a cluster, over several of its slots."""

from __future__ import annotations

import subprocess
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from tests.documents.conftest import HASTY
from tests.documents.host import DictStore
from tests.documents.test_locks_events import EventRecorder
from tests.support.eventually import LIMIT, eventually_async

import leasehold
from leasehold.documents import DocumentLocks, Editor
from leasehold.files import FileLocks, FileSettings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Cluster

ANA, BOB = Editor("user-ana", "Ana", "tab-1"), Editor("user-bob", "Bob", "tab-1")


async def test_workers_that_listen_at_different_nodes_see_the_same_documents(cluster: Cluster) -> None:
    documents = cluster.names_everywhere("doc")
    host = DictStore(*documents)
    async with AsyncExitStack() as opened:
        workers: dict[str, DocumentLocks] = {}
        recorders: list[EventRecorder] = []
        while len(workers) < len(cluster.primaries):
            # Each client begins to listen at a random node.
            client = await opened.enter_async_context(leasehold.connect(cluster.url, timeout=LIMIT))
            locks = DocumentLocks(client, host, times=HASTY)
            workers[str(client.store_access.transport._picked)] = locks
            recorders.append(EventRecorder(locks))
            await recorders[-1].ready()
        one, other, _ = workers.values()
        for document_id in documents:
            granted = await one.acquire(document_id, ANA)
            taken = await other.force_take(document_id, BOB)
            assert taken.fence > granted.fence
            await one.release(document_id, BOB)
        for recorder in recorders:
            # Of one document in order; of documents on different nodes in any.
            await eventually_async(lambda recorder=recorder: len(recorder.events) == 4 * len(documents))
            for document_id in documents:
                kinds = [event.kind for event in recorder.events if event.state.document_id == document_id]
                assert kinds == [
                    "document_locked",
                    "document_force_save_requested",
                    "document_force_taken",
                    "document_unlocked",
                ]


async def test_files_in_several_slots_are_held_together_and_restored(
    cluster: Cluster, tmp_path: Path
) -> None:
    settings = FileSettings(ttl=60, wait=LIMIT)
    paths = [f"{number}.txt" for number in range(20)]
    async with leasehold.connect(cluster.url) as client, leasehold.connect(cluster.url) as rival:
        session = await FileLocks(client, root=tmp_path, settings=settings).session("one")
        other = await FileLocks(rival, root=tmp_path, settings=settings).session("other")
        leases = await session.acquire_all(paths)
        files = FileLocks(rival, root=tmp_path, settings=settings)
        assert len([info async for info in files.list()]) == len(await session.history()) == len(paths)
        with pytest.raises(leasehold.LockBusy):
            await other.acquire_all(paths[::-1], wait=0)
        assert await other.history() == []
        await leases.release()
        for path in paths:
            lease = await other.acquire_read(path)
            await lease.upgrade()
            assert lease.mode == "write"
            await lease.release()


def test_the_command_line_runs_under_a_lock_of_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    for name in cluster.names_everywhere():
        command = [sys.executable, "-m", "leasehold", "run", "--url", cluster.url, name, "--"]
        done = subprocess.run(
            [*command, sys.executable, "-c", "import os; print(os.environ['LEASEHOLD_FENCE'])"],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert int(done.stdout) > 0
