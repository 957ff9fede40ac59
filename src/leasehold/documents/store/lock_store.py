"""The verbs of document locks in Valkey: each is one script call that can be repeated."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal, NamedTuple

from leasehold.core.validity import to_ms
from leasehold.documents.store import scripts
from leasehold.documents.store.decoding import NAMESPACE, read_hold, read_state
from leasehold.errors import StoreRefused, StoreUnavailable
from leasehold.valkey.commands import ScriptCommand
from leasehold.valkey.script_runner import ScriptRunner
from leasehold.valkey.transport.protocols import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from leasehold.documents.state import Editor, Hold, LockState
    from leasehold.documents.timings import Times
    from leasehold.valkey.transport.protocols import Reply, Transport, Word

    Verdict = Literal[
        "granted", "busy", "extended", "lost", "released", "asked", "saved", "unsaved", "withdrawn", "gone"
    ]

_log = logging.getLogger("leasehold.documents")


class ScriptReply(NamedTuple):
    """The decision of a script, and the state that it left."""

    verdict: Verdict
    state: LockState


class DocumentLockStore:
    """Runs the scripts of document locks.

    A call whose reply was lost is repeated once: every verb gives the same reply twice. `StoreUnavailable` means that
    the repeated call had no reply either.
    """

    def __init__(self, wire: Transport, times: Times) -> None:
        self._runner = ScriptRunner(wire)
        self._ttl_ms = to_ms(times.ttl)
        self._save_ms = to_ms(times.save_within)
        self._acquire = ScriptCommand(NAMESPACE, scripts.ACQUIRE)
        self._heartbeat = ScriptCommand(NAMESPACE, scripts.HEARTBEAT)
        self._release = ScriptCommand(NAMESPACE, scripts.RELEASE)
        self._take = ScriptCommand(NAMESPACE, scripts.TAKE)
        self._claim = ScriptCommand(NAMESPACE, scripts.CLAIM)
        self._withdraw = ScriptCommand(NAMESPACE, scripts.WITHDRAW)
        self._inspect = ScriptCommand(NAMESPACE, scripts.INSPECT)
        self._history = ScriptCommand(NAMESPACE, scripts.HISTORY)

    async def acquire(
        self, document_id: str, editor: Editor, *, ask: str, floor: int, move: bool
    ) -> ScriptReply:
        """``granted`` or ``busy``; ``ask`` identifies the call, to withdraw its grant."""
        who = (editor.user_id, editor.user_name, editor.tab)
        return await self._decide(self._acquire, document_id, ask, *who, self._ttl_ms, floor, int(move))

    async def heartbeat(self, document_id: str, editor: Editor, *, idle_for: float | None) -> ScriptReply:
        """``extended`` or ``lost``."""
        idle_ms = "" if idle_for is None else str(to_ms(idle_for))
        return await self._decide(
            self._heartbeat, document_id, idle_ms, editor.user_id, editor.tab, self._ttl_ms
        )

    async def release(
        self, document_id: str, editor: Editor, *, reason: str, fence: int | None = None, saved: bool = False
    ) -> ScriptReply:
        """``released`` or ``lost``; with ``fence`` only the hold of that fence."""
        own_fence = "" if fence is None else str(fence)
        who = (editor.user_id, editor.tab)
        return await self._decide(self._release, document_id, own_fence, *who, reason, int(saved))

    async def take(
        self, document_id: str, taker: Editor, *, ask: str, floor: int, expect_fence: int | None
    ) -> ScriptReply:
        """``granted``, ``saved`` or ``unsaved`` (handed over, to be claimed), ``asked``, or ``busy``."""
        who = (taker.user_id, taker.user_name, taker.tab)
        expected = "" if expect_fence is None else expect_fence
        return await self._decide(
            self._take, document_id, ask, *who, self._ttl_ms, floor, self._save_ms, expected
        )

    async def claim(self, document_id: str, *, ask: str) -> ScriptReply:
        """``granted``, or ``busy`` if the claim came too late."""
        return await self._decide(self._claim, document_id, ask, self._ttl_ms)

    async def withdraw(self, document_id: str, *, ask: str) -> ScriptReply:
        """``withdrawn``, or ``gone`` if nothing was left to withdraw."""
        return await self._decide(self._withdraw, document_id, ask)

    async def inspect(self, document_id: str) -> LockState:
        """The current state."""
        return read_state(document_id, await self._run(self._inspect, document_id))

    async def inspect_many(self, document_ids: Sequence[str]) -> list[LockState]:
        """The current states; a lock that cannot be read is left out and logged."""
        calls = [Call(self._inspect, document_id, ()) for document_id in document_ids]
        replies = await self._runner.run_many(calls)
        if any(isinstance(reply, StoreUnavailable) for reply in replies):
            replies = await self._runner.run_many(calls)
        found: list[LockState] = []
        for document_id, reply in zip(document_ids, replies, strict=True):
            try:
                self._runner.raise_if_error(reply)
            except StoreRefused as refusal:
                _log.warning("the lock of %r cannot be read: %s", document_id, refusal)
            else:
                found.append(read_state(document_id, reply))
        return found

    async def history(self, document_id: str, *, limit: int) -> list[Hold]:
        """The holds of the document, newest first."""
        return [read_hold(entry) for entry in await self._run(self._history, document_id, str(limit))]

    async def _decide(self, verb: ScriptCommand, document_id: str, *arguments: Word) -> ScriptReply:
        verdict, state = await self._run(verb, document_id, *arguments)
        return ScriptReply(verdict.decode(), read_state(document_id, state))

    async def _run(self, verb: ScriptCommand, document_id: str, *arguments: Word) -> Reply:
        try:
            return await self._runner.run(verb, document_id, *arguments)
        except StoreUnavailable:
            return await self._runner.run(verb, document_id, *arguments)
