"""Locks files, for threads: the same names and arguments as `leasehold.files`, without ``await``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from leasehold import blocking
from leasehold.blocking import LockContext
from leasehold.core.sync_runner import run_sync
from leasehold.core.validation import check_on_loss
from leasehold.errors import InvalidRequest
from leasehold.files.info import file_info
from leasehold.files.lock_store import FileLockStore
from leasehold.files.sessions import read_write, release
from leasehold.files.sessions.acquire import acquire_all, acquire_one, discard, make_terms
from leasehold.files.sessions.co_editing import CoEditing
from leasehold.files.sessions.context import DEFAULT, SessionContext, check_purpose
from leasehold.files.sessions.credentials import Secret, check_session_id
from leasehold.files.sessions.held_file import HeldFile, HeldFiles
from leasehold.files.sessions.restore import Restorer
from leasehold.files.sessions.session import SessionCore
from leasehold.files.settings import FileSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from leasehold.blocking import Client, Lease
    from leasehold.core.replies import OnLoss
    from leasehold.files.info import FileInfo
    from leasehold.files.sessions.context import Path
    from leasehold.files.sessions.entries import Entry
    from leasehold.files.sessions.read_write import FileContent
    from leasehold.files.sessions.restore import Restored


class FileLease(HeldFile["Lease"], blocking.Leases):
    """One file that is held; as `leasehold.files.FileLease`, with verbs that block."""

    def renew(self, ttl: float | None = None) -> None:
        """Extend it to ``ttl`` seconds from now, trimmed to the cap."""
        run_sync(self.renew_all(None if ttl is None else self._verbs.trim_ttl(ttl)[0]))

    def release(self) -> None:
        """Release the file. A second release is harmless; see `leasehold.files.FileLease.release`."""
        run_sync(self.release_all())

    def upgrade(self, *, wait: float | None = DEFAULT) -> None:
        """Turn a lease for reading into one for writing; see `leasehold.files.FileLease.upgrade`."""
        run_sync(self._verbs.upgrade(self, wait))


class FileLeases(HeldFiles["Lease", FileLease], blocking.Leases):
    """The files that `Session.write_all` holds together; as `leasehold.files.FileLeases`."""

    def __getitem__(self, name: str) -> FileLease:  # pyright: ignore[reportIncompatibleMethodOverride] - by path, not by lock
        return self.file(name)


H = TypeVar("H", FileLease, FileLeases)


class FileContext(Generic[H]):
    """Context of ``with session.write(...)``: held and renewed while inside; see `leasehold.blocking.LockContext`."""

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
        """Hold the file for reading inside ``with``. ``on_loss`` has no effect: a thread cannot be cancelled."""
        terms = make_terms(self._core, ttl, wait, purpose, renew=True)
        return FileContext(lambda: run_sync(acquire_one(self._core, path, "read", terms)), on_loss)

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
        terms = make_terms(self._core, ttl, wait, purpose, renew=True)
        return FileContext(lambda: run_sync(acquire_one(self._core, path, "write", terms)), on_loss)

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
        terms = make_terms(self._core, ttl, wait, purpose, renew=True)
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
        """The file, held for reading until it is released or its ttl has passed; ``renew`` renews it."""
        terms = make_terms(self._core, ttl, wait, purpose, renew=renew)
        return run_sync(acquire_one(self._core, path, "read", terms))

    def acquire_write(
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
        return run_sync(acquire_one(self._core, path, "write", terms))

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
        return self._acquire_all(paths, make_terms(self._core, ttl, wait, purpose, renew=renew))

    def _acquire_all(self, paths: Iterable[Path], terms: Any) -> FileLeases:
        holds, spellings = run_sync(acquire_all(self._core, paths, terms))
        try:
            return FileLeases(self._core.engine, holds, spellings)
        except BaseException:  # from a signal handler
            discard(self._core, holds)
            raise

    def release(self, path: Path) -> bool:
        """Release the file; see `leasehold.files.Session.release`."""
        return run_sync(release.release_path(self._core, path))

    def read_file(self, path: Path) -> FileContent:
        """The contents of a file that this session holds; see `leasehold.files.Session.read_file`."""
        return run_sync(read_write.read_file(self._core, path))

    def write_file(self, path: Path, data: bytes) -> str:
        """Replace the contents of a file that this session holds; see `leasehold.files.Session.write_file`."""
        return run_sync(read_write.write_file(self._core, path, data))

    def history(self) -> list[Entry]:
        """The stored entries of this session's files, the oldest first."""
        return run_sync(self._core.context.watch_outage(self._core.store.entries()))

    def restore(self, *, timeout: float = 5, renew: bool = True) -> list[Restored[FileLease]]:
        """Restore the files that the session held before; see `leasehold.files.Session.restore`."""
        return run_sync(Restorer(self._core, timeout=timeout, renew=renew).restore_all())

    def release_session_locks(self) -> list[str]:
        """Release everything; see `leasehold.files.Session.release_session_locks`."""
        return run_sync(release.release_session_locks(self._core))


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

    def session(self, session_id: str, *, secret: str | None = None, purpose: str | None = None) -> Session:
        """Open a session, or create it; see `leasehold.files.FileLocks.session`."""
        own = Secret.new() if secret is None else Secret.given(secret)
        check_purpose(purpose)
        core = SessionCore(self._context, check_session_id(session_id), own, FileLease, purpose)
        run_sync(core.open())
        return Session(core, is_new_secret=secret is None)

    def room(
        self, path: Path, *, holder: str, ttl: float | None = None, wait: float | None = 0
    ) -> FileContext[FileLease]:
        """Hold the file inside ``with`` for people who edit it together; sessions get the reason ``room_busy``."""
        room = CoEditing(self._context, holder, FileLease)
        return FileContext(lambda: run_sync(room.open(path, ttl, wait)), "cancel")

    def inspect(self, path: Path) -> FileInfo:
        """The file's holders at the time of the reply."""
        file = run_sync(self._context.identify(path))
        info = file_info(
            run_sync(self._context.watch_outage(self._context.engine.inspect(file.sha256))), file.path
        )
        assert info is not None
        return info

    def list(self) -> Iterator[FileInfo]:
        """All held files, of every project and root on this store."""
        cursor: object = 0
        while True:
            cursor, found = run_sync(self._context.watch_outage(self._context.engine.page("*", cursor)))
            yield from (info for lock in found if (info := file_info(lock)) is not None)
            if not cursor:
                return
