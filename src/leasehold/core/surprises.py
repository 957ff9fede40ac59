"""Errors that nobody expected, in work that must go on all the same."""

from __future__ import annotations

import logging

from leasehold.errors import StoreError

_log = logging.getLogger("leasehold")


def report_unexpected(error: Exception, where: str = "while looking after leases") -> None:
    """Say in the log what went wrong, unless it is what a store does when it cannot be reached."""
    if not isinstance(error, StoreError):
        _log.error("unexpected error %s", where, exc_info=error)
