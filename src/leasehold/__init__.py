"""Leasehold: one lock plane for people, programs and agents, on Valkey or Redis."""

from typing import TYPE_CHECKING, Any

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
    QuotaExceeded,
    RateLimited,
    StaleFence,
    StoreError,
    StoreRefused,
    StoreUnavailable,
    UpgradeRefused,
)

if TYPE_CHECKING:
    from leasehold import blocking
    from leasehold.client import Client, Lease, Leases, connect
    from leasehold.core.replies import Hold, LockInfo
    from leasehold.redis_py import from_client

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
    "QuotaExceeded",
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

_MODULES = {
    "Client": "client",
    "Hold": "core.replies",
    "Lease": "client",
    "Leases": "client",
    "LockInfo": "core.replies",
    "blocking": "blocking",
    "connect": "client",
    "from_client": "redis_py",
}


def __getattr__(name: str) -> Any:
    # Loaded when first used: a program with blocking locks needs no asyncio, and one that prints its help needs
    # neither.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - not a name of this package

    module = import_module(f"{__name__}.{_MODULES[name]}")
    value = module if name == "blocking" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
