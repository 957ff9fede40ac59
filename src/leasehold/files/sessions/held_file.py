"""Files that are held: their leases and entries, for asyncio and for threads."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core.leases.lease import LeaseState
from leasehold.core.multi_lock import LeasesState, release_in_background
from leasehold.errors import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Sequence

    from leasehold.core.engine import Engine
    from leasehold.core.ports import Signal
    from leasehold.errors import LossReason
    from leasehold.files.sessions.entries import Access, Entry

L = TypeVar("L", bound=LeaseState)

# The wake-up at the end of an upgrade may be lost to the exception of a signal handler.
_LOOK_AGAIN = 0.5
_TAKEN = "another process of its session has restored it, or its lock was taken by force"


def lost_file(path: str, reason: LossReason) -> LeaseLost:
    """The loss of a file's lock, by the path of the file."""
    return LeaseLost(path, reason, why=_TAKEN if reason == "taken" else None)


@dataclass(frozen=True, slots=True)
class FileVerbs:
    """The verbs of a held file that differ between a session and co-editing."""

    release: Callable[[HeldFile[Any]], Coroutine[Any, Any, None]]
    upgrade: Callable[[HeldFile[Any], float | None], Coroutine[Any, Any, None]]
    trim_ttl: Callable[[float | None], tuple[float, bool]]
    """The ttl that is allowed, and True if that is less than the one given."""


class HeldFile(LeasesState[L]):
    """One file that is held: its lock, and for a file with several hard links that of the inode.

    It counts as held only while all of them are. ``trimmed``: a longer ttl was requested than is allowed.
    """

    def __init__(
        self, engine: Engine[L], leases: Sequence[L], verbs: FileVerbs, entry: Entry, *, trimmed: bool
    ) -> None:
        super().__init__(engine, leases)
        self._verbs = verbs
        self._group: HeldFiles[L, Any] | None = None
        self.entry = entry
        self.trimmed = trimmed
        self.is_forgotten = False
        self.upgrades: list[Signal] = []
        """Those that upgrade it, in the order in which they came: one at a time; see `leasehold.core.leases.turns`."""
        self._is_releasing = False
        self._release_begun = engine.concurrency.signal()

    def __repr__(self) -> str:
        state = self.loss() or f"{self.remaining():.1f} s left"
        return f"<{type(self).__name__} {self.mode} {self.path!r} fence={self.fence} {state}>"

    @property
    def path(self) -> str:
        """The file's path for people: absolute, or in a project relative to its root."""
        return self.entry.path

    @property
    def mode(self) -> Access:
        """The access that it is held for: ``read`` or ``write``."""
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
        """The seconds for which it is granted or renewed."""
        return self._leases[self.entry.names[0]].ttl

    def loss(self) -> LossReason | None:
        """The reason why it is not held, or not held together with the rest of its group; None while it is."""
        return super().loss() if self._group is None else self._group.loss()

    def check(self) -> None:
        """Return if it is held at this moment, raise `LeaseLost` if not."""
        if (reason := super().loss()) is not None:
            raise lost_file(self.path, reason)

    async def renew_all(self, ttl: float | None) -> None:
        """Renew its leases; `LeaseLost` if it has ended."""
        with self.loss_by_path():
            for name in self.entry.names:
                await self._renew(name, ttl)

    async def _renew(self, name: str, ttl: float | None) -> None:
        lease = self[name]
        try:
            await self._engine.renew(lease, ttl)
        except LeaseLost:
            if self[name] is lease:
                raise
            # It was upgraded while this renewal waited for its turn.
            await self._engine.renew(self[name], ttl)

    @contextmanager
    def loss_by_path(self) -> Generator[None]:
        """Raise the loss of a lock as that of the file."""
        try:
            yield
        except LeaseLost as lost:
            raise lost_file(self.path, lost.reason) from lost

    async def release_all(self) -> None:
        """End its leases, and remove its entry."""
        await self._verbs.release(self)

    def join(self, group: HeldFiles[L, Any], lost: Any) -> None:
        """Count as held only while all files of the group are."""
        self._group = group
        self._lost = lost

    async def stop_upgrading(self) -> None:
        """On return no upgrade is under way, and none begins: the leases that it has now are those to release."""
        # Set before looking: an upgrade takes its turn first, and looks at this after that.
        self._is_releasing = True
        self._release_begun.set()
        try:
            # In a forked child it is the parent's upgrade, whose end would never be signalled here.
            while (turns := self.upgrades.copy()) and all(lease.is_ours for lease in self):
                await turns[0].wait(_LOOK_AGAIN)
        except BaseException:
            self.release_in_background()  # otherwise they would stay held, because this release ends here
            raise

    def check_not_releasing(self) -> None:
        """Raise `LeaseLost` if it is being released."""
        if self._is_releasing:
            raise lost_file(self.path, "released")

    async def wait_for_release(self, timeout: float) -> None:
        """Return after ``timeout`` seconds, or as soon as a release begins."""
        await self._release_begun.wait(timeout)

    def release_in_background(self) -> None:
        """Release its leases in the background."""
        release_in_background(self._engine, list(self))

    def exchange(self, old: L, new: L) -> None:
        """Hold ``new`` in the place of ``old``."""
        # The end of the old one is not that of the file.
        new.group_signal, old.group_signal = self._lost, None
        self._leases[new.name] = new
        self.on_exchange(old, new)

    def on_exchange(self, old: L, new: L) -> None:
        """For subclasses: move to ``new`` whatever the loss of ``old`` would have stopped."""


H = TypeVar("H", bound=HeldFile[Any])


class HeldFiles(LeasesState[L], Generic[L, H]):
    """Files that are held together, all of them or none; by their paths, as given or as `HeldFile.path`."""

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

    async def release_all(self) -> None:
        """Release each of them, also if one of them fails; then raise the first error."""
        failure: Exception | None = None
        for hold in self._holds:
            try:
                await hold.release_all()
            except Exception as error:  # noqa: BLE001 - the others are released all the same
                failure = failure or error
        if failure is not None:
            raise failure
