"""Leasehold: one lock plane for people, programs and agents, on Valkey or Redis."""

from leasehold import blocking
from leasehold.borrowing import from_client
from leasehold.client import Client, Lease, Leases, connect
from leasehold.core.answers import Hold, LockInfo
from leasehold.errors import (
    AcquireTimeout,
    AlreadyExists,
    FileBusy,
    FileChanged,
    FileTimeout,
    InProgress,
    InvalidRequest,
    LeaseholdError,
    LeaseLost,
    LockBusy,
    NotAllowed,
    NotFound,
    NotSignedIn,
    RateLimited,
    StaleFence,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    UpgradeRefused,
)

__all__ = [
    "AcquireTimeout",
    "AlreadyExists",
    "Client",
    "FileBusy",
    "FileChanged",
    "FileTimeout",
    "Hold",
    "InProgress",
    "InvalidRequest",
    "Lease",
    "LeaseLost",
    "LeaseholdError",
    "Leases",
    "LockBusy",
    "LockInfo",
    "NotAllowed",
    "NotFound",
    "NotSignedIn",
    "RateLimited",
    "StaleFence",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "UpgradeRefused",
    "blocking",
    "connect",
    "from_client",
]
