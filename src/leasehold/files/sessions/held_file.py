"""A file that is held: what is known of it, whichever world its holder lives in."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from leasehold.core.lease import LeaseState
from leasehold.core.multi_lock import LeasesState
from leasehold.errors import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from leasehold.core.engine import Engine
    from leasehold.core.ports import Signal
    from leasehold.errors import LossReason
    from leasehold.files.sessions.entries import Access, Entry

L = TypeVar("L", bound=LeaseState)


_TAKEN = "another process of its session has restored it, or somebody took the lock by force"


def lost_file(path: str, reason: LossReason) -> LeaseLost:
    """The loss of a file's lock, for those who know it by its path."""
    return LeaseLost(path, reason, why=_TAKEN if reason == "taken" else None)


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
    """One file that is held: its lock, and for a file with several hard links that of the inode.

    It counts as held only while all are. ``trimmed`` says that a longer ttl was asked for than is allowed.
    """

    upgrading: Signal | None = None

    def __init__(
        self, engine: Engine[L], leases: Sequence[L], owner: Owner, entry: Entry, *, trimmed: bool = False
    ) -> None:
        super().__init__(engine, leases)
        self._owner = owner
        self._group: FileHolds[L, Any] | None = None
        self.entry = entry
        self.trimmed = trimmed
        self.is_forgotten = False
        self._is_ending = False
        self._ending = engine.concurrency.signal()

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

    def fence_of(self, name: str) -> int:
        """The fence of one of its locks."""
        return self._leases[name].fence

    @property
    def ttl(self) -> float:
        """For how many seconds it is granted or renewed."""
        return self._leases[self.entry.names[0]].ttl

    def loss(self) -> LossReason | None:
        """Why it is not held any more; of files that are held together, why they are not."""
        return super().loss() if self._group is None else self._group.loss()

    def check(self) -> None:
        """Return if it is held at this moment, raise `LeaseLost` if not."""
        if (reason := super().loss()) is not None:
            raise lost_file(self.path, reason)

    async def renew_all(self, ttl: float | None) -> None:
        """Renew its leases; `LeaseLost` if it has ended."""
        with self.named():
            for name in self.entry.names:
                await self._renew(name, ttl)

    async def _renew(self, name: str, ttl: float | None) -> None:
        lease = self[name]
        try:
            await self._engine.renew(lease, ttl)
        except LeaseLost:
            if self[name] is lease:
                raise
            # Upgraded while we waited for our turn.
            await self._engine.renew(self[name], ttl)

    @contextmanager
    def named(self) -> Generator[None]:
        """Have the loss of a lock told as that of the file."""
        try:
            yield
        except LeaseLost as lost:
            raise lost_file(self.path, lost.reason) from lost

    async def give_back(self) -> None:
        """End its leases, and forget it."""
        await self._owner.give_back(self)

    def join(self, group: FileHolds[L, Any], lost: Any) -> None:
        """Count as held only while all files of the group are."""
        self._group = group
        self._lost = lost

    def begin_upgrade(self, mine: Signal) -> Signal:
        """Take the turn to upgrade it; whose turn it is, if not mine. One atomic step, because threads may share it."""
        return self.__dict__.setdefault("upgrading", mine)

    def end_upgrade(self) -> None:
        """Give the turn back, and wake whoever waits for it."""
        self.__dict__.pop("upgrading").set()

    async def stop_upgrading(self) -> None:
        """On return no upgrade is under way, and none begins: the leases that it has now are those to give back."""
        # Noted before looking: an upgrade takes its turn first, and looks at this after that.
        self._is_ending = True
        self._ending.set()
        try:
            # In a forked child it is the parent's upgrade, and nobody would ever tell us of its end.
            while (turn := self.upgrading) is not None and all(lease.is_ours for lease in self):
                await turn.wait()
        except BaseException:
            self.renounce()  # nobody will give it back after this
            raise

    def check_wanted(self) -> None:
        """Raise `LeaseLost` if somebody is giving it back."""
        if self._is_ending:
            raise lost_file(self.path, "released")

    async def pause(self, seconds: float) -> None:
        """Return after so many seconds, or as soon as somebody gives it back."""
        await self._ending.wait(seconds)

    def renounce(self) -> None:
        """Give its leases back without waiting for it."""
        for lease in self:
            self._engine.release_in_background(lease)

    def exchange(self, old: L, new: L) -> None:
        """Hold ``new`` in the place of ``old``."""
        # The end of the old one is not that of the hold.
        new.group_signal, old.group_signal = self._lost, None
        self._leases[new.name] = new
        self.hand_on(old, new)

    def hand_on(self, old: L, new: L) -> None:
        """For subclasses: what must be told when ``old`` is lost, must be told when ``new`` is."""


H = TypeVar("H", bound=FileHold[Any])


class FileHolds(LeasesState[L], Generic[L, H]):
    """Files that are held together: all of them or none. By their paths, as they were given or as people know them."""

    def __init__(self, engine: Engine[L], holds: Sequence[H], spellings: dict[str, H]) -> None:
        super().__init__(engine, [lease for hold in holds for lease in hold])
        self._holds = tuple(holds)
        self.files: dict[str, H] = {path: hold for hold in holds for path in hold.entry.paths}
        self._spellings = {**spellings, **self.files}
        for hold in holds:
            hold.join(self, self._lost)

    def file(self, path: str) -> H:
        """The hold of one of them. Two links to one file have the same."""
        return self._spellings[path]

    @property
    def fences(self) -> dict[str, int]:
        """The fence of each file by its path."""
        return {
            path: hold.fence_of(name)
            for hold in self._holds
            for path, name in zip(hold.entry.paths, hold.entry.names, strict=False)
        }

    def check(self) -> None:
        """Return if all of them are held at this moment, raise `LeaseLost` for the first that is not."""
        for hold in self._holds:
            hold.check()

    async def renew_all(self, ttl: float | None) -> None:
        """Renew each of them; `LeaseLost` for the first that has ended."""
        for hold in self._holds:
            await hold.renew_all(ttl)

    async def give_back(self) -> None:
        """Give each of them back, whatever happens to the others; then raise what happened first."""
        failure: Exception | None = None
        for hold in self._holds:
            try:
                await hold.give_back()
            except Exception as error:  # noqa: BLE001 - the others are given back all the same
                failure = failure or error
        if failure is not None:
            raise failure
