"""Background work: started once, and its unexpected errors logged."""

from __future__ import annotations

import logging

from leasehold.errors import InvalidRequest, StoreError

_log = logging.getLogger("leasehold")


def start_once(owner: object, work: str) -> bool:
    """Return True on the first call for ``owner`` and ``work``, False on every later one.

    One atomic step, because two threads may call it at the same time.
    """
    started = owner.__dict__
    mark = "_started_" + work
    if mark in started:
        return False
    mine = object()
    return started.setdefault(mark, mine) is mine


def end_started(owner: object, work: str) -> None:
    """Let `start_once` return True again: ``work`` has ended."""
    owner.__dict__.pop("_started_" + work, None)


def report_unexpected(error: Exception, where: str = "while renewing or cleaning up") -> None:
    """Log ``error``, unless it is expected: while the store cannot be reached, or when the client has been closed."""
    if not isinstance(error, StoreError | InvalidRequest):
        _log.error("unexpected error %s", where, exc_info=error)
