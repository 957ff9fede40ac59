"""Restores, after a crash, the files that a session held: each by itself, with a report of its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from leasehold.core.acquire import late_grant, trusted_grant
from leasehold.core.leases.lease import LeaseState
from leasehold.core.multi_lock import acquire_in_turn
from leasehold.core.validation import check_duration
from leasehold.errors import LeaseholdError, LeaseLost, LockBusy
from leasehold.files.sessions.acquire import record_held
from leasehold.files.sessions.claims import lock_mode
from leasehold.files.sessions.conflicts import busy_error
from leasehold.files.sessions.context import ignore_failure
from leasehold.files.sessions.held_file import lost_file
from leasehold.files.sessions.session_store import EntryChange

if TYPE_CHECKING:
    from leasehold.errors import Holder
    from leasehold.files.sessions.entries import Access, Entry
    from leasehold.files.sessions.held_file import HeldFile
    from leasehold.files.sessions.session import SessionCore

L = TypeVar("L", bound=LeaseState)
H = TypeVar("H", bound="HeldFile[Any]")

Outcome = Literal["restored", "reacquired", "lost", "failed"]


@dataclass(frozen=True, slots=True)
class Restored(Generic[H]):
    """The outcome for one file.

    ``restored``: the lease was alive and has the same fence, so no other session had the file for writing in between.
    ``reacquired``: it had ended; there is a new one with a new fence, and the file may have been changed in between.
    ``lost``: another session has the file (``lost_to``), or another process of this session, which took it over or
    released it at this moment; here it is not held. ``failed``: it is not known (``error`` says why); try again.
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
        self._context = session.context
        self._engine = session.engine
        self._timeout = timeout
        self._renew = renew

    async def restore_all(self) -> list[Restored[H]]:
        """A report for each file that the session held elsewhere. Entries it was only waiting for are removed."""
        entries = await self._context.watch_outage(self._session.store.entries())
        todo = [entry for entry in entries if entry.field not in self._session.held]
        reports = await self._engine.concurrency.gather([self._report(entry) for entry in todo])
        return [report for report in reports if report is not None]

    async def _report(self, entry: Entry) -> Restored[H] | None:
        try:
            return await self._context.run_attempt("restore", entry.path, lambda: self._restore(entry))
        except LockBusy as busy:
            return Restored(entry.path, entry.mode, "lost", lost_to=busy.holder, error=busy)
        except LeaseLost as lost:  # another process of the session restores it, too
            holder: Holder = {"session": self._session.session_id}
            return Restored(entry.path, entry.mode, "lost", lost_to=holder, error=lost)
        except LeaseholdError as error:
            return Restored(entry.path, entry.mode, "failed", error=error)

    async def _restore(self, entry: Entry) -> Restored[H] | None:
        """The report for one entry; None if the session never had the file."""
        session = self._session
        await self._context.limits.check(session.session_id, "restore")
        begun = entry.next_turn(epoch=session.identity.epoch)
        # Compared: of two processes that restore at the same time only one goes on from here.
        if not await session.store.change([EntryChange(entry.field, entry.encode(), begun.encode())]):
            if entry.state == "asked":
                return None
            raise lost_file(entry.path, "taken")
        leases: list[L] = []
        try:
            if found := await self._resume(entry, begun, leases):
                (hold,) = await record_held(session, [begun], leases, found)
                # A lease that was granted without a reply may be newer than the fence that the session knows.
                is_same = entry.fence in {None, hold.fence}
                outcome: Outcome = "restored" if is_same else "reacquired"
                return Restored(hold.path, hold.mode, outcome, hold.fence, hold)
            if leases:
                # One of two locks alone is worth nothing. With new tokens, because these are being released.
                self._drop(leases)
                before, begun = begun, begun.next_turn(epoch=session.identity.epoch)
                change = EntryChange(begun.field, before.encode(), begun.encode())
                if not await session.store.change([change]):
                    raise lost_file(entry.path, "taken")
            if entry.state == "asked":
                await session.store.remove([begun])
                return None
            leases += await self._acquire(begun)
            (hold,) = await record_held(session, [begun], leases, entry.mode)
            return Restored(hold.path, hold.mode, "reacquired", hold.fence, hold)
        except BaseException:
            # Not released: the entry shows them, so the next restore finds them as long as they last.
            for lease in leases:
                self._engine.abandon(lease)
            raise

    async def _resume(self, entry: Entry, begun: Entry, leases: list[L]) -> Access | None:
        """The access that the file is held for, if all of its leases are alive; adds those taken over to ``leases``."""
        engine, lock_store, identity = self._engine, self._context.lock_store, self._session.identity
        own = identity.own([begun])
        modes: set[str] = set()
        for name in entry.names:
            ticket = engine.notifications.new_ticket()
            token, holder = own[name]

            async def ask(name: str = name, token: str = token, ticket: int = ticket) -> Any:
                sent_at = engine.clock.now()
                old_tokens = identity.possible_tokens(entry, name)
                reply = await lock_store.resume(name, token, ticket, entry.ttl, old_tokens)
                if reply is None:
                    return None
                grant = trusted_grant(reply[0], sent_at, engine.clock.now())
                if grant is None:
                    raise late_grant(name, entry.ttl)
                return grant, reply[1]

            reply = await engine.retry(ask, engine.clock.now())
            if reply is None:
                return None
            grant, mode = reply
            modes.add(mode)
            leases.append(
                engine.new_lease(name, token, ticket, mode, holder, entry.ttl, grant, renew=self._renew)
            )
        # An upgrade that was done in part does not count: the file is held for reading.
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
                lock_mode(begun.mode),
                None,
                self._renew,
                owners=session.identity.own([begun]),
            )
        except LockBusy as busy:
            await ignore_failure(session.store.remove([begun]))
            raise busy_error(busy, begun.path, session=session.session_id, wait=self._timeout) from busy

    def _drop(self, leases: list[L]) -> None:
        for lease in leases:
            self._engine.release_in_background(lease)
        leases.clear()
