"""What an HTTP caller is told when something could not be done: status, code, and when to come back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from leasehold import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

# An unreachable store is asked again by the client itself all the time; this is for whoever asks us.
_STORE_RETRY_AFTER = 5
_NO_USE_IN_WAITING = (errors.StaleFence, errors.AlreadyExists, errors.FileChanged)


class Told(NamedTuple):
    """The part of an answer that depends on the kind of error alone. Says nothing of holders, hosts and keys."""

    status: int
    title: str


OF_ERROR: dict[type[errors.LeaseholdError], Told] = {
    errors.LeaseholdError: Told(500, "The operation failed"),
    errors.LockBusy: Told(409, "Somebody else is working on this right now"),
    errors.AcquireTimeout: Told(409, "Somebody else is working on this right now"),
    errors.FileBusy: Told(409, "Somebody else is working on this file right now"),
    errors.FileTimeout: Told(409, "Somebody else is working on this file right now"),
    errors.UpgradeRefused: Told(409, "Another reader of this file waits to write it"),
    errors.InProgress: Told(409, "This is being done right now"),
    errors.StaleFence: Told(409, "Somebody else has worked on this in the meantime"),
    errors.FileChanged: Told(409, "Somebody has changed this file in the meantime"),
    errors.LeaseLost: Told(503, "The lock was lost on the way, so the work was stopped"),
    errors.StoreError: Told(503, "Locks are not available"),
    errors.StoreUnavailable: Told(503, "Locks are not available"),
    errors.StoreRefused: Told(503, "Locks are not available"),
    errors.RateLimited: Told(429, "Too many requests"),
    errors.InvalidRequest: Told(422, "The request is not valid"),
    errors.NotSignedIn: Told(401, "Please sign in"),
    errors.NotAllowed: Told(403, "You may not do this"),
    errors.NotFound: Told(404, "There is no such thing"),
    errors.AlreadyExists: Told(409, "There is one already"),
}
"""Every error of the library, itself and not by its parent: a new one must be thought about."""


def body_of(error: errors.LeaseholdError) -> dict[str, Any]:
    """The members of the problem (RFC 9457). ``type`` and ``code`` are the stable code of the error."""
    told = _told(error)
    body: dict[str, Any] = {
        "type": error.code,
        "code": error.code,
        "title": told.title,
        "status": told.status,
    }
    if isinstance(error, errors.StaleFence):
        # As text: a number in JSON is a double to many who read it.
        body |= {"message": str(error), "seen": str(error.seen), "given": str(error.given)}
    return body


def headers_of(error: errors.LeaseholdError) -> Mapping[str, str]:
    """``Retry-After``, where it may help to come back, in whole seconds."""
    status = _told(error).status
    if status not in {409, 429, 503} or isinstance(error, _NO_USE_IN_WAITING):
        return {}
    known: float | None = getattr(error, "retry_after", None)
    if known is None:
        known = _STORE_RETRY_AFTER if isinstance(error, errors.StoreError) else 1
    return {"Retry-After": str(max(1, math.ceil(known)))}


def _told(error: errors.LeaseholdError) -> Told:
    return next(OF_ERROR[kind] for kind in type(error).__mro__ if kind in OF_ERROR)
