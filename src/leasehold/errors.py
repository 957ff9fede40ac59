"""All exceptions of Leasehold.

::

    LeaseholdError
    ├── LockBusy               the lock is held by another
    │   ├── AcquireTimeout     ... and still was at the end of the wait (also a TimeoutError)
    │   └── FileBusy           the same for a file, with the reason
    │       ├── FileTimeout    ... and still was at the end of the wait (also an AcquireTimeout)
    │       └── UpgradeRefused two readers of a file want to write it, which is a deadlock
    ├── LeaseLost              the lease has ended: expired, taken, released or max_hold
    ├── InProgress             another caller is running this once-only work now
    ├── StaleFence             a resource has seen a newer fence than the one given
    ├── FileChanged            a file was changed without its lock
    ├── StoreError
    │   ├── StoreUnavailable   no reply, so the outcome is unknown
    │   └── StoreRefused       the store refused, so nothing was changed
    ├── InvalidRequest         the arguments are wrong; nothing was sent (also a ValueError)
    ├── RateLimited            too many requests; repeat after ``retry_after`` seconds
    ├── NotSignedIn            the caller is not authenticated
    ├── NotAllowed             the caller lacks the permission
    │   └── QuotaExceeded      ... or the space: nothing was kept
    ├── NotFound               not found
    └── AlreadyExists          already exists

Each class has a stable ``code``. The same string is the REST problem type, the socket error code, the
CLI exit key and the TypeScript tag, so it never changes once published.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

LossReason = Literal["expired", "taken", "released", "max_hold"]
"""Why a lease ended."""

ContentionReason = Literal["room_busy", "lock_contended", "lock_timeout"]
"""Why a file was not granted: people edit it together, another session holds it, or held it for the whole wait."""

Holder = str | dict[str, Any]
"""The holder of a lock, as shown to others: text, or a flat JSON object."""


class LeaseholdError(Exception):
    """The base class of all errors of Leasehold."""

    code: ClassVar[str] = "leasehold_error"

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors are sent between processes; by default they would be rebuilt from their message alone.
        return _rebuild, (type(self), self.args, self.__dict__)


class LockBusy(LeaseholdError):
    """The lock is held by another, or another waiter comes first.

    ``holder`` has held it in ``mode`` since ``held_since`` (Unix time) and has ``retry_after`` seconds left
    unless the lease is renewed; ``waiters`` are in the queue. ``position`` is the place in it that the caller
    had, from 1; None if it did not wait.
    """

    code = "lock_busy"

    def __init__(
        self,
        name: str,
        *,
        holder: Holder | None = None,
        retry_after: float | None = None,
        held_since: float | None = None,
        mode: Literal["exclusive", "shared"] | None = None,
        waiters: int = 0,
        position: int | None = None,
        message: str | None = None,
    ) -> None:
        self.name = name
        self.holder = holder
        self.retry_after = retry_after
        self.held_since = held_since
        self.mode: Literal["exclusive", "shared"] | None = mode
        self.waiters = waiters
        self.position = position
        super().__init__(message or self._message())

    def _message(self) -> str:
        by = f" by {describe_holder(self.holder)}" if self.holder is not None else ""
        free = (
            f"; it is free in {self.retry_after:.1f} s at the latest" if self.retry_after is not None else ""
        )
        return (
            f"{self.name!r} is held{by}{free}, unless it is renewed" if free else f"{self.name!r} is held{by}"
        )


class AcquireTimeout(LockBusy, TimeoutError):
    """The lock was still held by another when the wait was over.

    ``is_own``: the other is a lease of this very client. Locks are not re-entrant: only its release frees the lock.
    """

    code = "acquire_timeout"
    is_own = False

    def __init__(
        self,
        name: str,
        *,
        waited: float,
        holder: Holder | None = None,
        retry_after: float | None = None,
        held_since: float | None = None,
        mode: Literal["exclusive", "shared"] | None = None,
        waiters: int = 0,
        position: int | None = None,
        is_own: bool = False,
    ) -> None:
        self.waited = waited
        self.is_own = is_own
        super().__init__(
            name,
            holder=holder,
            retry_after=retry_after,
            held_since=held_since,
            mode=mode,
            waiters=waiters,
            position=position,
        )

    def _message(self) -> str:
        place = ", next in the queue" if self.position == 1 else f", number {self.position} in the queue"
        place = "" if self.position is None else place
        own = "; this client itself holds it, and locks are not re-entrant" if self.is_own else ""
        return f"{super()._message()} (waited {self.waited:.1f} s{place}){own}"


class FileBusy(LockBusy):
    """A file is held by another; ``reason`` says in what way, and the message what to do next.

    ``room_busy``: people edit it together. ``lock_contended``: a session holds it. ``lock_timeout``: a session
    held it for the caller's whole wait. ``path`` is the path to show; the rest is as in `LockBusy`.
    """

    code = "file_busy"

    def __init__(
        self,
        path: str,
        *,
        reason: ContentionReason,
        holder: Holder | None = None,
        retry_after: float | None = None,
        held_since: float | None = None,
        mode: Literal["exclusive", "shared"] | None = None,
        waiters: int = 0,
        position: int | None = None,
        message: str | None = None,
    ) -> None:
        self.path = path
        self.reason: ContentionReason = reason
        # Not super(): in `FileTimeout` that is a class with other arguments.
        LockBusy.__init__(
            self,
            path,
            holder=holder,
            retry_after=retry_after,
            held_since=held_since,
            mode=mode,
            waiters=waiters,
            position=position,
            message=message,
        )


class FileTimeout(FileBusy, AcquireTimeout):
    """A file was still held by another when the wait was over."""

    code = "file_timeout"

    def __init__(self, path: str, *, waited: float, reason: ContentionReason, **details: Any) -> None:
        self.waited = waited
        FileBusy.__init__(self, path, reason=reason, **details)


class UpgradeRefused(FileBusy):
    """Another reader of the file waits to write it: each would wait for the other for ever.

    The caller still holds its read lock. The reader that asked first gets the file when the other readers release it.
    """

    code = "upgrade_refused"


class LeaseLost(LeaseholdError):
    """The lease has ended: it expired, was taken, was released, or reached its max_hold.

    ``is_replaced``: it ended while a file was written under it, after the file had been replaced. The new contents are
    there, and another may have held the file by then. Otherwise nothing was changed.
    """

    code = "lease_lost"

    _EXPLANATION: ClassVar[dict[str, str]] = {
        "expired": "it was not renewed in time",
        "taken": "it was taken by force",
        "released": "it has been released",
        "max_hold": "it reached its max_hold",
    }

    def __init__(self, name: str, reason: LossReason, *, why: str | None = None) -> None:
        self.name = name
        self.reason: LossReason = reason
        self.is_replaced = False
        super().__init__(f"the lease on {name!r} is lost ({reason}): {why or self._EXPLANATION[reason]}")


class InProgress(LeaseholdError):
    """Another caller is running this once-only work now."""

    code = "in_progress"

    def __init__(
        self, message: str, *, holder: Holder | None = None, retry_after: float | None = None
    ) -> None:
        self.holder = holder
        self.retry_after = retry_after
        super().__init__(message)


class StaleFence(LeaseholdError):
    """A resource has seen a newer fence than the one given."""

    code = "stale_fence"

    def __init__(self, *, seen: int, given: int) -> None:
        self.seen = seen
        self.given = given
        super().__init__(f"fence {given} is stale: the resource has seen {seen}")


class FileChanged(LeaseholdError):
    """A file differs from what the session last saw, so it was not written: read it again.

    ``seen`` is the SHA-256 of what was seen, "" if there was no file, None if it was never looked at; ``found`` that
    of what is there now, None if there is none.
    """

    code = "file_changed"

    def __init__(self, path: str, *, seen: str | None, found: str | None, why: str | None = None) -> None:
        self.path = path
        self.seen = seen
        self.found = found
        what = why or "is not what this session last saw"
        super().__init__(f"{path!r} {what}, so it was not written; read it again")


class StoreError(LeaseholdError):
    """Valkey or Redis did not do what was requested."""

    code = "store_error"


class StoreUnavailable(StoreError):
    """The store gave no reply, so the outcome is unknown: the request may or may not have been done.

    ``store`` is the address of the store, if it is not the store of the locks.
    """

    code = "store_unavailable"
    store: str = ""

    def __init__(self, *args: object, store: str = "") -> None:
        if store:
            self.store = store
        super().__init__(*args)


class StoreRefused(StoreError):
    """The store refused, so nothing was changed."""

    code = "store_refused"


class InvalidRequest(LeaseholdError, ValueError):
    """The arguments are wrong; nothing was sent."""

    code = "invalid_request"


class RateLimited(LeaseholdError):
    """Too many requests; repeat after ``retry_after`` seconds."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: float) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class NotSignedIn(LeaseholdError):
    """The caller is not authenticated: no token, or one that has ended."""

    code = "not_signed_in"


class NotAllowed(LeaseholdError):
    """The caller lacks the permission."""

    code = "not_allowed"


class QuotaExceeded(NotAllowed):
    """The owner of a document, or of a new one, has no space left. Nothing was kept."""

    code = "quota_exceeded"


class NotFound(LeaseholdError):
    """Not found."""

    code = "not_found"


class AlreadyExists(LeaseholdError):
    """Already exists."""

    code = "already_exists"


def describe_holder(holder: Holder | None) -> str:
    """Return one readable line for a holder."""
    if holder is None:
        return "an unknown holder"
    if isinstance(holder, str):
        return holder
    return ", ".join(f"{key}={value}" for key, value in holder.items())


def _rebuild(kind: type[LeaseholdError], args: tuple[Any, ...], state: dict[str, Any]) -> LeaseholdError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error
