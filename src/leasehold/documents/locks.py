"""The locks of documents: the verbs of people who edit."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Literal

from leasehold.core.validation import MAX_NAME_BYTES, check_duration, check_name
from leasehold.documents.force_take import ForceTake
from leasehold.documents.observed import tell_end, watched
from leasehold.documents.outcomes import Busy, Granted, SaveAnswer
from leasehold.documents.ports import Saved
from leasehold.documents.store.events import Bulletin
from leasehold.documents.store.fence_registration import Registrar, above
from leasehold.documents.store.lock_store import Ledger
from leasehold.documents.timings import Times
from leasehold.errors import InvalidRequest, StaleFence, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.client import Client
    from leasehold.documents.ports import DocumentStore, Save
    from leasehold.documents.state import Editor, Event, Hold, LockState

__all__ = ["Busy", "DocumentLocks", "Granted", "SaveAnswer"]


class DocumentLocks:
    """Locks for people who edit documents. Nobody waits: every verb answers now, but for a force-take's few seconds.

    Who may do what is asked before (`leasehold.documents.access_control`); here everybody is who they say they are.
    Every verb raises `leasehold.StoreUnavailable` if the outcome is unknown.
    """

    def __init__(self, locks: Client, store: DocumentStore, *, times: Times | None = None) -> None:
        self.times = times or Times()
        self.lookout = locks.lookout
        self._store = store
        self._ledger = Ledger(locks.store_access.transport, self.times)
        self._registrar = Registrar(self._ledger, store)
        self._bulletin = Bulletin(locks.store_access.transport)

    @watched("acquire")
    async def acquire(self, document_id: str, editor: Editor, *, move: bool = False) -> Granted | Busy:
        """Hold the lock, if it is free or the editor's already (then it is extended, with the same fence).

        ``move`` also takes it over from another tab of the same person, with a new fence.
        """
        _check(document_id, editor)
        ask = _new_ask()
        floor = 0
        try:
            while True:
                verdict, state = await self._ledger.acquire(
                    document_id, editor, ask=ask, floor=floor, move=move
                )
                if verdict == "busy":
                    return Busy(state)
                try:
                    return Granted(state, await self._registrar.register(state, editor))
                except StaleFence as stale:
                    floor = above(stale, floor)
        except StoreUnavailable:
            raise  # whoever asks again gets what this call may have got
        except BaseException:
            await self._registrar.undo(document_id, ask)
            raise

    @watched("renew")
    async def heartbeat(
        self, document_id: str, editor: Editor, *, idle_for: float | None = None
    ) -> tuple[bool, LockState]:
        """Extend the editor's hold; whether there was one, and the state. Never re-creates one that has ended."""
        _check(document_id, editor)
        if idle_for:
            check_duration(idle_for, "idle_for")
        verdict, state = await self._ledger.heartbeat(document_id, editor, idle_for=idle_for)
        return verdict == "extended", state

    @watched("release")
    async def release(
        self, document_id: str, editor: Editor, *, reason: Literal["released", "idle"] = "released"
    ) -> LockState:
        """Give back the editor's own hold, if there is one; the state afterwards."""
        _check(document_id, editor)
        verdict, state = await self._ledger.release(document_id, editor, reason=reason)
        if verdict == "released":
            tell_end(self.lookout, state)
        return state

    @watched("take")
    async def force_take(self, document_id: str, taker: Editor) -> Granted | Busy:
        """Ask the holder to save, wait for that at most ``times.save_within``, and take the lock.

        `Busy` names who was faster. If this call is cancelled the holder keeps the lock.
        """
        _check(document_id, taker)
        await self._bulletin.open()
        ask = _new_ask()
        take = ForceTake(self._ledger, self._registrar, document_id, taker, ask=ask, times=self.times)
        outcome = None
        try:
            with self._bulletin.watch(document_id) as news:
                outcome = await take.run(news)
                return outcome
        finally:
            if not isinstance(outcome, Granted):
                await self._registrar.undo(document_id, ask)

    @watched("inspect")
    async def state(self, document_id: str) -> LockState:
        """What is true now."""
        return await self._ledger.inspect(check_name(document_id))

    async def states(self, document_ids: Sequence[str]) -> list[LockState]:
        """What is true now of each. One that cannot be read is left out, with a word in the log."""
        return await self._ledger.inspect_many([check_name(document_id) for document_id in document_ids])

    async def history(self, document_id: str, *, limit: int = 50) -> list[Hold]:
        """Who held it, newest first."""
        if not 1 <= limit <= 200:
            raise InvalidRequest(f"limit must be from 1 to 200, not {limit!r}")
        return await self._ledger.history(check_name(document_id), limit=limit)

    @watched("save")
    async def save(
        self, save: Save, *, release: bool = False, reason: Literal["released", "idle"] = "released"
    ) -> SaveAnswer:
        """Keep what the editor wrote, and give the lock back with it if ``release``.

        Once it is kept this says so, whatever becomes of the lock: only what the document store raises comes out.
        """
        _check(save.document_id, save.editor)
        outcome = await self._store.save(save)
        try:
            lock_lost = await self._look_after(
                save, release=release, reason=reason, is_saved=isinstance(outcome, Saved)
            )
        except StoreError:
            lock_lost = None  # what is saved is saved, whatever became of the lock
        return SaveAnswer(outcome, lock_lost)

    def listen(self, hear: Callable[[Event], None], resumed: Callable[[], None]) -> Callable[[], None]:
        """Have ``hear`` called with every change of every document, from any process; and ``resumed`` after every
        gap, when changes may have been missed. Returns what ends it. Events are hints: they may be lost or come twice.

        ``resumed`` is also called as soon as changes can be heard, and every second where they cannot (`from_client`).
        """
        return self._bulletin.listen(hear, resumed)

    async def _look_after(self, save: Save, *, release: bool, reason: str, is_saved: bool) -> bool:
        """Whether the lock that was saved under has been lost; it is given back if ``release``."""
        if not release:
            state = await self._ledger.inspect(save.document_id)
            return not state.is_held_by(save.editor) or state.version.fence != save.fence
        answer = await self._ledger.release(
            save.document_id, save.editor, reason=reason, fence=save.fence, saved=is_saved
        )
        if answer.verdict == "released":
            tell_end(self.lookout, answer.state)
            return False
        if not is_saved:
            return True
        # Asked again after a lost reply, it has been given back before; others may have held it since.
        past = await self._ledger.history(save.document_id, limit=200)
        return not any(hold.fence == save.fence and hold.reason in {"released", "idle"} for hold in past)


def _check(document_id: str, editor: Editor) -> None:
    """Refuse what cannot be written down."""
    check_name(document_id)
    for text in (editor.user_id, editor.user_name, editor.tab):
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                "an editor's texts must be valid Unicode, without lone surrogates"
            ) from error
        if size > MAX_NAME_BYTES:
            raise InvalidRequest(f"an editor's texts may take {MAX_NAME_BYTES} bytes each, not {size}")


def _new_ask() -> str:
    """What one call is known by to the store, so that what it brought about can be told from everything else."""
    return secrets.token_hex(8)
