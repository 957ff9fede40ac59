"""File locks for agents and orchestrators: several programs read and write the same files, on one machine or many.

``leasehold.files.blocking`` is the same for threads. A rate limit needs the extra ``leasehold[files]``.
"""

from leasehold.files.client import FileLease, FileLeases, FileLocks, Session
from leasehold.files.info import FileInfo, HeldBy
from leasehold.files.sessions.entries import Entry
from leasehold.files.sessions.read_write import FileContent
from leasehold.files.sessions.restore import Restored
from leasehold.files.settings import FileSettings

__all__ = [
    "Entry",
    "FileContent",
    "FileInfo",
    "FileLease",
    "FileLeases",
    "FileLocks",
    "FileSettings",
    "HeldBy",
    "Restored",
    "Session",
]
