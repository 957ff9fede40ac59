"""Locks files, for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from leasehold import client
from leasehold.client import LockContext
from leasehold.core.validation import check_on_loss
from leasehold.errors import InvalidRequest
from leasehold.files.info import file_info
from leasehold.files.lock_store import FileLockStore
from leasehold.files.sessions import read_write, release
from leasehold.files.sessions.acquire import acquire_all, acquire_one, make_terms
from leasehold.files.sessions.co_editing import CoEditing
from leasehold.files.sessions.context import DEFAULT, SessionContext, check_purpose
from leasehold.files.sessions.credentials import Secret, check_session_id
from leasehold.files.sessions.held_file import HeldFile, HeldFiles
from leasehold.files.sessions.restore import Restorer
from leasehold.files.sessions.session import SessionCore
from leasehold.files.settings import FileSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
    from types import TracebackType

    from leasehold.client import Client, Lease
    from leasehold.core.engine import Engine
    from leasehold.core.replies import OnLoss
    from leasehold.files.info import FileInfo
    from leasehold.files.sessions.context import Path
    from leasehold.files.sessions.entries import Entry
    from leasehold.files.sessions.read_write import FileContent
    from leasehold.files.sessions.restore import Restored


class FileLease(HeldFile["Lease"], client.Leases):
    """One file that is held: ``path``, ``mode``, ``fence``, and the verbs.

    By the holder's own clock, as for `leasehold.Lease`: ``is_lost``, ``remaining()``, ``check()``, ``await lost()``.
    """

    async def renew(self, ttl: float | None = None) -> None:
        """Extend it to ``ttl`` seconds from now, trimmed to the cap; see `leasehold.Lease.renew`."""
        await self.renew_all(None if ttl is None else self._verbs.trim_ttl(ttl)[0])

    async def release(self) -> None:
        """Release the file. A second release is harmless.

        On return it is free and not in the session's history. Raises `LeaseLost` if it had ended before, and
        `StoreUnavailable` if the store did not reply: it then ends with its ttl at the latest, and stays in the
        history until then.
        """
        await self.release_all()

    async def upgrade(self, *, wait: float | None = DEFAULT) -> None:
        """Turn a lease for reading into one for writing, with no writer in between.

        On return ``mode`` is ``write`` and ``fence`` has grown. While it waits for other readers, no new ones get in.
        Raises `UpgradeRefused` at once if another reader waits for the same, `FileTimeout` or `FileBusy` (``wait=0``)
        if others still read: then it is still held for reading, as it is if it is cancelled while it waits. Of a
        file with several hard links the other names may be closed to readers by then, until it is released; the
        next upgrade continues from there. ``wait`` is for all of it, also for another upgrade of the same lease. Raises
        `LeaseLost` if it had ended, or is released during the upgrade. If the outcome is unknown (`StoreUnavailable`, or
        cancelled during a request), it is given up altogether.
        """
        await self._verbs.upgrade(self, wait)

    def on_exchange(self, old: Lease, new: Lease) -> None:
        """Cancel the body of ``async with`` when the new lease is lost, instead of the old one."""
        new.scope, old.scope = old.scope, None
        if new.scope is not None:
            self._engine.watch(new)


class FileLeases(HeldFiles["Lease", FileLease], client.Leases):
    """The files that `Session.write_all` holds together: ``leases["a.txt"].fence``, or ``leases.fences``."""

    def __getitem__(self, name: str) -> FileLease:  # pyright: ignore[reportIncompatibleMethodOverride] - by path, not by lock
        return self.file(name)


H = TypeVar("H", FileLease, FileLeases)


class FileContext(Generic[H]):
    """Context of ``async with session.write(...)``: held and renewed while inside; see `leasehold.client.LockContext`."""

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
    """One opening of a session. Its secret gives the right to act for it; its id is public.

    Every verb that acquires a file raises `InvalidRequest` for a path that is not a file below the root, `FileBusy` or
    `FileTimeout` with the reason if it is held, `RateLimited` if the session has reached its limit, `NotAllowed` if
    there is another session of this id by now, and `StoreUnavailable` if the outcome is unknown. A ttl above the cap
    is trimmed, which the lease shows as ``trimmed``.
    """

    def __init__(self, core: SessionCore[Lease, FileLease], *, is_new_secret: bool) -> None:
        self._core = core
        self.secret = core.secret.reveal() if is_new_secret else None
        """The secret, if it was created here: keep it, it is not shown again. None if the caller passed it."""

    def __repr__(self) -> str:
        return f"<Session {self.id!r} epoch={self.epoch} files={len(self._core.held)}>"

    @property
    def id(self) -> str:
        """The id that other sessions see."""
        return self._core.session_id

    @property
    def epoch(self) -> int:
        """The number of this opening; it grows with each."""
        return self._core.identity.epoch

    @property
    def held(self) -> list[FileLease]:
        """The files that this opening holds, or has lost and not released yet."""
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
        """Hold the file for reading inside ``async with``: other sessions may read it, none may write it."""
        terms = make_terms(self._core, ttl, wait, purpose, renew=True)
        return FileContext(self._core.engine, lambda: acquire_one(self._core, path, "read", terms), on_loss)

    def write(
        self,
        path: Path,
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        on_loss: OnLoss = "cancel",
    ) -> FileContext[FileLease]:
        """Hold the file for writing inside ``async with``: no other session has it."""
        terms = make_terms(self._core, ttl, wait, purpose, renew=True)
        return FileContext(self._core.engine, lambda: acquire_one(self._core, path, "write", terms), on_loss)

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
        terms = make_terms(self._core, ttl, wait, purpose, renew=True)
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
        """The file, held for reading until it is released or its ttl has passed; ``renew`` renews it."""
        terms = make_terms(self._core, ttl, wait, purpose, renew=renew)
        return await acquire_one(self._core, path, "read", terms)

    async def acquire_write(
        self,
        path: Path,
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        renew: bool = False,
    ) -> FileLease:
        """The file, held for writing until it is released or its ttl has passed; ``renew`` renews it."""
        terms = make_terms(self._core, ttl, wait, purpose, renew=renew)
        return await acquire_one(self._core, path, "write", terms)

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
        return await self._acquire_all(paths, make_terms(self._core, ttl, wait, purpose, renew=renew))

    async def _acquire_all(self, paths: Iterable[Path], terms: Any) -> FileLeases:
        holds, spellings = await acquire_all(self._core, paths, terms)
        return FileLeases(self._core.engine, holds, spellings)

    async def release(self, path: Path) -> bool:
        """Release the file, also one that an earlier process of the session holds; False if none does.

        Other names of the file that were acquired with it by `acquire_all` are released, too. Of several leases on one
        file it releases the latest. Raises what `FileLease.release` raises. Never counted by the rate limit.
        """
        return await release.release_path(self._core, path)

    async def read_file(self, path: Path) -> FileContent:
        """The contents of a file that this session holds, with their SHA-256 and the fence.

        While the lease lasts, no earlier writer of `write_file` changes them, not even one that was paused, if this
        process may write to its directory. `InvalidRequest` if the session does not hold it, `LeaseLost` if its lease has
        ended, `NotFound` if there is no such file.
        """
        return await read_write.read_file(self._core, path)

    async def write_file(self, path: Path, data: bytes) -> str:
        """Replace the contents of a file that this session holds for writing, and return their SHA-256.

        On return they are on disk, under a valid lease that the store has confirmed right before. Raises, and nothing was
        changed: `FileChanged` if the file is not what this session last saw of it (a file that it has not seen is not
        compared), `InvalidRequest` if it has several hard links or is not held for writing, `LeaseLost` unless it has
        ``is_replaced``: then the lease ended in the middle, the new contents are there, and another session may have had
        the file by then. After an `OSError` the contents are not known; it has a note if they were replaced.
        See `leasehold.files.content.atomic_write` for the rest. If it is cancelled, it waits for the end of the write.
        """
        return await read_write.write_file(self._core, path, data)

    async def history(self) -> list[Entry]:
        """The stored entries of this session's files, the oldest first. They contain no secrets."""
        return await self._core.context.watch_outage(self._core.store.entries())

    async def restore(self, *, timeout: float = 5, renew: bool = True) -> list[Restored[FileLease]]:
        """Restore the files that the session held before its process ended, each by itself; see `Restored`.

        Each has ``timeout`` seconds, and none waits for another. An earlier process that is still alive loses a file at
        the moment in which it is restored here. Files that this opening holds stay as they are. An error of a single
        file is in its report; `NotAllowed` and `StoreUnavailable` are raised if the history cannot be read.
        """
        return await Restorer(self._core, timeout=timeout, renew=renew).restore_all()

    async def release_session_locks(self) -> list[str]:
        """Release everything that the session holds, in any of its processes, and return the paths.

        History and rate counters are cleared. The session itself stays.
        """
        return await release.release_session_locks(self._core)


class FileLocks:
    """Read and write locks for the files below ``root``, over an asynchronous client.

    With ``project`` a lock is named after the project and the path below the root, for machines that have the files at
    different places. All programs that work on the files must agree on this. `InvalidRequest` if the root is not a
    directory.
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
        engine, store = locks.store_access.engine_for("file", FileLockStore)
        self._context: SessionContext[Lease] = SessionContext(
            engine,
            store,
            locks.store_access.transport,
            locks.store_access.namespace_of("file_session"),
            root=root,
            project=project,
            settings=settings or FileSettings(),
        )

    async def session(
        self, session_id: str, *, secret: str | None = None, purpose: str | None = None
    ) -> Session:
        """Open a session, or create it.

        Without ``secret`` a session is created and ``session.secret`` has its secret, once. With it the session is opened,
        or created if there is none. `NotAllowed` if there is one with another secret. ``purpose`` is public.
        """
        own = Secret.new() if secret is None else Secret.given(secret)
        check_purpose(purpose)
        core = SessionCore(self._context, check_session_id(session_id), own, FileLease, purpose)
        await core.open()
        return Session(core, is_new_secret=secret is None)

    def room(
        self, path: Path, *, holder: str, ttl: float | None = None, wait: float | None = 0
    ) -> FileContext[FileLease]:
        """Hold the file inside ``async with`` for people who edit it together; sessions get the reason ``room_busy``."""
        room = CoEditing(self._context, holder, FileLease)
        return FileContext(self._context.engine, lambda: room.open(path, ttl, wait), "cancel")

    async def inspect(self, path: Path) -> FileInfo:
        """The file's holders at the time of the reply."""
        file = await self._context.identify(path)
        info = file_info(
            await self._context.watch_outage(self._context.engine.inspect(file.sha256)), file.path
        )
        assert info is not None
        return info

    async def list(self) -> AsyncIterator[FileInfo]:
        """All held files, of every project and root on this store; see `leasehold.Client.list`."""
        cursor: object = 0
        while True:
            cursor, found = await self._context.watch_outage(self._context.engine.page("*", cursor))
            for lock in found:
                if (info := file_info(lock)) is not None:
                    yield info
            if not cursor:
                return
