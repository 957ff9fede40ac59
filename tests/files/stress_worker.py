"""One life of a session under stress: `python -m tests.files.stress_worker '{"url": …}'`.

It locks, reads, writes and upgrades at random, and records every outcome. It may be killed anywhere; the next life
of the session takes back what it held and goes on where it ended. With `planted_bugs` something is wrong with it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tests.files.stress_records import Journal, compose, is_whole, read_journals
from tests.files.stress_reports import known_of

import leasehold
from leasehold.errors import FileChanged, InvalidRequest, LeaseholdError, LeaseLost, LockBusy
from leasehold.files import FileLocks
from leasehold.files.content.atomic_write import write_atomically
from leasehold.files.content.contents import sha256_of
from leasehold.files.paths.identity import FileRoot
from leasehold.runtime import clock
from leasehold.runtime.asyncio_runtime import AsyncioConcurrency

if TYPE_CHECKING:
    from leasehold.files import FileLease, Session

Planted = Literal["nothing", "no locks", "writes in place", "restore made up"]
WAIT = 8.0


@dataclass(frozen=True)
class Orders:
    """The orders of the driver."""

    url: str
    root: str
    journals: str
    session: str
    secret: str
    life: int
    seed: str
    operations: int
    files: int
    ttl: float
    planted: Planted = "nothing"
    dies_writing: bool = False
    together: int = 1
    """It begins when so many journals are there."""

    def as_arguments(self) -> list[str]:
        return [sys.executable, "-m", "tests.files.stress_worker", json.dumps(vars(self))]


class Worker:
    def __init__(self, orders: Orders, session: Session) -> None:
        self._orders = orders
        self._session = session
        self._journal = Journal(Path(orders.journals), orders.session, orders.life)
        self._chance = random.Random(orders.seed)
        self._number = 0

    async def run(self) -> None:
        before = [
            line
            for line in read_journals(Path(self._orders.journals), f"{self._orders.session}.*.jsonl")
            if line["life"] < self._orders.life
        ]
        while len(list(Path(self._orders.journals).iterdir())) < self._orders.together:
            await asyncio.sleep(0.01)
        if self._orders.life:
            await self._restore(before)
        done = sum(line["event"] == "ended" for line in before)
        while done < self._orders.operations:
            await self._operate()
            self._journal.note("ended")
            done += 1

    async def _restore(self, before: list[dict[str, Any]]) -> None:
        note = self._journal.note
        note("restoring")
        if self._orders.planted == "restore made up":
            for path, known in known_of(before).items():
                if known.is_certain:
                    note("report", path=path, outcome="restored", mode=known.mode, fence=known.fence, to=None)
            note("restored")
            return
        # Short waits lose some files to other sessions, which the error must then name.
        reports = await self._session.restore(timeout=self._chance.choice([0.05, WAIT]))
        for report in reports:
            to = report.lost_to.get("session") if isinstance(report.lost_to, dict) else report.lost_to
            note(
                "report",
                path=Path(report.path).name,
                outcome=report.outcome,
                mode=report.mode,
                fence=report.fence,
                to=to,
                error=report.error and str(report.error),
            )
        note("restored")
        for report in reports:
            if report.lease is not None:
                path = Path(report.path).name
                await self._use(path, report.lease, writes=report.mode == "write")
                await self._give_back(path, report.lease)

    async def _operate(self) -> None:
        kind = self._chance.choices(["read", "write", "upgrade", "several"], [50, 35, 8, 7])[0]
        paths = self._chance.sample([f"f{number:02}" for number in range(self._orders.files)], 2)
        if kind == "several":
            await self._write_several(paths)
            return
        lease = await self._acquire(paths[0], "write" if kind == "write" else "read")
        if lease is None:
            return
        await self._use(paths[0], lease, writes=kind == "write")
        if kind == "upgrade" and await self._upgrade(paths[0], lease):
            await self._use(paths[0], lease, writes=True)
        await self._give_back(paths[0], lease)

    async def _acquire(self, path: str, mode: str) -> FileLease | None:
        self._journal.note("asked", path=path, mode=mode)
        ask = self._session.acquire_write if mode == "write" else self._session.acquire_read
        try:
            lease = await ask(path, ttl=self._orders.ttl, wait=WAIT, renew=True)
        except LockBusy:
            self._journal.note("busy", path=path)
            return None
        self._journal.note("granted", path=path, mode=mode, fence=lease.fence)
        return lease

    async def _write_several(self, paths: list[str]) -> None:
        for path in paths:
            self._journal.note("asked", path=path, mode="write")
        try:
            leases = await self._session.acquire_all(paths, ttl=self._orders.ttl, wait=WAIT, renew=True)
        except LockBusy:
            for path in paths:
                self._journal.note("busy", path=path)
            return
        for path in paths:
            self._journal.note("granted", path=path, mode="write", fence=leases[path].fence)
        for path in paths:
            await self._use(path, leases[path], writes=True)
        for path in paths:
            await self._give_back(path, leases[path])

    async def _upgrade(self, path: str, lease: FileLease) -> bool:
        self._journal.note("upgrading", path=path)
        try:
            await lease.upgrade(wait=WAIT)
        except (LockBusy, LeaseLost):
            return False
        self._journal.note("granted", path=path, mode="write", fence=lease.fence, upgraded=True)
        return True

    async def _use(self, path: str, lease: FileLease, *, writes: bool) -> None:
        try:
            seen = await self._read(path)
            # Mostly short, and sometimes as long as people take.
            await asyncio.sleep(self._chance.choice([0.001, 0.005, 0.02, 0.2]) * self._chance.random())
            if writes:
                await self._write(path, seen)
            elif self._chance.random() < 0.3:
                await self._read(path)
        except LeaseLost:
            pass  # which is recorded with its release

    async def _read(self, path: str) -> str:
        since = clock.now()
        if self._orders.planted in {"no locks", "writes in place"}:
            data = self._path(path).read_bytes()
        else:
            data = (await self._session.read_file(path)).data
        sha = sha256_of(data)
        self._journal.note("read", path=path, sha=sha, whole=is_whole(data), sure=True, since=since)
        return sha

    async def _write(self, path: str, seen: str) -> None:
        self._number += 1
        data = compose(f"{self._orders.session}.{self._orders.life}", self._number)
        sha = sha256_of(data)
        self._journal.note("writing", path=path, seen=seen, sha=sha)
        try:
            if self._orders.planted == "no locks":
                file = FileRoot(self._orders.root).identify(path)
                await AsyncioConcurrency().run_blocking(
                    lambda: write_atomically(file, data, check=lambda: None)
                )
            elif self._orders.planted == "writes in place":
                await self._write_in_place(path, data)
            else:
                self._die_if_told_to()
                await self._session.write_file(path, data)
        except (FileChanged, InvalidRequest, LeaseLost) as error:
            if not hasattr(error, "__notes__"):  # the note says that the file was written all the same
                self._journal.note("unwritten", path=path, sha=sha, why=str(error))
        else:
            self._journal.note("written", path=path, sha=sha)

    async def _give_back(self, path: str, lease: FileLease) -> None:
        self._journal.note("releasing", path=path)
        try:
            await lease.release()
        except LeaseLost:
            self._journal.note("lost", path=path)
        else:
            self._journal.note("released", path=path)

    async def _write_in_place(self, path: str, data: bytes) -> None:
        with self._path(path).open("wb") as file:
            for half in (data[: len(data) // 2], data[len(data) // 2 :]):
                file.write(half)
                file.flush()
                self._die_if_told_to()
                await asyncio.sleep(0.05)

    def _die_if_told_to(self) -> None:
        if self._orders.dies_writing:
            os.kill(os.getpid(), signal.SIGKILL)

    def _path(self, path: str) -> Path:
        return Path(self._orders.root) / path


class NoLock:
    """Grants every request, for the control run without locks."""

    fence = 0

    async def release(self) -> None: ...

    async def upgrade(self, *, wait: float) -> None: ...


class NoLocks:
    """A session that locks nothing."""

    async def acquire_read(self, path: str, **_: Any) -> NoLock:
        lock = NoLock()
        lock.fence = int(clock.now() * 1e9)
        return lock

    acquire_write = acquire_read

    async def acquire_all(self, paths: list[str], **_: Any) -> dict[str, NoLock]:
        return {path: await self.acquire_read(path) for path in paths}

    async def restore(self, *, timeout: float) -> list[Any]:
        return []


async def live(orders: Orders) -> None:
    if orders.planted == "no locks":
        await Worker(orders, NoLocks()).run()  # pyright: ignore[reportArgumentType] - on purpose
        return
    async with leasehold.connect(orders.url, timeout=20) as locks:
        session = await FileLocks(locks, root=orders.root).session(orders.session, secret=orders.secret)
        try:
            await Worker(orders, session).run()
        except LeaseholdError as error:
            sys.exit(f"{orders.session}.{orders.life}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    asyncio.run(live(Orders(**json.loads(sys.argv[1]))))
