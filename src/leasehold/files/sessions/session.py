"""What a session can do, once for both worlds."""

from __future__ import annotations

import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from leasehold.core.lease import LeaseState
from leasehold.core.multi_lock import acquire_in_turn, release_each, try_acquire_all
from leasehold.core.replies import DONE
from leasehold.errors import InvalidRequest, LeaseLost, LockBusy, NotFound, StoreError, StoreUnavailable
from leasehold.files.content import atomic_write, contents
from leasehold.files.content.last_seen import Seen
from leasehold.files.sessions.claims import Identity, mode_of, names_of, settled
from leasehold.files.sessions.conflicts import refusal, upgrade_refusal
from leasehold.files.sessions.context import check_purpose, quietly
from leasehold.files.sessions.entries import Entry
from leasehold.files.sessions.held_file import lost_file
from leasehold.files.sessions.session_store import WHATEVER, Book, Change, as_it_was
from leasehold.files.sessions.upgrade import upgrade_lease
from leasehold.valkey.options import default_holder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from leasehold.files.paths.identity import FileId
    from leasehold.files.sessions.context import Office, Path
    from leasehold.files.sessions.credentials import Secret
    from leasehold.files.sessions.entries import Access
    from leasehold.files.sessions.held_file import FileHold

L = TypeVar("L", bound=LeaseState)
H = TypeVar("H", bound="FileHold[Any]")
_log = logging.getLogger("leasehold.files")
_DOING = {"read": "reading", "write": "writing"}


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file as it was read under a lease: the bytes, their SHA-256, and the fence of the lease."""

    data: bytes
    sha256: str
    fence: int


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms files are asked for."""

    ttl: float
    trimmed: bool
    wait: float | None
    purpose: str | None
    renew: bool


def _held(entries: Sequence[Entry], leases: Sequence[LeaseState], access: Access) -> list[Entry]:
    by_name = {lease.name: lease for lease in leases}
    return [settled(entry, by_name, mode=access) for entry in entries]


class SessionCore(Generic[L, H]):
    """One opening of a session: its leases, its page in the store, and what it has seen of files."""

    def __init__(
        self, office: Office[L], session_id: str, secret: Secret, make_hold: Callable[..., H]
    ) -> None:
        self.office = office
        self.engine = office.engine
        self.session_id = session_id
        self.secret = secret
        self.identity = Identity(session_id, secret, 0, default_holder())
        self.book = Book(
            office.engine,
            office.wire,
            office.session_namespace,
            session_id,
            secret,
            office.settings,
            lambda: [hold.entry for hold in list(self.held.values())],
        )
        self._make_hold = make_hold
        self._seen = Seen()
        # Lists, because threads may share a session, and one step adds or removes.
        self._writing: list[str] = []
        self._doubtful: list[tuple[float, list[list[Entry]]]] = []
        self.held: dict[str, H] = {}

    async def open(self) -> None:
        """Make the session known to the store, or show that it is ours."""
        epoch = await self.office.watch(self.book.open())
        self.identity = replace(self.identity, epoch=epoch)

    def terms(self, ttl: float | None, wait: float | None, purpose: Any, *, renew: bool) -> Terms:
        """Checked, before anything is sent."""
        allowed, trimmed = self.trim(ttl)
        return Terms(allowed, trimmed, self.office.patience(wait), check_purpose(purpose), renew)

    def trim(self, ttl: float | None) -> tuple[float, bool]:
        """See `Office.trim`; it is said in the log as well."""
        allowed, trimmed = self.office.trim(ttl)
        if trimmed:
            _log.warning(
                "session %s: the ttl was trimmed to %g s, the most allowed", self.session_id, allowed
            )
        return allowed, trimmed

    async def acquire_one(self, path: Path, access: Access, terms: Terms) -> H:
        """The file, held; nothing of it is left behind otherwise."""
        file = await self.office.identify(path, verb=access)
        (hold,) = await self._attempt(access, [file], terms)
        return hold

    async def acquire_all(self, paths: Iterable[Path], terms: Terms) -> tuple[list[H], dict[str, H]]:
        """All of the files for writing, or none; also by what they were called."""
        called = await self.office.identify_all(paths)
        files = list({file.sha256: file for file in called.values()}.values())
        holds = await self._attempt("write", files, terms)
        by_name = {name: hold for hold in holds for name in hold.entry.names}
        return holds, {spelling: by_name[file.sha256] for spelling, file in called.items()}

    async def _attempt(self, access: Access, files: Sequence[FileId], terms: Terms) -> list[H]:
        return await self.office.attempt(
            access, ", ".join(file.path for file in files), lambda: self._acquire(files, access, terms)
        )

    async def _acquire(self, files: Sequence[FileId], access: Access, terms: Terms) -> list[H]:
        await self.office.limits.check(self.session_id, access)
        engine = self.engine
        started_at = engine.clock.now()
        entries = self._entries(files, access, terms)
        before: list[Entry] = []
        leases: list[L] | None = None
        try:
            await self._write_down(entries)
            await self._forget_doubtful()
            if access == "write" and len(names_of(entries)) > 1:
                leases = await try_acquire_all(
                    engine,
                    names_of(entries),
                    terms.ttl,
                    None,
                    terms.renew,
                    None,
                    None,
                    self.identity.own(entries),
                )
                if leases is None:
                    # Under other tokens: of those that were asked with, one may still be on its way to be taken back.
                    before, entries = entries, self._entries(files, access, terms)
                    await self._write_down(entries, instead_of=before)
            if leases is None:
                leases = await acquire_in_turn(
                    engine,
                    names_of(entries),
                    terms.ttl,
                    terms.wait,
                    started_at,
                    mode_of(access),
                    None,
                    terms.renew,
                    owners=self.identity.own(entries),
                )
            return await self.take_over(entries, leases, access, trimmed=terms.trimmed)
        except BaseException as error:
            for lease in leases or ():
                engine.release_in_background(lease)
            asked = [*before, *entries]
            if isinstance(error, LockBusy):
                await quietly(self.book.forget(asked))
                path = next(entry.path for entry in entries if error.name in entry.names)
                raise refusal(error, path, session=self.session_id, wait=terms.wait) from error
            written = [asked] if leases is None else [asked, _held(entries, leases, access)]
            if isinstance(error, StoreUnavailable):
                # What was asked may still arrive, and then only the entry knows of it.
                self._doubtful.append((engine.clock.now() + 2 * terms.ttl, written))
            elif isinstance(error, Exception):
                await quietly(self._take_back(written))
            else:  # cancelled: nobody waits for it
                engine.concurrency.spawn(quietly(self._take_back(written)))
            raise

    async def _take_back(self, written: Sequence[Sequence[Entry]]) -> None:
        """End what there may be behind the entries, and only then forget them, in whichever version is written down."""
        for entry in written[0]:
            await self._release_entry(entry)
        for version in written:
            await self.book.forget(version)

    async def _forget_doubtful(self) -> None:
        """Forget what was asked for without an answer, when no lease can have come of it that has not ended."""
        now = self.engine.clock.now()
        for doubt in [doubt for doubt in self._doubtful if doubt[0] < now]:
            for version in doubt[1]:
                await self.book.forget(version)
            with suppress(ValueError):  # another thread was here
                self._doubtful.remove(doubt)

    async def take_over(
        self, entries: Sequence[Entry], leases: Sequence[L], access: Access, *, trimmed: bool = False
    ) -> list[H]:
        """Write down that the session has these files, and only then say so.

        `LeaseLost` if another process of the session is restoring them, which takes them from us.
        """
        by_name = {lease.name: lease for lease in leases}
        held = _held(entries, leases, access)
        changes = [
            Change(entry.field, as_it_was(before), entry.encode())
            for before, entry in zip(entries, held, strict=True)
        ]
        if not await self.book.note(changes):
            raise lost_file(entries[0].path, "taken")
        holds: list[H] = []
        for entry in held:
            mine = [by_name[name] for name in entry.names]
            hold = self._make_hold(self.engine, mine, self, entry, trimmed=trimmed)
            self.held[entry.field] = hold
            holds.append(hold)
        return holds

    async def give_back(self, hold: H) -> None:
        """End its leases, and then forget it: a crash in between leaves an entry without a lock, not the opposite."""
        await self.office.attempt("release", hold.path, lambda: self._give_back(hold))

    async def _give_back(self, hold: H) -> None:
        lost: LeaseLost | None = None
        await hold.stop_upgrading()
        try:
            with hold.named():
                await release_each(self.engine, list(hold))
        except LeaseLost as error:
            lost = error
        except StoreError as error:
            _log.warning("session %s: releasing %r failed: %s", self.session_id, hold.path, error.code)
            raise
        self.held.pop(hold.entry.field, None)
        # In a forked child it is still the parent's.
        if not hold.is_forgotten and all(lease.is_ours for lease in hold):
            await self.book.forget_own(hold.entry)
            hold.is_forgotten = True
            _log.info("session %s: %r is %s", self.session_id, hold.path, "lost" if lost else "released")
        if lost is not None:
            raise lost

    async def upgrade(self, hold: H, wait: float | None) -> None:
        """From reading to writing; see `leasehold.files.sessions.upgrade`."""
        if hold.mode == "read":
            patience = self.office.patience(wait)
            await self.office.attempt("upgrade", hold.path, lambda: self._upgrade_in_turn(hold, patience))

    async def _upgrade_in_turn(self, hold: H, wait: float | None) -> None:
        """One upgrade of a hold at a time: who comes second finds it done, or goes on from where it is."""
        clock, mine = self.engine.clock, self.engine.concurrency.signal()
        give_up_at = None if wait is None else clock.now() + wait
        while True:
            hold.check()
            left = None if give_up_at is None else max(0.0, give_up_at - clock.now())
            if (turn := hold.begin_upgrade(mine)) is mine:
                break
            if not await turn.wait(left):
                name = hold.entry.names[0]
                busy = LockBusy(name, holder=hold[name].holder, mode="shared")
                raise refusal(busy, hold.path, session=self.session_id, wait=wait)
        try:
            if hold.mode == "read":
                await self._upgrade(hold, left)
        finally:
            hold.end_upgrade()

    async def _upgrade(self, hold: H, wait: float | None) -> None:
        await self.office.limits.check(self.session_id, "upgrade")
        hold.check_wanted()
        hold.check()
        before = hold.entry
        # Written down first, as a turn that may have got it.
        begun = before.next_turn(epoch=self.identity.epoch)
        if not await self.book.note([Change(begun.field, as_it_was(before), begun.encode())]):
            raise lost_file(hold.path, "taken")
        hold.entry = begun
        writing_entry = begun.but(mode="write")
        own = self.identity.own([writing_entry])
        todo = [lease for name in reversed(begun.names) if (lease := hold[name]).mode == "shared"]
        give_up_at = None if wait is None else self.engine.clock.now() + wait
        # The lock of the links first: whoever has the other one has it, too, unless the link is newer than its lease. If
        # only that one is had, the file is still held for reading, and the next upgrade goes on from there.
        for lease in todo:
            left = None if give_up_at is None else max(0.0, give_up_at - self.engine.clock.now())
            try:
                with hold.named():
                    rival = await upgrade_lease(
                        self.engine,
                        self.office.store,
                        hold,
                        lease,
                        own[lease.name],
                        ttl=lease.ttl,
                        wait=left,
                    )
            except LockBusy as busy:
                raise refusal(busy, hold.path, session=self.session_id, wait=wait) from busy
            if rival is not None:
                other = rival.way.holding
                raise upgrade_refusal(
                    hold.path, other and other.holder, other and other.since, rival.way.remaining
                )
            try:
                hold.check_wanted()
            except LeaseLost:
                hold.renounce()  # who gives it back may have been cancelled while it waited for us
                raise
        (done,) = _held([writing_entry], list(hold), "write")
        # A lease that an earlier upgrade got has the token of that turn.
        hold.entry = done if len(todo) == len(done.names) else done.but(settled=before.settled)
        if not await self.book.note([Change(begun.field, as_it_was(begun), hold.entry.encode())]):
            raise lost_file(hold.path, "taken")

    async def release(self, path: Path) -> bool:
        """Give back what the session holds of the file, here or in an earlier process; False if that is nothing."""
        file = await self.office.identify(path)
        for hold in reversed(list(self.held.values())):
            if file.sha256 in hold.entry.names:
                await self.give_back(hold)
                return True
        entries = await self.office.watch(self.book.entries())
        mine = [entry for entry in entries if file.sha256 in entry.names]
        freed = [await self.release_entry(entry) for entry in mine]
        await self.book.forget(mine)
        return any(freed)

    async def release_entry(self, entry: Entry) -> bool:
        """End whatever lease there is behind an entry, whoever got it."""
        return await self.office.attempt("release", entry.path, lambda: self._release_entry(entry))

    async def _release_entry(self, entry: Entry) -> bool:
        engine, store = self.engine, self.office.store
        found = False
        for name in entry.names:
            for token in self.identity.tokens(entry, name):
                ask = partial(store.release, name, token, 0, None)
                answer = await engine.retry(ask, engine.clock.now())
                found = found or answer is DONE
        return found

    async def release_session_locks(self) -> list[str]:
        """Give back everything that the session holds, wherever, and forget what it held and how often it asked."""
        freed: list[str] = []
        for hold in list(self.held.values()):
            with suppress(LeaseLost):  # what is lost is not held either
                await self.give_back(hold)
                freed.append(hold.path)
        entries = await self.office.watch(self.book.entries())
        freed += [entry.path for entry in entries if await self.release_entry(entry)]
        await self.book.forget(entries)
        await self.office.limits.clear(self.session_id)
        _log.info("session %s: %d files released", self.session_id, len(freed))
        return freed

    async def read_file(self, path: Path) -> FileContent:
        """What is in a file that the session holds; remembered, so that a later write can be compared with it."""
        file = await self.office.identify(path)
        hold = self._hold_of(file, "read")

        def read() -> contents.Contents:
            if hold.entry.field not in self._writing:  # it would be our own
                hold.check()
                atomic_write.stop_earlier_writers(file)
            return contents.read(file)

        # Noted here and not in the thread: whoever is cancelled has not seen it.
        try:
            found = await self.office.world.aside(read)
        except NotFound:
            self._seen.note(file, atomic_write.ABSENT)
            raise
        hold.check()
        self._seen.note(file, found.sha256)
        return FileContent(found.data, found.sha256, hold.fence_of(file.sha256))

    async def write_file(self, path: Path, data: bytes) -> str:
        """Replace a file that the session holds for writing; see `leasehold.files.content.atomic_write`."""
        if not isinstance(data, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance] - callers need not type-check
            raise InvalidRequest(f"a file is written with bytes, not {type(data).__name__}")
        file = await self.office.identify(path)
        hold = self._hold_of(file, "write")
        # Asked of the store: another process of this session may have restored the lease, which we would not know.
        await self.office.watch(hold.renew_all(None))

        # Noted in the thread, and at once: whoever is cancelled or loses the lease meanwhile has written all the same.
        def work() -> str:
            return atomic_write.write_atomically(
                file,
                bytes(data),
                check=hold.check,
                seen=self._seen.of(file),
                when_replaced=partial(self._seen.note, file),
            )

        field = hold.entry.field
        self._writing.append(field)
        try:
            return await self.office.world.aside(work)
        finally:
            self._writing.remove(field)

    def _hold_of(self, file: FileId, access: Access) -> H:
        mine = [hold for hold in list(self.held.values()) if file.sha256 in hold.entry.names]
        usable = [hold for hold in mine if access == "read" or hold.mode == "write"]
        if not usable:
            raise InvalidRequest(
                f"session {self.session_id!r} does not hold {file.path!r} for {_DOING[access]}"
            )
        hold = usable[-1]
        hold.check()
        return hold

    def _entries(self, files: Sequence[FileId], access: Access, terms: Terms) -> list[Entry]:
        field, since = secrets.token_hex(8), self.office.now()
        # Links to one file are one: they share a lock, so none of them can be restored or given back by itself.
        linked: dict[str, list[FileId]] = {}
        for file in files:
            linked.setdefault(file.inode_sha256 or file.sha256, []).append(file)
        return [
            Entry(
                f"{field}-{number}",
                links[0].path,
                tuple(dict.fromkeys([*[file.sha256 for file in links], inode])),
                access,
                "asked",
                terms.ttl,
                since,
                self.identity.epoch,
                purpose=terms.purpose,
                links=tuple(file.path for file in links[1:]),
            )
            for number, (inode, links) in enumerate(linked.items())
        ]

    async def _write_down(self, entries: Sequence[Entry], *, instead_of: Sequence[Entry] = ()) -> None:
        await self.book.note(
            [
                *[Change(entry.field, WHATEVER, entry.encode()) for entry in entries],
                *[Change(entry.field, WHATEVER, "") for entry in instead_of],
            ]
        )
