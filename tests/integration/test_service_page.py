"""The rights of an ACL user that docs/service.md lists are enough for every part of Leasehold."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.documents.host import DictStore
from tests.support.eventually import eventually_async

import leasehold
from leasehold.documents import DocumentLocks, Editor, Granted
from leasehold.documents.live.worker_notices import WorkerNotices
from leasehold.documents.ports import Principal
from leasehold.documents.store import scripts as document_scripts
from leasehold.documents.store.tickets import Tickets
from leasehold.files import FileLocks
from leasehold.files import scripts as file_scripts
from leasehold.valkey import scripts as lock_scripts

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers import Server

    from leasehold.valkey.scripts import Script

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
_RIGHTS = re.compile(r"^  - (?P<part>[^:]+): `(?P<rights>[^`]+)`$", re.MULTILINE)
_CALLED = re.compile(rb"redis\.p?call\('([A-Z]+)'")


def rights_of(*parts: str) -> list[str]:
    """The rights that the page lists for these parts."""
    listed = {match["part"]: match["rights"].split() for match in _RIGHTS.finditer(PAGE)}
    return [right for part in parts for right in listed[part]]


def start(own_server: Callable[..., Server], *parts: str) -> str:
    """A server, with a user who may do what the page lists for these parts; its URL."""
    rights = " ".join(rights_of(*parts))
    users = ["default off", f"locker on >secret resetchannels -@all {rights}"]
    return own_server("valkey9", user=users).url_for(username="locker", password="secret")


@pytest.mark.parametrize(
    ("parts", "scripts"),
    [
        (["locks", "`once` and `first_time`"], lock_scripts.ALL),
        (["locks", "documents"], document_scripts.ALL),
        (["locks", "files"], file_scripts.ALL),
    ],
    ids=["locks", "documents", "files"],
)
def test_the_page_lists_every_command_of_the_scripts(parts: list[str], scripts: tuple[Script, ...]) -> None:
    called = {f"+{name.decode().lower()}" for script in scripts for name in _CALLED.findall(script.source)}
    assert called - set(rights_of(*parts)) == set()


async def test_the_rights_for_locks_are_enough(own_server: Any) -> None:
    url = start(own_server, "locks", "`once` and `first_time`")
    async with leasehold.connect(url) as locks, leasehold.connect(url) as others:
        async with locks.lock("deal:42", ttl=5) as lease:
            await lease.renew()
            assert await locks.try_acquire("deal:42") is None
        taken = await locks.take("deal:42")
        assert (await locks.inspect("deal:42")).fence == taken.fence
        await taken.release()
        async with locks.lock("deal:44", mode="shared"), locks.lock("deal:44", mode="shared"):
            # Two clients, because the second one to wait removes those that are gone.
            waiting = [
                asyncio.create_task(each.acquire("deal:44", wait=20, ttl=5)) for each in (locks, others)
            ]

            async def are_waited_for() -> bool:
                return (await locks.inspect("deal:44")).waiters == 2

            await eventually_async(are_waited_for)
        for lease in asyncio.as_completed(waiting):
            await (await lease).release()
        async with locks.lock_all(["deal:45", "deal:46"]):
            assert [info.name async for info in locks.list("deal:45")] == ["deal:45"]
        assert [await locks.once("payout:42", lambda: 1), await locks.once("payout:42", lambda: 2)] == [1, 1]
        assert [await locks.first_time("deposit", 7), await locks.first_time("deposit", 7)] == [True, False]
        lost = await locks.acquire("deal:43", ttl=5)
        await (await locks.take("deal:43")).release()
        with pytest.raises(leasehold.LeaseLost, match="taken"):
            await lost.release()


async def test_the_rights_for_documents_are_enough(own_server: Any) -> None:
    async with leasehold.connect(start(own_server, "locks", "documents")) as client:
        documents, transport = DocumentLocks(client, DictStore("doc")), client.store_access.transport
        events: list[str] = []
        documents.listen(lambda event: events.append(event.kind), lambda: None)
        ana, olga = Editor("ana", "Ana", "tab"), Editor("olga", "Olga", "tab")
        granted = await documents.acquire("doc", ana)
        assert isinstance(granted, Granted)
        assert await documents.heartbeat("doc", ana) is not None
        await documents.release("doc", ana)
        assert (await documents.history("doc"))[0].fence == granted.fence
        await documents.acquire("doc", olga)
        tickets, notices = Tickets(transport), WorkerNotices(transport)
        admission = await tickets.use(await tickets.issue(Principal("ana", "Ana", session_id="s")))
        assert admission is not None
        await notices.end_sessions("ana", "s")
        await notices.announce_rights_changed("ana")
        assert await notices.have_ended([admission]) == [True]
        await eventually_async(lambda: "document_unlocked" in events)


async def test_the_rights_for_files_are_enough(own_server: Any, tmp_path: Path) -> None:
    async with leasehold.connect(start(own_server, "locks", "files")) as client:
        files = FileLocks(client, root=tmp_path)
        session = await files.session("ada")
        async with session.write("notes.md"):
            await session.write_file("notes.md", b"text")
        lease = await session.acquire_read("notes.md", ttl=60)
        await lease.upgrade()
        again = await files.session("ada", secret=session.secret)
        assert [report.outcome for report in await again.restore()] == ["restored"]
        assert [info.sha256 async for info in files.list()] == [(await files.inspect("notes.md")).sha256]
        await again.release_session_locks()
