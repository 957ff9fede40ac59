"""What all sessions over one client share."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core.lease import LeaseState
from leasehold.core.observer import Operation, Result, observed, outcome_of
from leasehold.core.validation import MIN_TTL, check_wait
from leasehold.errors import InvalidRequest, LeaseholdError
from leasehold.files.outage import Outage
from leasehold.files.paths.identity import Files
from leasehold.files.sessions.rate_limits import RateLimits

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Coroutine, Iterable

    from leasehold.core.engine import Engine
    from leasehold.core.observer import Outcome, Verb
    from leasehold.files.lock_store import FileStore
    from leasehold.files.paths.identity import FileId
    from leasehold.files.settings import FileSettings
    from leasehold.files.worlds import World
    from leasehold.valkey.transport.protocols import Transport

    Path = str | os.PathLike[str]

L = TypeVar("L", bound=LeaseState)
T = TypeVar("T")

DEFAULT: Any = ...
"""In the place of a wait that the settings decide on."""

_PURPOSE_AT_MOST = 200
_FILES_AT_ONCE = 100
_REFUSED_AT_MOST = 300


class Office(Generic[L]):
    """The engine, the files, the rules, and who is told."""

    def __init__(
        self,
        engine: Engine[L],
        store: FileStore,
        wire: Transport,
        session_namespace: str,
        world: World,
        *,
        root: Path,
        project: str | None,
        settings: FileSettings,
    ) -> None:
        self.engine = engine
        self.store = store
        self.wire = wire
        self.session_namespace = session_namespace
        self.world = world
        self.files = Files(root, project=project)
        self.settings = settings
        self.limits = RateLimits(settings, world, engine.observers, timeout=engine.timeout)
        self._outage = Outage(engine.observers.where)

    now = staticmethod(time.time)
    """For showing to people."""

    async def identify(self, path: Path, *, verb: Verb | None = None) -> FileId:
        """Which file is meant. In a thread: the file system may be slow. A refusal counts as an attempt at ``verb``."""
        try:
            return await self.world.aside(lambda: self.files.identify(path))
        except InvalidRequest as error:
            if verb is not None:
                self._tell_refusal(verb, path, error)
            raise

    async def identify_all(self, paths: Iterable[Path]) -> dict[str, FileId]:
        """Which files are meant, by what they were called. Two spellings of one file are one.

        They are wanted for writing, and a refusal counts as an attempt at that.
        """
        if isinstance(paths, str | bytes):
            raise InvalidRequest("several files are given as a list of paths, not as one text")
        several = list(paths)
        if not 1 <= len(several) <= _FILES_AT_ONCE:
            raise InvalidRequest(f"1 to {_FILES_AT_ONCE} files can be locked together, not {len(several)}")
        try:
            found = await self.world.aside(lambda: [self.files.identify(path) for path in several])
        except InvalidRequest as error:
            self._tell_refusal("write", several, error)
            raise
        return {str(path): file for path, file in zip(several, found, strict=True)}

    def attempt(
        self, verb: Verb, name: str, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> Coroutine[Any, Any, T]:
        """Do what a session asked for: who watches is told, and the log if the store is away.

        A restore that returns None had nothing to restore.
        """
        operation = Operation("file", verb, name, is_attempt=True)
        engine = self.engine
        judge = _judge_restore if verb == "restore" else None
        return self._outage.watch(observed(engine.observers, engine.clock.now, operation, work, judge=judge))

    def _tell_refusal(self, verb: Verb, wanted: object, error: InvalidRequest) -> None:
        observer = self.engine.observers.observer
        if observer is not None:
            # A path that is refused may be anything: not text, or text that no log can take.
            operation = Operation("file", verb, ascii(wanted)[:_REFUSED_AT_MOST], is_attempt=True)
            observer.begin(operation)(Result(outcome_of(error), 0.0, error))

    def watch(self, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Do something that is no attempt at a lock."""
        return self._outage.watch(work)

    def trim(self, ttl: float | None) -> tuple[float, bool]:
        """The ttl to ask for, and whether it is less than what was wanted."""
        wanted: Any = self.settings.ttl if ttl is None else ttl
        is_number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
        if not (is_number and wanted >= MIN_TTL):
            raise InvalidRequest(f"ttl must be a number of seconds from {MIN_TTL:g}, not {wanted!r}")
        return min(wanted, self.settings.max_ttl), wanted > self.settings.max_ttl

    def patience(self, wait: float | None) -> float | None:
        """The wait that was asked for, or that of the settings."""
        return self.settings.wait if wait is DEFAULT else check_wait(wait)


def _judge_restore(report: object) -> Outcome:
    return "nothing" if report is None else "success"


def check_purpose(purpose: Any) -> str | None:
    """``purpose`` itself if it can be shown to others."""
    if purpose is None:
        return None
    if not isinstance(purpose, str) or not purpose.isprintable() or len(purpose) > _PURPOSE_AT_MOST:
        raise InvalidRequest(f"a purpose is up to {_PURPOSE_AT_MOST} printable characters")
    return purpose


async def quietly(work: Coroutine[Any, Any, Any]) -> None:
    """Tidy up, where what went wrong before is what counts."""
    try:
        await work
    except LeaseholdError:
        return
