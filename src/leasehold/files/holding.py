"""A file that is held: what is known of it, whichever world its holder lives in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from leasehold.core.lease import LeaseState
from leasehold.core.together import LeasesState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.core.engine import Engine
    from leasehold.errors import LossReason
    from leasehold.files.history import Access, Entry

L = TypeVar("L", bound=LeaseState)


class Owner(Protocol):
    """Who keeps the books of a held file."""

    async def give_back(self, hold: FileHold[Any]) -> None:
        """End its leases, and forget it."""
        ...

    async def upgrade(self, hold: FileHold[Any], wait: float | None) -> None:
        """Turn it from reading to writing."""
        ...

    def trim(self, ttl: float | None) -> tuple[float | None, bool]:
        """The ttl that is allowed, and whether that is less than what was asked for."""
        ...


class FileHold(LeasesState[L]):
    """One file that is held: its lock, and a second one behind a file with several hard links.

    It counts as held only while both are. ``trimmed`` says that a longer ttl was asked for than is allowed.
    """

    def __init__(
        self, engine: Engine[L], leases: Sequence[L], owner: Owner, entry: Entry, *, trimmed: bool = False
    ) -> None:
        super().__init__(engine, leases)
        self._owner = owner
        self._group: FileHolds[L, Any] | None = None
        self.entry = entry
        self.trimmed = trimmed
        self.is_forgotten = False

    def __repr__(self) -> str:
        state = self.loss() or f"{self.remaining():.1f} s left"
        return f"<{type(self).__name__} {self.mode} {self.path!r} fence={self.fence} {state}>"

    @property
    def path(self) -> str:
        """The file as people know it."""
        return self.entry.path

    @property
    def mode(self) -> Access:
        """What it may be used for: ``read`` or ``write``."""
        return self.entry.mode

    @property
    def fence(self) -> int:
        """Grows with every grant of the file's lock; an upgrade is one, too."""
        return self._leases[self.entry.names[0]].fence

    @property
    def ttl(self) -> float:
        """For how many seconds it is granted or renewed."""
        return self._leases[self.entry.names[0]].ttl

    def loss(self) -> LossReason | None:
        """Why it is not held any more; of files that are held together, why they are not."""
        return super().loss() if self._group is None else self._group.loss()

    async def give_back(self) -> None:
        """End its leases, and forget it."""
        await self._owner.give_back(self)

    def join(self, group: FileHolds[L, Any], lost: Any) -> None:
        """Count as held only while all files of the group are."""
        self._group = group
        self._lost = lost

    def exchange(self, old: L, new: L) -> None:
        """Hold ``new`` in the place of ``old``."""
        new.group_signal = self._lost
        self._leases[new.name] = new
        self.hand_on(old, new)

    def hand_on(self, old: L, new: L) -> None:
        """For subclasses: what must be told when ``old`` is lost, must be told when ``new`` is."""


H = TypeVar("H", bound=FileHold[Any])


class FileHolds(LeasesState[L], Generic[L, H]):
    """Files that are held together: all of them or none. By their paths, as they were given or as people know them."""

    def __init__(self, engine: Engine[L], holds: Sequence[H], spellings: dict[str, H]) -> None:
        # A lock that two of them share, because they are links to one file, is there once.
        super().__init__(engine, list({lease.name: lease for hold in holds for lease in hold}.values()))
        self.files: dict[str, H] = {hold.path: hold for hold in holds}
        self._spellings = {**spellings, **self.files}
        for hold in holds:
            hold.join(self, self._lost)

    def file(self, path: str) -> H:
        """The hold of one of them."""
        return self._spellings[path]

    @property
    def fences(self) -> dict[str, int]:
        """The fence of each file by its path."""
        return {path: hold.fence for path, hold in self.files.items()}

    async def give_back(self) -> None:
        """Give each of them back, whatever happens to the others; then raise what happened first."""
        failure: Exception | None = None
        for hold in self.files.values():
            try:
                await hold.give_back()
            except Exception as error:  # noqa: BLE001 - the others are given back all the same
                failure = failure or error
        if failure is not None:
            raise failure
