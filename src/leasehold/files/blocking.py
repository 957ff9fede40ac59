"""Locks of files, for threads: the same names and arguments as `leasehold.files`, without ``await``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from leasehold import blocking
from leasehold.blocking import LockContext
from leasehold.core.sync_runner import run_sync
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
from leasehold.files.worlds import ThreadWorld

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from leasehold.blocking import Client, Lease
    from leasehold.core.replies import OnLoss
    from leasehold.files.info import FileInfo
    from leasehold.files.sessions.context import Path
    from leasehold.files.sessions.entries import Entry
    from leasehold.files.sessions.restore import Restored
    from leasehold.files.sessions.session import FileContent


class FileLease(FileHold["Lease"], blocking.Leases):
    """One file that is held; as `leasehold.files.FileLease`, with verbs that block."""

    def renew(self, ttl: float | None = None) -> None:
        """Extend it to ``ttl`` seconds from now, trimmed to what is allowed."""
        run_sync(self.renew_all(None if ttl is None else self._owner.trim(ttl)[0]))

    def release(self) -> None:
        """Give the file back. Doing it twice is harmless; see `leasehold.files.FileLease.release`."""
        run_sync(self.give_back())

    def upgrade(self, *, wait: float | None = DEFAULT) -> None:
        """Turn a lease for reading into one for writing; see `leasehold.files.FileLease.upgrade`."""
        run_sync(self._owner.upgrade(self, wait))


class FileLeases(FileHolds["Lease", FileLease], blocking.Leases):
    """The files that `Session.write_all` holds together; as `leasehold.files.FileLeases`."""

    def __getitem__(self, name: str) -> FileLease:  # pyright: ignore[reportIncompatibleMethodOverride] - by path, not by lock
        return self.file(name)

    def release(self) -> None:
        """Give all of them back, and then raise what went wrong with the first that could not be."""
        run_sync(self.give_back())


H = TypeVar("H", FileLease, FileLeases)


class FileContext(Generic[H]):
    """What ``with session.write(...)`` runs in: held and renewed while inside; see `leasehold.blocking.LockContext`."""

    def __init__(self, acquire: Callable[[], H], on_loss: OnLoss) -> None:
        check_on_loss(on_loss)
        self._context: LockContext[Any] = LockContext(cast("Any", acquire))

    def __enter__(self) -> H:
        return self._context.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.__exit__(kind, error, trace)


class Session:
    """One opening of a session; as `leasehold.files.Session`, with verbs that block. Threads may share it.

    A thread cannot be cancelled, so a loss shows in ``is_lost``, in ``check()`` and at the end of ``with``.
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
        """Hold the file for reading inside ``with``. ``on_loss`` is there for the sake of the same arguments."""
        terms = self._core.terms(ttl, wait, purpose or self._purpose, renew=True)
        return FileContext(lambda: run_sync(self._core.acquire_one(path, "read", terms)), on_loss)

    def write(
        self,
        path: Path,
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        on_loss: OnLoss = "cancel",
    ) -> FileContext[FileLease]:
        """Hold the file for writing inside ``with``."""
        terms = self._core.terms(ttl, wait, purpose or self._purpose, renew=True)
        return FileContext(lambda: run_sync(self._core.acquire_one(path, "write", terms)), on_loss)

    def write_all(
        self,
        paths: Iterable[Path],
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        on_loss: OnLoss = "cancel",
    ) -> FileContext[FileLeases]:
        """Hold all of the files for writing inside ``with``, or none."""
        terms = self._core.terms(ttl, wait, purpose or self._purpose, renew=True)
        return FileContext(lambda: self._acquire_all(paths, terms), on_loss)

    def acquire_read(
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
        return run_sync(self._core.acquire_one(path, "read", terms))

    def acquire_write(
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
        return run_sync(self._core.acquire_one(path, "write", terms))

    def acquire_all(
        self,
        paths: Iterable[Path],
        *,
        ttl: float | None = None,
        wait: float | None = DEFAULT,
        purpose: str | None = None,
        renew: bool = False,
    ) -> FileLeases:
        """All of the files, held for writing, or none of them."""
        return self._acquire_all(paths, self._core.terms(ttl, wait, purpose or self._purpose, renew=renew))

    def _acquire_all(self, paths: Iterable[Path], terms: Any) -> FileLeases:
        holds, spellings = run_sync(self._core.acquire_all(paths, terms))
        return FileLeases(self._core.engine, holds, spellings)

    def release(self, path: Path) -> bool:
        """Give the file back; see `leasehold.files.Session.release`."""
        return run_sync(self._core.release(path))

    def read_file(self, path: Path) -> FileContent:
        """What is in a file that this session holds; see `leasehold.files.Session.read_file`."""
        return run_sync(self._core.read_file(path))

    def write_file(self, path: Path, data: bytes) -> str:
        """Replace what is in a file that this session holds; see `leasehold.files.Session.write_file`."""
        return run_sync(self._core.write_file(path, data))

    def history(self) -> list[Entry]:
        """What the store has written down about this session's files, the oldest first."""
        return run_sync(self._core.office.watch(self._core.book.entries()))

    def restore(self, *, timeout: float = 5, renew: bool = True) -> list[Restored[FileLease]]:
        """Take back what the session held before; see `leasehold.files.Session.restore`."""
        return run_sync(Restorer(self._core, timeout=timeout, renew=renew).restore_all())

    def release_session_locks(self) -> list[str]:
        """Give back everything; see `leasehold.files.Session.release_session_locks`."""
        return run_sync(self._core.release_session_locks())


class FileLocks:
    """Read and write locks for the files below ``root``; as `leasehold.files.FileLocks`, over a blocking client."""

    def __init__(
        self,
        locks: Client,
        *,
        root: Path,
        project: str | None = None,
        settings: FileSettings | None = None,
    ) -> None:
        if not isinstance(locks, blocking.Client):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest(
                f"this is for leasehold.blocking.connect(...), not {type(locks).__module__}.{type(locks).__name__}; "
                "leasehold.files.FileLocks is for asyncio"
            )
        engine, store = locks.store_access.engine_for("file", FileStore)
        self._office: Office[Lease] = Office(
            engine,
            store,
            locks.store_access.transport,
            locks.store_access.namespace_of("file_session"),
            ThreadWorld(),
            root=root,
            project=project,
            settings=settings or FileSettings(),
        )

    def session(self, session_id: str, *, secret: str | None = None, purpose: str | None = None) -> Session:
        """Open a session, or make it; see `leasehold.files.FileLocks.session`."""
        own = Secret.new() if secret is None else Secret.given(secret)
        check_purpose(purpose)
        core = SessionCore(self._office, check_session_id(session_id), own, FileLease)
        run_sync(core.open())
        return Session(core, is_new_secret=secret is None, purpose=purpose)

    def room(
        self, path: Path, *, holder: str, ttl: float | None = None, wait: float | None = 0
    ) -> FileContext[FileLease]:
        """Hold the file inside ``with`` for people who edit it together; sessions are told ``room_busy``."""
        room = Room(self._office, holder, FileLease)
        return FileContext(lambda: run_sync(room.open(path, ttl, wait)), "cancel")

    def inspect(self, path: Path) -> FileInfo:
        """Who holds the file, as it was when the store answered."""
        file = run_sync(self._office.identify(path))
        info = info_of(run_sync(self._office.watch(self._office.engine.inspect(file.sha256))), file.path)
        assert info is not None
        return info

    def list(self) -> Iterator[FileInfo]:
        """The files that are held, of all projects and roots on this store."""
        cursor = 0
        while True:
            cursor, found = run_sync(self._office.watch(self._office.engine.page("*", cursor)))
            yield from (info for lock in found if (info := info_of(lock)) is not None)
            if not cursor:
                return
