"""The exit codes, in one table."""

from __future__ import annotations

from enum import IntEnum

from leasehold import errors


class Exit(IntEnum):
    """What the exit code of ``leasehold`` says. ``run`` passes on that of the command, if it came to that."""

    DONE = 0
    PROBLEM = 1
    USAGE = 2
    BUSY = 3
    LOST = 4
    STORE = 5
    CANNOT_RUN = 126
    NOT_FOUND = 127


MEANINGS: dict[Exit, str] = {
    Exit.DONE: "done",
    Exit.PROBLEM: "doctor found a problem, or something unexpected happened",
    Exit.USAGE: "wrong arguments or settings; nothing was changed",
    Exit.BUSY: "somebody else holds the lock",
    Exit.LOST: "the lease was lost; run has stopped the command",
    Exit.STORE: "the store cannot be reached, or refused",
    Exit.CANNOT_RUN: "run: the command cannot be executed",
    Exit.NOT_FOUND: "run: there is no such command",
}
AFTER_SIGNAL = 128
"""Ended by signal n: this plus n, as shells have it."""

OF_ERROR: dict[type[errors.LeaseholdError], Exit] = {
    errors.LeaseholdError: Exit.PROBLEM,
    errors.LockBusy: Exit.BUSY,
    errors.AcquireTimeout: Exit.BUSY,
    errors.FileBusy: Exit.BUSY,
    errors.FileTimeout: Exit.BUSY,
    errors.UpgradeRefused: Exit.BUSY,
    errors.InProgress: Exit.BUSY,
    errors.RateLimited: Exit.BUSY,
    errors.LeaseLost: Exit.LOST,
    errors.StaleFence: Exit.LOST,
    errors.FileChanged: Exit.LOST,
    errors.StoreError: Exit.STORE,
    errors.StoreUnavailable: Exit.STORE,
    errors.StoreRefused: Exit.STORE,
    errors.InvalidRequest: Exit.USAGE,
    errors.NotSignedIn: Exit.USAGE,
    errors.NotAllowed: Exit.USAGE,
    errors.NotFound: Exit.USAGE,
    errors.AlreadyExists: Exit.USAGE,
}
"""Every error of the library, itself and not by its parent: a new one must be thought about."""
