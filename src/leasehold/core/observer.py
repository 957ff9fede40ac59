"""What happens to locks, told to whoever watches: metrics, traces and logs.

Nothing is told, and next to nothing is spent, until an `Observer` is added to the `Observers` of a client. The engine
tells of its verbs. What is built on a client shares its lookout, and tells of its own in the same way::

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
"""What is locked; a label, so there are few of them."""

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
"""What is done; a label as well. An acquire that asks once is a ``try_acquire``, whoever asked it."""

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
"""How it ended. ``unavailable`` is the unknown one: the store gave no answer. ``nothing``: there was nothing to do."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Operation:
    """Something that begins. ``name`` is for traces and logs, never for a label: there is no end of names.

    An *attempt* is what a session does with a file, around the operations on the locks behind it.
    """

    kind: Kind
    verb: Verb
    name: str
    mode: Mode | None = None
    is_attempt: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """How an operation ended, after so many ``seconds``.

    ``waited`` is the part after the first answer that said busy. ``handed_over`` is how long it took at most from the
    moment the store granted the lock until its waiter knew. ``queue`` is how many waited when the lock was found
    busy. Each is None where there was no such thing.
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
    """A lease has ended, as far as its holder knows. ``held`` is None if nobody watched when it began."""

    kind: Kind
    name: str
    fence: int
    reason: LossReason
    held: float | None


@dataclass(frozen=True, slots=True)
class LossFound:
    """A lease that was given back in good faith had been lost before; its `LeaseEnded` said ``released``."""

    kind: Kind
    name: str
    fence: int
    reason: LossReason


@dataclass(frozen=True, slots=True)
class Renewed:
    """A renewal in the background, for which nobody waited."""

    kind: Kind
    name: str
    outcome: Outcome
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class RateLimitChecked:
    """A session was asked whether it may try; ``verb`` is what it wanted to do.

    ``store`` is the address of the store that counts, if it is not this process.
    """

    verb: Verb
    is_allowed: bool
    store: str = ""


Event = LeaseEnded | LossFound | Renewed | RateLimitChecked


class Observer(Protocol):
    """Who is told. Called in the middle of locking, from any thread: it must be quick and must not block."""

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        """The operation begins; what is returned is called once, when it has ended."""
        ...

    def hear(self, event: Event) -> None:
        """Something has happened that nobody asked for."""
        ...


class Observers:
    """Where the observer of a client is, if there is one. Shared by everything that is built on that client.

    ``where`` is the store's address without its password, for those who report on it.
    """

    __slots__ = ("observer", "where")

    def __init__(self, where: str = "") -> None:
        self.observer: Observer | None = None
        self.where = where

    def add(self, observer: Observer) -> None:
        """Have ``observer`` told, too, from now on. What it raises goes to the log, and never to a caller."""
        self.observer = ObserverChain(observer, self.observer)


class ObserverChain:
    """Keeps the failures of an observer from those who lock: a lease must not get lost for the sake of a figure."""

    __slots__ = ("_before", "_has_complained", "_observer")

    def __init__(self, observer: Observer, before: Observer | None = None) -> None:
        self._observer = observer
        self._before = before
        self._has_complained = False

    def begin(self, operation: Operation) -> Callable[[Result], None]:
        """Tell them, in the order of their coming; at the end in the opposite order, as with nested blocks."""
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
        """Tell them."""
        if self._before is not None:
            self._before.hear(event)
        try:
            self._observer.hear(event)
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._has_complained:  # it will most likely go on like that
            self._has_complained = True
            report_unexpected(error, f"in an observer ({type(self._observer).__name__}); more are not told")


class Notes:
    """What an acquire notices on its way, if somebody wants to know."""

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
) -> T:
    """Do ``work``, and tell the observer, if there is one, when it begins and how it ends.

    ``judge`` says what a result means, where it may be a refusal.
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
    end(_result("success" if judge is None else judge(result), now(), began_at, notes))
    return result


def outcome_of(error: BaseException) -> Outcome:
    """What an exception says about the operation that it ended."""
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
