"""Context that all sessions over one client share: engine, store, root, settings and limits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core.leases.lease import LeaseState
from leasehold.core.observer import Operation, Result, observed, outcome_of
from leasehold.core.validation import MIN_TTL, check_wait
from leasehold.errors import InvalidRequest, LeaseholdError
from leasehold.files.paths.identity import FileRoot
from leasehold.files.sessions.outage_log import OutageLog
from leasehold.files.sessions.rate_limits import RateLimits

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine, Iterable

    from leasehold.core.engine import Engine
    from leasehold.core.observer import Outcome, Verb
    from leasehold.files.lock_store import FileLockStore
    from leasehold.files.paths.identity import FileId
    from leasehold.files.settings import FileSettings
    from leasehold.valkey.transport.protocols import Transport

    Path = str | os.PathLike[str]

L = TypeVar("L", bound=LeaseState)
T = TypeVar("T")

DEFAULT: Any = ...
"""Stands for the wait of the settings."""

_MAX_PURPOSE = 200
_MAX_FILES = 100
_MAX_REFUSED_NAME = 300


class SessionContext(Generic[L]):
    """The engine, the root, the settings, and the reporting to observers and the log."""

    def __init__(
        self,
        engine: Engine[L],
        lock_store: FileLockStore,
        wire: Transport,
        session_namespace: str,
        *,
        root: Path,
        project: str | None,
        settings: FileSettings,
    ) -> None:
        self.engine = engine
        self.lock_store = lock_store
        self.wire = wire
        self.session_namespace = session_namespace
        self.root = FileRoot(root, project=project)
        self.settings = settings
        self.limits = RateLimits(settings, engine)
        self._outages = OutageLog(engine.observers.where)

    now = staticmethod(time.time)
    """The time of day, for people."""

    async def identify(self, path: Path, *, verb: Verb | None = None) -> FileId:
        """The file at ``path``, looked up in a thread: the file system may be slow.

        A refusal is reported as an attempt at ``verb``.
        """
        try:
            return await self.engine.concurrency.run_blocking(lambda: self.root.identify(path))
        except InvalidRequest as error:
            if verb is not None:
                self._report_refusal(verb, path, error)
            raise

    async def identify_all(self, paths: Iterable[Path]) -> dict[str, FileId]:
        """The files by their paths as given; two spellings of one file are one file.

        They are wanted for writing, and a refusal is reported as an attempt at that.
        """
        if isinstance(paths, str | bytes):
            raise InvalidRequest("several files are given as a list of paths, not as one text")
        several = list(paths)
        if not 1 <= len(several) <= _MAX_FILES:
            raise InvalidRequest(f"1 to {_MAX_FILES} files can be locked together, not {len(several)}")
        try:
            found = await self.engine.concurrency.run_blocking(
                lambda: [self.root.identify(path) for path in several]
            )
        except InvalidRequest as error:
            self._report_refusal("write", several, error)
            raise
        return {str(path): file for path, file in zip(several, found, strict=True)}

    def run_attempt(
        self, verb: Verb, name: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> Coroutine[Any, Any, T]:
        """Run ``work`` as an attempt at ``verb``: report it to observers, and an outage to the log.

        A restore that returns None had nothing to restore.
        """
        operation = Operation("file", verb, name, is_attempt=True)
        engine = self.engine
        judge = _judge_restore if verb == "restore" else None
        return self.watch_outage(observed(engine.observers, engine.clock.now, operation, work, judge=judge))

    def watch_outage(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Run ``work``, which asks the store; log where an outage begins and ends."""
        return self._outages.watch(work)

    def _report_refusal(self, verb: Verb, paths: object, error: InvalidRequest) -> None:
        if (observer := self.engine.observers.observer) is not None:
            # A path that is refused may be anything: not text, or text that no log can take.
            operation = Operation("file", verb, ascii(paths)[:_MAX_REFUSED_NAME], is_attempt=True)
            observer.begin(operation)(Result(outcome_of(error), 0.0, error))

    def trim_ttl(self, ttl: float | None) -> tuple[float, bool]:
        """The ttl to request, and True if it is less than the one given."""
        wanted: Any = self.settings.ttl if ttl is None else ttl
        is_number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
        if not (is_number and wanted >= MIN_TTL):
            raise InvalidRequest(f"ttl must be a number of seconds from {MIN_TTL:g}, not {wanted!r}")
        return min(wanted, self.settings.max_ttl), wanted > self.settings.max_ttl

    def effective_wait(self, wait: float | None) -> float | None:
        """The wait that was given, or that of the settings."""
        return self.settings.wait if wait is DEFAULT else check_wait(wait)


def _judge_restore(report: object) -> Outcome:
    return "nothing" if report is None else "success"


def check_purpose(purpose: Any) -> str | None:
    """Return ``purpose`` if it can be shown to other sessions."""
    if purpose is None:
        return None
    if not isinstance(purpose, str) or not purpose.isprintable() or len(purpose) > _MAX_PURPOSE:
        raise InvalidRequest(f"a purpose is up to {_MAX_PURPOSE} printable characters")
    return purpose


async def ignore_failure(work: Coroutine[Any, Any, Any]) -> None:
    """Clean up after an error, which must not be hidden by one of the clean-up."""
    try:
        await work
    except LeaseholdError:
        return
