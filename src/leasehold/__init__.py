"""Leasehold: one lock plane for people, programs and agents, on Valkey or Redis."""

from leasehold import blocking
from leasehold.borrowing import from_client
from leasehold.client import Client, Lease, Leases, connect
from leasehold.core.answers import Hold, LockInfo
from leasehold.errors import (
    AcquireTimeout,
    AlreadyExists,
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
)

__all__ = [
    "AcquireTimeout",
    "AlreadyExists",
    "Client",
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
    "blocking",
    "connect",
    "from_client",
]
