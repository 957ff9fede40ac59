"""The outcomes of acquiring, taking and saving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.documents.ports import Rescued, Saved
    from leasehold.documents.state import LockState


@dataclass(frozen=True, slots=True)
class Granted:
    """The editor holds the lock now, and the document is at ``content_version``.

    ``saved`` is only set after a force-take from a holder: whether the previous editor answered with a save.
    """

    state: LockState
    content_version: int
    saved: bool | None = None

    @property
    def fence(self) -> int:
        """The number of this grant."""
        return self.state.version.fence


@dataclass(frozen=True, slots=True)
class Busy:
    """Another editor (or another tab of the same person) holds the lock, or is about to get it."""

    state: LockState


@dataclass(frozen=True, slots=True)
class SaveAnswer:
    """The outcome of a save. ``lock_lost`` is None where the lock store did not answer."""

    outcome: Saved | Rescued
    lock_lost: bool | None
