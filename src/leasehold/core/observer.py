"""Operations and events of locks, for observers: metrics, traces and logs.

It costs next to nothing until an `Observer` is added to the `Observers` of a client. The engine reports its verbs.
Packages built on a client share its `Observers`, and report their own operations in the same way::

    operation = Operation("file", "write", path, is_attempt=True)
    lease = await observed(locks.lookout, clock.now, operation, lambda: self._acquire(path))

    if (observer := locks.lookout.observer) is not None:
        observer.hear(RateLimitChecked("write", is_allowed=True))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from leasehold.core.background import report_unexpected
from leasehold.errors import (
    AcquireTimeout,
    InProgress,
    InvalidRequest,
    LeaseholdError,
    LeaseLost,
    LockBusy,
    RateLimited,
    StoreRefused,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from leasehold.core.replies import Mode
    from leasehold.errors import LossReason

Kind = Literal["lock", "once", "document", "file"]
"""The kind of thing that is locked. A metric label, so there are few of them."""

Verb = Literal[
    "acquire",
    "try_acquire",
    "lock_all",
    "take",
    "renew",
    "release",
    "inspect",
    "list",
    "once",
    "first_time",
    "save",
    "read",
    "write",
    "upgrade",
    "restore",
]
"""The operation. A metric label as well. Every acquire that asks only once is a ``try_acquire``."""

Outcome = Literal[
    "success",
    "busy",
    "timeout",
    "lost",
    "rate_limited",
    "unavailable",
    "refused",
    "invalid",
    "cancelled",
    "error",
    "nothing",
]
"""The end of an operation. ``unavailable``: no reply, so it is unknown. ``nothing``: there was nothing to do."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that begins. ``name`` is for traces and logs, never for a label: names are unlimited.

    An *attempt* is an operation of a session on a file, around the operations on the locks behind it.
    """

    kind: Kind
    verb: Verb
    name: str
    mode: Mode | None = None
    is_attempt: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The end of an operation, after so many ``seconds``.

    ``waited`` is the part after the first reply that said busy. ``handed_over`` is the longest possible time between
    the store's grant and the waiter's knowledge of it. ``queue`` is the number of waiters when the lock was found
    busy. Each is None where it does not apply.
    """

    outcome: Outcome
    seconds: float
    error: BaseException | None = None
    fence: int | None = None
    waited: float | None = None
    handed_over: float | None = None
    queue: int | None = None


@dataclass(frozen=True, slots=True)
class LeaseEnded:
    """A lease has ended, as far as its holder knows. ``held`` is None if there was no observer when it began."""

    kind: Kind
    name: str
    fence: int
    reason: LossReason
    held: float | None


@dataclass(frozen=True, slots=True)
class LossFound:
    """A released lease turned out to have been lost before; its `LeaseEnded` said ``released``."""

    kind: Kind
    name: str
    fence: int
    reason: LossReason


@dataclass(frozen=True, slots=True)
class Renewed:
    """A renewal in the background."""

    kind: Kind
    name: str
    outcome: Outcome
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class RateLimitChecked:
    """The rate limit of a session was checked for ``verb``.

    ``store`` is the address of the store that counts, if it is not this process.
    """

    verb: Verb
    is_allowed: bool
    store: str = ""


Event = LeaseEnded | LossFound | Renewed | RateLimitChecked


class Observer(Protocol):
    """Receives operations and events. Called in the middle of locking, from any thread: it must not block."""

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        """Note that the operation begins; the returned function is called once, when it has ended."""
        ...

    def hear(self, event: Event) -> None:
        """Note an event that belongs to no operation."""
        ...


class Observers:
    """The observers of a client, shared by everything that is built on it.

    ``observer`` is all of them as one, None without any. ``where`` is the store's address without its password.
    """

    __slots__ = ("observer", "where")

    def __init__(self, where: str = "") -> None:
        self.observer: Observer | None = None
        self.where = where

    def add(self, observer: Observer) -> None:
        """Add ``observer``. Its exceptions go to the log, and never to a caller."""
        self.observer = ObserverChain(observer, self.observer)


class ObserverChain:
    """Calls observers one after another and logs their exceptions: a metric must not cost a lease."""

    __slots__ = ("_before", "_has_complained", "_observer")

    def __init__(self, observer: Observer, before: Observer | None = None) -> None:
        self._observer = observer
        self._before = before
        self._has_complained = False

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        """Call them in the order in which they were added; at the end in the opposite order, as nested blocks."""
        end_before = None if self._before is None else self._before.begin(operation)
        try:
            end = self._observer.begin(operation)
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(error)
            end = _do_nothing

        def end_both(result: Result) -> None:
            try:
                end(result)
            except Exception as error:  # noqa: BLE001 - see above
                self._complain(error)
            if end_before is not None:
                end_before(result)

        return end_both

    def hear(self, event: Event) -> None:
        """Call them in the order in which they were added."""
        if self._before is not None:
            self._before.hear(event)
        try:
            self._observer.hear(event)
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:  # further calls will most likely fail as well
            self._has_complained = True
            report_unexpected(
                error, f"in an observer ({type(self._observer).__name__}); further ones are not logged"
            )


class Notes:
    """Details of an acquire, noted for its `Result`."""

    __slots__ = ("busy_since", "fence", "handed_over", "queue")

    def __init__(self) -> None:
        self.busy_since: float | None = None
        self.handed_over: float | None = None
        self.queue: int | None = None
        self.fence: int | None = None


async def observed(
    observers: Observers,
    now: Callable[[], float],
    operation: Operation,
    work: Callable[[], Coroutine[Any, Any, T]],
    *,
    notes: Notes | None = None,
    judge: Callable[[T], Outcome] | None = None,
    undo: Callable[[T], None] | None = None,
) -> T:
    """Do ``work``, and report its beginning and its end to the observer, if there is one.

    ``judge`` turns a result into an outcome, where it may be a refusal. ``undo`` gets a result that the caller does not
    get, because a signal handler raises while the end is reported.
    """
    observer = observers.observer
    if observer is None:
        return await work()
    began_at = now()
    end = observer.begin(operation)
    try:
        result = await work()
    except BaseException as error:
        end(_result(outcome_of(error), now(), began_at, notes, error))
        raise
    try:
        end(_result("success" if judge is None else judge(result), now(), began_at, notes))
    except BaseException:
        if undo is not None:
            undo(result)
        raise
    return result


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome of an operation that ended with ``error``."""
    for kinds, outcome in _OUTCOMES:
        if isinstance(error, kinds):
            return outcome
    return "error" if isinstance(error, Exception) else "cancelled"


_OUTCOMES: tuple[tuple[type[LeaseholdError], Outcome], ...] = (
    (AcquireTimeout, "timeout"),
    (LockBusy, "busy"),
    (InProgress, "busy"),
    (LeaseLost, "lost"),
    (RateLimited, "rate_limited"),
    (StoreUnavailable, "unavailable"),
    (StoreRefused, "refused"),
    (InvalidRequest, "invalid"),
)


def _result(
    outcome: Outcome,
    ended_at: float,
    began_at: float,
    notes: Notes | None,
    error: BaseException | None = None,
) -> Result:
    seconds = ended_at - began_at
    if notes is None:
        return Result(outcome, seconds, error)
    waited = None if notes.busy_since is None else ended_at - notes.busy_since
    return Result(outcome, seconds, error, notes.fence, waited, notes.handed_over, notes.queue)


def _do_nothing(_result: Result) -> None:
    return
