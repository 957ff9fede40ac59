"""Locks of files, for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from leasehold import client
from leasehold.client import LockContext
from leasehold.core.validation import check_on_loss
from leasehold.errors import InvalidRequest
from leasehold.files.info import info_of
from leasehold.files.lock_store import FileStore
from leasehold.files.sessions.co_editing import Room
from leasehold.files.sessions.context import DEFAULT, Office, check_purpose
from leasehold.files.sessions.credentials import Secret, check_session_id
from leasehold.files.sessions.held_file import FileHold, FileHolds
from leasehold.files.sessions.restore import Restorer
from leasehold.files.sessions.session import SessionCore
from leasehold.files.settings import FileSettings
from leasehold.files.worlds import TaskWorld

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
    from types import TracebackType

    from leasehold.client import Client, Lease
    from leasehold.core.engine import Engine
    from leasehold.core.replies import OnLoss
    from leasehold.files.info import FileInfo
    from leasehold.files.sessions.context import Path
    from leasehold.files.sessions.entries import Entry
    from leasehold.files.sessions.restore import Restored
    from leasehold.files.sessions.session import FileContent


class FileLease(FileHold["Lease"], client.Leases):
    """One file that is held: ``path``, ``mode``, ``fence``, and the verbs.

    Judged on the holder's own clock, as `leasehold.Lease`: ``is_lost``, ``remaining()``, ``check()``, ``await lost()``.
    """

    async def renew(self, ttl: float | None = None) -> None:
        """Extend it to ``ttl`` seconds from now, trimmed to what is allowed; see `leasehold.Lease.renew`."""
        await self.renew_all(None if ttl is None else self._owner.trim(ttl)[0])

    async def release(self) -> None:
        """Give the file back. Doing it twice is harmless.

        On return it is free and the session's history does not name it any more. Raises `LeaseLost` if it had ended
        before, and `StoreUnavailable` if the store gave no answer: it then ends with its ttl at the latest, and
        stays in the history until then.
        """
        await self.give_back()

    async def upgrade(self, *, wait: float | None = DEFAULT) -> None:
        """Turn a lease for reading into one for writing, with no writer in between.

        On return ``mode`` is ``write`` and ``fence`` has grown. While it waits for other readers, nobody new gets in.
        Raises `UpgradeRefused` at once if another reader waits for the same, `FileTimeout` or `FileBusy` (``wait=0``)
        if others still read: then it is still held for reading, as it is if it is cancelled while it waits. Of a
        file with several hard links the other names may be closed to readers by then, until it is released; the
        next upgrade goes on from there. ``wait`` is for all of it, also for another upgrade of the same lease. Raises
        `LeaseLost` if it had ended, or is released meanwhile. If the outcome is unknown (`StoreUnavailable`, or cancelled
        while the store was asked), it is given up altogether.
        """
        await self._owner.upgrade(self, wait)

    def hand_on(self, old: Lease, new: Lease) -> None:
        """Have the body of ``async with`` stopped when the new lease is lost."""
        new.scope, old.scope = old.scope, None
        if new.scope is not None:
            self._engine.watch(new)


class FileLeases(FileHolds["Lease", FileLease], client.Leases):
    """The files that `Session.write_all` holds together: ``leases["a.txt"].fence``, or ``leases.fences``."""

    def __getitem__(self, name: str) -> FileLease:  # pyright: ignore[reportIncompatibleMethodOverride] - by path, not by lock
        return self.file(name)

    async def release(self) -> None:
        """Give all of them back, and then raise what went wrong with the first that could not be."""
        await self.give_back()


H = TypeVar("H", FileLease, FileLeases)


class FileContext(Generic[H]):
    """What ``async with session.write(...)`` runs in: held and renewed while inside; see `leasehold.client.LockContext`."""

    def __init__(
        self, engine: Engine[Lease], acquire: Callable[[], Coroutine[Any, Any, H]], on_loss: OnLoss
    ) -> None:
        check_on_loss(on_loss)
        self._context: LockContext[Any] = LockContext(engine, cast("Any", acquire), on_loss)

    async def __aenter__(self) -> H:
        return await self._context.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._context.__aexit__(kind, error, trace)


class Session:
    """One opening of a session. Whoever has the secret acts for the session; ids are for showing to others.

    Every verb that asks for a file raises `InvalidRequest` for a path that is not a file below the root,
    `FileBusy` or `FileTimeout` with the reason if it cannot be had, `RateLimited` if the session asks too often,
    `NotAllowed` if there is another session of this id by now, and `StoreUnavailable` if the outcome is unknown. A
    ttl above the cap is trimmed, and the lease says so.
    """

    def __init__(
        self, core: SessionCore[Lease, FileLease], *, is_new_secret: bool, purpose: str | None
    ) -> None:
        self._core = core
        self._purpose = purpose
        self.secret = core.secret.reveal() if is_new_secret else None
        """The secret, if it was made here: keep it, it is not told again. None if the caller brought it."""

    def __repr__(self) -> str:
        return f"<Session {self.id!r} epoch={self.epoch} files={len(self._core.held)}>"

    @property
    def id(self) -> str:
        """By what others know the session."""
        return self._core.session_id

    @property
    def epoch(self) -> int:
        """Which opening this is; it grows with each."""
        return self._core.identity.epoch

    @property
    def held(self) -> list[FileLease]:
        """What this opening holds, or has not given back yet."""
        return list(self._core.held.values())

    def read(
        self,
        path: Path,
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        on_loss: OnLoss = "cancel",
    ) -> FileContext[FileLease]:
        """Hold the file for reading inside ``async with``: others may read it, nobody may write it."""
        terms = self._core.terms(ttl, wait, purpose or self._purpose, renew=True)
        core = self._core
        return FileContext(core.engine, lambda: core.acquire_one(path, "read", terms), on_loss)

    def write(
        self,
        path: Path,
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        on_loss: OnLoss = "cancel",
    ) -> FileContext[FileLease]:
        """Hold the file for writing inside ``async with``: nobody else has it."""
        terms = self._core.terms(ttl, wait, purpose or self._purpose, renew=True)
        core = self._core
        return FileContext(core.engine, lambda: core.acquire_one(path, "write", terms), on_loss)

    def write_all(
        self,
        paths: Iterable[Path],
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        on_loss: OnLoss = "cancel",
    ) -> FileContext[FileLeases]:
        """Hold all of the files for writing inside ``async with``, or none. They count as lost as soon as one is."""
        terms = self._core.terms(ttl, wait, purpose or self._purpose, renew=True)
        return FileContext(self._core.engine, lambda: self._acquire_all(paths, terms), on_loss)

    async def acquire_read(
        self,
        path: Path,
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        renew: bool = False,
    ) -> FileLease:
        """The file, held for reading until it is released or its ttl has passed; ``renew`` keeps it."""
        terms = self._core.terms(ttl, wait, purpose or self._purpose, renew=renew)
        return await self._core.acquire_one(path, "read", terms)

    async def acquire_write(
        self,
        path: Path,
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        renew: bool = False,
    ) -> FileLease:
        """The file, held for writing until it is released or its ttl has passed; ``renew`` keeps it."""
        terms = self._core.terms(ttl, wait, purpose or self._purpose, renew=renew)
        return await self._core.acquire_one(path, "write", terms)

    async def acquire_all(
        self,
        paths: Iterable[Path],
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        renew: bool = False,
    ) -> FileLeases:
        """All of the files, held for writing, or none of them. Two links to one file are one lease."""
        return await self._acquire_all(
            paths, self._core.terms(ttl, wait, purpose or self._purpose, renew=renew)
        )

    async def _acquire_all(self, paths: Iterable[Path], terms: Any) -> FileLeases:
        holds, spellings = await self._core.acquire_all(paths, terms)
        return FileLeases(self._core.engine, holds, spellings)

    async def release(self, path: Path) -> bool:
        """Give the file back, also one that an earlier process of the session holds; False if none does.

        Other names of the file that were asked for with it by `acquire_all` are given back, too.

        Of several leases on one file the latest. Raises what `FileLease.release` raises. Never counted by the rate limit.
        """
        return await self._core.release(path)

    async def read_file(self, path: Path) -> FileContent:
        """What is in a file that this session holds, with its SHA-256 and the fence.

        While the lease lasts no earlier writer of `write_file` changes it any more, not even one that was paused, if this
        process may write to its directory. `InvalidRequest` if the session does not hold it, `LeaseLost` if it does not
        any more, `NotFound` if there is no such file.
        """
        return await self._core.read_file(path)

    async def write_file(self, path: Path, data: bytes) -> str:
        """Replace what is in a file that this session holds for writing, and return its SHA-256.

        On return it is on disk, under a valid lease that the store has confirmed right before. Raises, and nothing was
        changed: `FileChanged` if the file is not what this session last saw of it (what it never looked at is
        not compared), `InvalidRequest` if it has several hard links or is not held for writing, `LeaseLost`
        unless it has ``is_replaced``: then the lease ended in the middle, the new contents are there, and somebody else may
        have had the file by then. After an `OSError` it is not known what is there; it has a note if it was replaced.
        See `leasehold.files.content.atomic_write` for the rest. If it is cancelled, the write is waited for.
        """
        return await self._core.write_file(path, data)

    async def history(self) -> list[Entry]:
        """What the store has written down about this session's files, the oldest first. No secrets are in it."""
        return await self._core.office.watch(self._core.book.entries())

    async def restore(self, *, timeout: float = 5, renew: bool = True) -> list[Restored[FileLease]]:
        """Take back what the session held before its process ended, each file for itself; see `Restored`.

        Each has ``timeout`` seconds, and none waits for another. An earlier process that is still alive loses what
        is restored here, at that moment. What this opening holds is left alone. Nothing about a single file
        is raised; `NotAllowed` and `StoreUnavailable` if the history cannot be read.
        """
        return await Restorer(self._core, timeout=timeout, renew=renew).restore_all()

    async def release_session_locks(self) -> list[str]:
        """Give back everything that the session holds, in whichever process, and say what that was.

        History and rate counters are cleared. The session itself stays.
        """
        return await self._core.release_session_locks()


class FileLocks:
    """Read and write locks for the files below ``root``, over an asynchronous client.

    With ``project`` the locks belong to the project's name and the path below the root, for machines that have the files
    at different places. Everybody who works on the files must use the same of the two. `InvalidRequest` if the root
    is not a directory.
    """

    def __init__(
        self,
        locks: Client,
        *,
        root: Path,
        project: str | None = None,
        settings: FileSettings | None = None,
    ) -> None:
        if not isinstance(locks, client.Client):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest(
                f"FileLocks is for leasehold.connect(...), not {type(locks).__module__}.{type(locks).__name__}; "
                "leasehold.files.blocking.FileLocks is for blocking clients"
            )
        engine, store = locks.store_access.engine_for("file", FileStore)
        self._office: Office[Lease] = Office(
            engine,
            store,
            locks.store_access.transport,
            locks.store_access.namespace_of("file_session"),
            TaskWorld(),
            root=root,
            project=project,
            settings=settings or FileSettings(),
        )

    async def session(
        self, session_id: str, *, secret: str | None = None, purpose: str | None = None
    ) -> Session:
        """Open a session, or make it.

        Without ``secret`` a session is made and ``session.secret`` has its secret, once. With it the session is opened, or
        made if there is none. `NotAllowed` if there is one with another secret. ``purpose`` is shown to others.
        """
        own = Secret.new() if secret is None else Secret.given(secret)
        check_purpose(purpose)
        core = SessionCore(self._office, check_session_id(session_id), own, FileLease)
        await core.open()
        return Session(core, is_new_secret=secret is None, purpose=purpose)

    def room(
        self, path: Path, *, holder: str, ttl: float | None = None, wait: float | None = 0
    ) -> FileContext[FileLease]:
        """Hold the file inside ``async with`` for people who edit it together; sessions are told ``room_busy``."""
        room = Room(self._office, holder, FileLease)
        return FileContext(self._office.engine, lambda: room.open(path, ttl, wait), "cancel")

    async def inspect(self, path: Path) -> FileInfo:
        """Who holds the file, as it was when the store answered."""
        file = await self._office.identify(path)
        info = info_of(await self._office.watch(self._office.engine.inspect(file.sha256)), file.path)
        assert info is not None
        return info

    async def list(self) -> AsyncIterator[FileInfo]:
        """The files that are held, of all projects and roots on this store; see `leasehold.Client.list`."""
        cursor = 0
        while True:
            cursor, found = await self._office.watch(self._office.engine.page("*", cursor))
            for lock in found:
                if (info := info_of(lock)) is not None:
                    yield info
            if not cursor:
                return
