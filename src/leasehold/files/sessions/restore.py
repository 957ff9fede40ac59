"""Taking back, after a crash, what a session held: every file for itself, and told as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from leasehold.core.acquire import late_grant, trusted_grant
from leasehold.core.lease import LeaseState
from leasehold.core.multi_lock import acquire_in_turn
from leasehold.core.validation import check_duration
from leasehold.errors import LeaseholdError, LeaseLost, LockBusy
from leasehold.files.sessions.claims import mode_of
from leasehold.files.sessions.conflicts import refusal
from leasehold.files.sessions.context import quietly
from leasehold.files.sessions.held_file import lost_file
from leasehold.files.sessions.session_store import Change

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from leasehold.errors import Holder
    from leasehold.files.sessions.entries import Access, Entry
    from leasehold.files.sessions.held_file import FileHold
    from leasehold.files.sessions.session import SessionCore

L = TypeVar("L", bound=LeaseState)
H = TypeVar("H", bound="FileHold[Any]")

Outcome = Literal["restored", "reacquired", "lost", "failed"]


@dataclass(frozen=True, slots=True)
class Restored(Generic[H]):
    """What became of one file.

    ``restored``: the lease was alive and has the same fence, so nobody else had the file for writing in between.
    ``reacquired``: it had ended; there is a new one with a new fence, and the file may have been changed meanwhile.
    ``lost``: somebody else has the file, ``lost_to``, or another process of this session, which took it over or gave it
    back in this moment; here it is not held. ``failed``: it is not
    known (``error`` says why), and it can be tried again.
    """

    path: str
    mode: Access
    outcome: Outcome
    fence: int | None = None
    lease: H | None = None
    lost_to: Holder | None = None
    error: LeaseholdError | None = None


class Restorer(Generic[L, H]):
    """One restore of one session."""

    def __init__(self, session: SessionCore[L, H], *, timeout: float, renew: bool) -> None:
        check_duration(timeout, "timeout")
        self._session = session
        self._office = session.office
        self._engine = session.engine
        self._timeout = timeout
        self._renew = renew

    async def restore_all(self) -> list[Restored[H]]:
        """A report for each file that the session held elsewhere. What it was only waiting for is forgotten."""
        entries = await self._office.watch(self._session.book.entries())
        todo = [entry for entry in entries if entry.field not in self._session.held]
        reports: dict[str, Restored[H]] = {}

        def one(entry: Entry) -> Coroutine[Any, Any, None]:
            async def work() -> None:
                report: Restored[H] | None
                try:
                    report = await self._office.attempt("restore", entry.path, lambda: self._restore(entry))
                except LockBusy as busy:
                    report = Restored(entry.path, entry.mode, "lost", lost_to=busy.holder, error=busy)
                except LeaseLost as lost:  # another process of the session restores it, too
                    holder: Holder = {"session": self._session.session_id}
                    report = Restored(entry.path, entry.mode, "lost", lost_to=holder, error=lost)
                except LeaseholdError as error:
                    report = Restored(entry.path, entry.mode, "failed", error=error)
                if report is not None:
                    reports[entry.field] = report

            return work()

        await self._office.world.side_by_side([lambda entry=entry: one(entry) for entry in todo])
        return [reports[entry.field] for entry in todo if entry.field in reports]

    async def _restore(self, entry: Entry) -> Restored[H] | None:
        """None if the session never had it."""
        session = self._session
        await self._office.limits.check(session.session_id, "restore")
        begun = entry.next_turn(epoch=session.identity.epoch)
        # Compared: of two processes that restore at once only one goes on from here.
        if not await session.book.note([Change(entry.field, entry.encode(), begun.encode())]):
            if entry.state == "asked":
                return None
            raise lost_file(entry.path, "taken")
        leases: list[L] = []
        try:
            if found := await self._resume(entry, begun, leases):
                (hold,) = await session.take_over([begun], leases, found)
                # One that was got in doubt may be newer than what the session was told of.
                is_same = entry.fence in {None, hold.fence}
                outcome: Outcome = "restored" if is_same else "reacquired"
                return Restored(hold.path, hold.mode, outcome, hold.fence, hold)
            if leases:
                # One of two locks alone is worth nothing. Under new tokens, because these are being taken back.
                self._drop(leases)
                before, begun = begun, begun.next_turn(epoch=session.identity.epoch)
                if not await session.book.note([Change(begun.field, before.encode(), begun.encode())]):
                    raise lost_file(entry.path, "taken")
            if entry.state == "asked":
                await session.book.forget([begun])
                return None
            leases += await self._acquire(begun)
            (hold,) = await session.take_over([begun], leases, entry.mode)
            return Restored(hold.path, hold.mode, "reacquired", hold.fence, hold)
        except BaseException:
            # Not given back: the entry knows of them, so the next restore finds them as long as they last.
            for lease in leases:
                self._engine.abandon(lease)
            raise

    async def _resume(self, entry: Entry, begun: Entry, leases: list[L]) -> Access | None:
        """What the file is held for, if all of its leases are alive; ``leases`` has those that are ours now."""
        engine, store, identity = self._engine, self._office.store, self._session.identity
        own = identity.own([begun])
        modes: set[str] = set()
        for name in entry.names:
            ticket = engine.notifications.new_ticket()
            token, holder = own[name]

            async def ask(name: str = name, token: str = token, ticket: int = ticket) -> Any:
                sent_at = engine.clock.now()
                answer = await store.resume(name, token, ticket, entry.ttl, identity.tokens(entry, name))
                if answer is None:
                    return None
                grant = trusted_grant(answer[0], sent_at, engine.clock.now())
                if grant is None:
                    raise late_grant(name, entry.ttl)
                return grant, answer[1]

            answer = await engine.retry(ask, engine.clock.now())
            if answer is None:
                return None
            grant, mode = answer
            modes.add(mode)
            leases.append(
                engine.new_lease(name, token, ticket, mode, holder, entry.ttl, grant, renew=self._renew)
            )
        # Half an upgrade is none: what is held for writing in part only is held for reading.
        return "write" if modes == {"exclusive"} else "read"

    async def _acquire(self, begun: Entry) -> list[L]:
        engine, session = self._engine, self._session
        try:
            return await acquire_in_turn(
                engine,
                begun.names,
                begun.ttl,
                self._timeout,
                engine.clock.now(),
                mode_of(begun.mode),
                None,
                self._renew,
                owners=session.identity.own([begun]),
            )
        except LockBusy as busy:
            await quietly(session.book.forget([begun]))
            raise refusal(busy, begun.path, session=session.session_id, wait=self._timeout) from busy

    def _drop(self, leases: list[L]) -> None:
        for lease in leases:
            self._engine.release_in_background(lease)
        leases.clear()
