"""The locks of documents, for people who edit them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Literal

from leasehold.core.replies import NotReplicated
from leasehold.core.validation import MAX_NAME_BYTES, check_duration, check_name
from leasehold.documents.access_control import may
from leasehold.documents.force_take import ForceTake
from leasehold.documents.observed import observe_as, report_release
from leasehold.documents.outcomes import Busy, Granted, SaveAnswer
from leasehold.documents.ports import Saved
from leasehold.documents.store.events import EventBus
from leasehold.documents.store.fence_registration import FenceRegistration, floor_after
from leasehold.documents.store.lock_store import DocumentLockStore
from leasehold.documents.timings import Times
from leasehold.errors import InvalidRequest, StaleFence, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from leasehold.client import Client
    from leasehold.documents.ports import Access, DocumentStore, Save
    from leasehold.documents.state import Editor, Event, Hold, LockState


class DocumentLocks:
    """Locks for people who edit documents. No verb waits for a lock, except a force-take for a few seconds.

    Permissions and identities are checked by the caller (`leasehold.documents.access_control`).
    Every verb raises `leasehold.StoreUnavailable` if the outcome is unknown.
    """

    def __init__(self, locks: Client, store: DocumentStore, *, times: Times | None = None) -> None:
        self.times = times or Times()
        self.lookout = locks.lookout
        self._store = store
        self._lock_store = DocumentLockStore(locks.store_access.transport, self.times)
        self._registration = FenceRegistration(self._lock_store, store)
        self._events = EventBus(locks.store_access.transport)

    @observe_as("acquire")
    async def acquire(self, document_id: str, editor: Editor, *, move: bool = False) -> Granted | Busy:
        """Acquire the lock if it is free, or extend it if the editor holds it already (with the same fence).

        ``move`` also moves it from another tab of the same person, with a new fence.
        """
        _check(document_id, editor)
        ask = _new_ask()
        floor = 0
        try:
            while True:
                verdict, state = await self._lock_store.acquire(
                    document_id, editor, ask=ask, floor=floor, move=move
                )
                if verdict == "busy":
                    return Busy(state)
                try:
                    return Granted(state, await self._registration.register(state, editor))
                except StaleFence as stale:
                    floor = floor_after(stale, floor)
        except BaseException as error:
            # Without a reply, a repeated call gets what this one may have got.
            if isinstance(error, NotReplicated) or not isinstance(error, StoreUnavailable):
                await self._registration.undo(document_id, ask)
            raise

    @observe_as("renew")
    async def heartbeat(
        self, document_id: str, editor: Editor, *, idle_for: float | None = None
    ) -> tuple[bool, LockState]:
        """Extend the editor's hold; returns whether it exists, and the state. Never re-creates one that has ended."""
        _check(document_id, editor)
        if idle_for:
            check_duration(idle_for, "idle_for")
        verdict, state = await self._lock_store.heartbeat(document_id, editor, idle_for=idle_for)
        return verdict == "extended", state

    @observe_as("release")
    async def release(
        self, document_id: str, editor: Editor, *, reason: Literal["released", "idle"] = "released"
    ) -> LockState:
        """Release the editor's own hold, if there is one; returns the state afterwards."""
        _check(document_id, editor)
        verdict, state = await self._lock_store.release(document_id, editor, reason=reason)
        if verdict == "released":
            report_release(self.lookout, state)
        return state

    @observe_as("take")
    async def force_take(self, document_id: str, taker: Editor) -> Granted | Busy:
        """Ask the holder to save, wait for that at most ``times.save_within``, and take the lock.

        `Busy` if another editor got it first. If this call is cancelled the holder keeps the lock.
        """
        _check(document_id, taker)
        await self._events.subscribe()
        ask = _new_ask()
        take = ForceTake(self._lock_store, self._registration, document_id, taker, ask=ask, times=self.times)
        outcome = None
        try:
            with self._events.watch(document_id) as changed:
                outcome = await take.run(changed)
                return outcome
        finally:
            if not isinstance(outcome, Granted):
                await self._registration.undo(document_id, ask)

    @observe_as("inspect")
    async def state(self, document_id: str) -> LockState:
        """The current state."""
        return await self._lock_store.inspect(check_name(document_id))

    async def states(self, document_ids: Sequence[str]) -> list[LockState]:
        """The current state of each. One that cannot be read is left out and logged."""
        return await self._lock_store.inspect_many([check_name(document_id) for document_id in document_ids])

    async def history(self, document_id: str, *, limit: int = 50) -> list[Hold]:
        """The holds of the document, newest first."""
        if not 1 <= limit <= 200:
            raise InvalidRequest(f"limit must be from 1 to 200, not {limit!r}")
        return await self._lock_store.history(check_name(document_id), limit=limit)

    @observe_as("save")
    async def save(
        self, save: Save, *, release: bool = False, reason: Literal["released", "idle"] = "released"
    ) -> SaveAnswer:
        """Save the editor's content, and release the lock with it if ``release``.

        Once the content is saved this returns, whatever becomes of the lock: only errors of the document store
        are raised.
        """
        _check(save.document_id, save.editor)
        outcome = await self._store.save(save)
        try:
            lock_lost = await self._check_lock(
                save, release=release, reason=reason, is_saved=isinstance(outcome, Saved)
            )
        except StoreError:
            lock_lost = None  # the content is saved, whatever became of the lock
        return SaveAnswer(outcome, lock_lost)

    def listen(self, hear: Callable[[Event], None], resumed: Callable[[], None]) -> Callable[[], None]:
        """Call ``hear`` with every change of every document, from any process; and ``resumed`` after every gap,
        when changes may have been missed. Returns a function that ends it. Events are hints: they may be lost or come
        twice.

        ``resumed`` is also called once subscribed, and every second where pub/sub is not available (`from_client`).
        """
        return self._events.listen(hear, resumed)

    async def _check_lock(self, save: Save, *, release: bool, reason: str, is_saved: bool) -> bool:
        """The lock of the save has been lost; else it is released if ``release``."""
        if not release:
            state = await self._lock_store.inspect(save.document_id)
            return not state.is_held_by(save.editor) or state.version.fence != save.fence
        reply = await self._lock_store.release(
            save.document_id, save.editor, reason=reason, fence=save.fence, saved=is_saved
        )
        if reply.verdict == "released":
            report_release(self.lookout, reply.state)
            return False
        if not is_saved:
            return True
        # Repeated after a lost reply: it was released by the first call, and others may have held it since.
        past = await self._lock_store.history(save.document_id, limit=200)
        return not any(hold.fence == save.fence and hold.reason in {"released", "idle"} for hold in past)


async def heartbeat_as(
    access: Access, documents: DocumentLocks, document_id: str, editor: Editor, *, idle_for: float | None
) -> tuple[bool, LockState]:
    """As `DocumentLocks.heartbeat` for editors; viewers only get the state, and the hold of a former editor expires."""
    if may(access, "editor"):
        return await documents.heartbeat(document_id, editor, idle_for=idle_for)
    return False, await documents.state(document_id)


def _check(document_id: str, editor: Editor) -> None:
    """Refuse texts that cannot be stored."""
    check_name(document_id)
    for text in (editor.user_id, editor.user_name, editor.tab):
        try:
            size = len(text.encode())
        except UnicodeEncodeError as error:
            raise InvalidRequest(
                "an editor's fields must be valid Unicode, without lone surrogates"
            ) from error
        if size > MAX_NAME_BYTES:
            raise InvalidRequest(f"an editor's fields may take {MAX_NAME_BYTES} bytes each, not {size}")


def _new_ask() -> str:
    """An id for one call, by which the store tells its effects from those of others, to undo them."""
    return secrets.token_hex(8)
