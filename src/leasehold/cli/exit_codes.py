"""The exit codes and the table that maps errors to them."""

from __future__ import annotations

from enum import IntEnum

from leasehold import errors


class ExitCode(IntEnum):
    """The exit codes of ``leasehold`` itself. ``run`` exits with the command's code once the command has run."""

    DONE = 0
    PROBLEM = 1
    USAGE = 2
    BUSY = 3
    LOST = 4
    STORE = 5
    CANNOT_RUN = 126
    NOT_FOUND = 127


MEANINGS: dict[ExitCode, str] = {
    ExitCode.DONE: "done",
    ExitCode.PROBLEM: "doctor found a problem, or something unexpected happened",
    ExitCode.USAGE: "wrong arguments or settings; nothing was changed",
    ExitCode.BUSY: "the lock is held by another holder",
    ExitCode.LOST: "the lease was lost; run has stopped the command",
    ExitCode.STORE: "the store cannot be reached, or refused the request",
    ExitCode.CANNOT_RUN: "run: the command cannot be executed",
    ExitCode.NOT_FOUND: "run: the command was not found",
}
AFTER_SIGNAL = 128
"""The exit code of a process that signal n has ended is this plus n, as in shells."""

BY_ERROR: dict[type[errors.LeaseholdError], ExitCode] = {
    errors.LeaseholdError: ExitCode.PROBLEM,
    errors.LockBusy: ExitCode.BUSY,
    errors.AcquireTimeout: ExitCode.BUSY,
    errors.FileBusy: ExitCode.BUSY,
    errors.FileTimeout: ExitCode.BUSY,
    errors.UpgradeRefused: ExitCode.BUSY,
    errors.InProgress: ExitCode.BUSY,
    errors.RateLimited: ExitCode.BUSY,
    errors.LeaseLost: ExitCode.LOST,
    errors.StaleFence: ExitCode.LOST,
    errors.FileChanged: ExitCode.LOST,
    errors.StoreError: ExitCode.STORE,
    errors.StoreUnavailable: ExitCode.STORE,
    errors.StoreRefused: ExitCode.STORE,
    errors.InvalidRequest: ExitCode.USAGE,
    errors.NotSignedIn: ExitCode.USAGE,
    errors.NotAllowed: ExitCode.USAGE,
    errors.QuotaExceeded: ExitCode.USAGE,
    errors.NotFound: ExitCode.USAGE,
    errors.AlreadyExists: ExitCode.USAGE,
}
"""Every error class of the library. A subclass does not inherit its parent's code: each needs its own decision."""
