"""The HTTP problem (RFC 9457) of every error: status, title and headers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE = "application/problem+json"

# The client itself retries an unreachable store all the time; this is for the HTTP caller.
_STORE_RETRY_AFTER = 5
_BUSY = "In use by another holder"
_FILE_BUSY = "File in use by another holder"
_UNAVAILABLE = "Locks are not available"


class ProblemKind(NamedTuple):
    """The part of a problem that depends on the class of the error alone: no holders, hosts or keys.

    ``retry_after`` is in seconds, for errors that do not say it themselves; None where waiting does not help.
    """

    status: int
    title: str
    retry_after: int | None = None
    headers: Mapping[str, str] = {}


OF_ERROR: dict[type[errors.LeaseholdError], ProblemKind] = {
    errors.LeaseholdError: ProblemKind(500, "The operation failed"),
    errors.LockBusy: ProblemKind(409, _BUSY, 1),
    errors.AcquireTimeout: ProblemKind(409, _BUSY, 1),
    errors.FileBusy: ProblemKind(409, _FILE_BUSY, 1),
    errors.FileTimeout: ProblemKind(409, _FILE_BUSY, 1),
    errors.UpgradeRefused: ProblemKind(409, "Another reader of this file is waiting to write it", 1),
    errors.InProgress: ProblemKind(409, "This is already in progress", 1),
    errors.StaleFence: ProblemKind(409, "A newer holder has changed this"),
    errors.FileChanged: ProblemKind(409, "The file has been changed in the meantime"),
    errors.LeaseLost: ProblemKind(503, "The lock was lost, so the work was stopped", 1),
    errors.StoreError: ProblemKind(503, _UNAVAILABLE, _STORE_RETRY_AFTER),
    errors.StoreUnavailable: ProblemKind(503, _UNAVAILABLE, _STORE_RETRY_AFTER),
    errors.StoreRefused: ProblemKind(503, _UNAVAILABLE, _STORE_RETRY_AFTER),
    errors.RateLimited: ProblemKind(429, "Too many requests", 1),
    errors.InvalidRequest: ProblemKind(422, "The request is not valid"),
    errors.NotSignedIn: ProblemKind(401, "Please sign in", headers={"WWW-Authenticate": "Bearer"}),
    errors.NotAllowed: ProblemKind(403, "You may not do this"),
    errors.QuotaExceeded: ProblemKind(403, "No space left"),
    errors.NotFound: ProblemKind(404, "Not found"),
    errors.AlreadyExists: ProblemKind(409, "Already exists"),
}
"""Every error class of the library by itself, not by its parent, so that a new one is not forgotten."""


def body_of(error: errors.LeaseholdError) -> dict[str, Any]:
    """The members of the problem. ``type`` and ``code`` are the stable code of the error."""
    kind = _kind_of(error)
    body: dict[str, Any] = {
        "type": error.code,
        "code": error.code,
        "title": kind.title,
        "status": kind.status,
    }
    if isinstance(error, errors.StaleFence):
        # As text, because many JSON readers take a number for a double.
        body |= {"message": str(error), "seen": str(error.seen), "given": str(error.given)}
    return body


def headers_of(error: errors.LeaseholdError) -> dict[str, str]:
    """The headers of the problem; ``Retry-After`` in whole seconds, where waiting may help."""
    kind = _kind_of(error)
    if kind.retry_after is None:
        return dict(kind.headers)
    known: float | None = getattr(error, "retry_after", None)
    return {
        **kind.headers,
        "Retry-After": str(max(1, math.ceil(kind.retry_after if known is None else known))),
    }


def _kind_of(error: errors.LeaseholdError) -> ProblemKind:
    return next(OF_ERROR[kind] for kind in type(error).__mro__ if kind in OF_ERROR)
