"""Locks for people who edit documents."""

from leasehold.documents.locks import DocumentLocks
from leasehold.documents.outcomes import Busy, Granted, SaveAnswer
from leasehold.documents.ports import (
    Access,
    AccessPolicy,
    Content,
    DocumentStore,
    Grant,
    Rescued,
    Role,
    Save,
    Saved,
)
from leasehold.documents.state import Editor, Event, Hold, Holder, LockState, Person, Taking, Version
from leasehold.documents.timings import Times

__all__ = [
    "Access",
    "AccessPolicy",
    "Busy",
    "Content",
    "DocumentLocks",
    "DocumentStore",
    "Editor",
    "Event",
    "Grant",
    "Granted",
    "Hold",
    "Holder",
    "LockState",
    "Person",
    "Rescued",
    "Role",
    "Save",
    "SaveAnswer",
    "Saved",
    "Taking",
    "Times",
    "Version",
]
