"""Bugs of the document service, planted one at a time to prove that a check fails, each with the steps that show it."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.server.model import TABS
from tests.server.model_row import Save

from leasehold.documents.live import rendering
from leasehold.documents.live.expiry_timers import ExpiryTimers
from leasehold.documents.live.hub import Hub
from leasehold.documents.live.permission_recheck import PermissionRecheck
from leasehold.documents.store import scripts
from leasehold.documents.store.decoding import NAMESPACE
from leasehold.documents.store.fence_registration import FenceRegistration
from leasehold.documents.store.lock_store import DocumentLockStore
from leasehold.server.auth.socket_logout import SocketLogout
from leasehold.server.documents import document_store
from leasehold.valkey.commands import ScriptCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    import pytest
    from tests.server.example import Example

    Plant = Callable[[pytest.MonkeyPatch], None]
    Provoke = Callable[[Example], Coroutine[Any, Any, None]]

ANA, ANA_ELSEWHERE, BOB, _, OLGA, VERA, _ = TABS


def _scripted(name: str, before: str, after: str) -> Plant:
    """Replaces ``before`` by ``after`` in a script."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        script = getattr(scripts, name.upper())
        text = script.source.decode()
        if before not in text:
            raise LookupError(f"{name} no longer contains {before!r}")
        source = text.replace(before, after).encode()
        sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
        verb = ScriptCommand(NAMESPACE, replace(script, source=source, sha=sha))
        run = DocumentLockStore._run

        async def run_planted(lock_store: DocumentLockStore, command: ScriptCommand, *arguments: Any) -> Any:
            return await run(
                lock_store, verb if command is getattr(lock_store, f"_{name}") else command, *arguments
            )

        patch.setattr(DocumentLockStore, "_run", run_planted)

    return plant


async def _another_user_moves(example: Example) -> None:
    await example.acquire(ANA, move=False)
    await example.acquire(BOB, move=True)


async def _the_other_tab_releases(example: Example) -> None:
    await example.acquire(ANA, move=False)
    await example.release(ANA_ELSEWHERE, reason="released")


async def _the_holder_moves_while_it_is_taken(example: Example) -> None:
    await example.acquire(ANA, move=False)
    await example.force_take(OLGA)
    await example.acquire(ANA_ELSEWHERE, move=True)


async def _the_holder_moves(example: Example) -> None:
    await example.acquire(ANA, move=False)
    await example.acquire(ANA_ELSEWHERE, move=True)


async def _a_hold_runs_out(example: Example) -> None:
    await example.connect(VERA, by_ticket=False)
    await example.acquire(ANA, move=False)
    await example.run_out()


async def _the_last_but_one_saves(example: Example) -> None:
    await example.acquire(ANA, move=False)
    fence = example.model.row.fence
    await example.release(ANA, reason="released")
    await example.acquire(BOB, move=False)
    await example.save(Save(ANA, fence, 0, "late"), release=False, reason="released")


async def _the_holder_beats(example: Example) -> None:
    for tab in (ANA, VERA):
        await example.connect(tab, by_ticket=True)
    await example.acquire(ANA, move=False)
    await example.check_sockets()
    await example.beat_by_socket(ANA, idle_for=None)


async def _two_tabs_watch(example: Example) -> None:
    await example.connect(ANA_ELSEWHERE, by_ticket=False)
    await example.acquire(ANA, move=False)


async def _a_watcher_loses_their_role(example: Example) -> None:
    await example.connect(VERA, by_ticket=False)
    await example.set_role("vera", None)


async def _a_watcher_signs_out(example: Example) -> None:
    await example.connect(VERA, by_ticket=False)
    await example.sign_out(VERA)


async def _the_taker_hangs_up(example: Example) -> None:
    await example.acquire(ANA, move=False)
    await example.force_take(OLGA)
    await example.cancel_take(example.model.takes[0])


async def _the_holder_saves_for_the_taker(example: Example) -> None:
    await example.acquire(ANA, move=False)
    await example.force_take(OLGA)
    save = Save(ANA, example.model.row.fence, 0, "in time")
    await example.save(save, release=True, reason="released")


def _an_old_fence_saves(patch: pytest.MonkeyPatch) -> None:
    correct = document_store.reason_to_rescue

    def reason(row: Any, save: Any) -> Any:
        why = correct(row, save)
        return None if why == "stale_fence" else why

    patch.setattr(document_store, "reason_to_rescue", reason)


def _a_draft_is_dropped(patch: pytest.MonkeyPatch) -> None:
    correct = document_store.add_draft

    async def add_draft(session: Any, *arguments: Any) -> Any:
        async with session.begin_nested() as nested:
            kept = await correct(session, *arguments)
            await nested.rollback()
        return kept

    patch.setattr(document_store, "add_draft", add_draft)


def _hub_sends_everything(patch: pytest.MonkeyPatch) -> None:
    def update(hub: Hub, room: Any, state: Any, event: Any = None) -> None:
        known, room.state = room.state, state
        event = event or (known and rendering.infer_event(known, state))
        if event is not None:
            room.broadcast(rendering.EventRenderer(event))

    patch.setattr(Hub, "_update", update)


def _hub_drops_deadlines(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExpiryTimers, "_fire", lambda deadlines, document_id: deadlines._timers.pop(document_id))


def _all_tabs_are_one(patch: pytest.MonkeyPatch) -> None:
    correct = rendering.EventRenderer.for_holder
    patch.setattr(
        rendering.EventRenderer,
        "for_holder",
        lambda told, editor: correct(told, replace(editor, tab=told.tab)),
    )


def _permissions_are_checked_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PermissionRecheck, "change", lambda *_: None)


def _sockets_outlive_logins(patch: pytest.MonkeyPatch) -> None:
    async def end(*_: Any) -> None: ...

    patch.setattr(SocketLogout, "_end", end)


def _nothing_is_undone(patch: pytest.MonkeyPatch) -> None:
    async def undo(registration: FenceRegistration, document_id: str, ask: str) -> None:
        await registration._lock_store.withdraw(document_id, ask=f"not {ask}")

    patch.setattr(FenceRegistration, "undo", undo)


PLANTED: dict[str, tuple[Plant, Provoke]] = {
    "a move takes the lock of any user": (
        _scripted("acquire", "(not is_own or move == '0'", "(move == '0'"),
        _another_user_moves,
    ),
    "a release does not compare the tab": (
        _scripted("release", "hold.user == user and hold.tab == tab", "hold.user == user"),
        _the_other_tab_releases,
    ),
    "a mark does not keep others off": (
        _scripted("acquire", "or move == '0' or hold.taking)", "or move == '0')"),
        _the_holder_moves_while_it_is_taken,
    ),
    "a move keeps the fence": (
        _scripted("acquire", "count = mint(floor)", "count = hold and hold.fence or mint(floor)"),
        _the_holder_moves,
    ),
    "the response to a taker says that nothing was saved": (
        _scripted("release", "saved == '1'", "false"),
        _the_holder_saves_for_the_taker,
    ),
    "a save under an old fence is a version": (_an_old_fence_saves, _the_last_but_one_saves),
    "a draft is dropped": (_a_draft_is_dropped, _the_last_but_one_saves),
    "versions are not compared": (_hub_sends_everything, _the_holder_beats),
    "no timer checks when a hold ends": (_hub_drops_deadlines, _a_hold_runs_out),
    "tabs are not told apart": (_all_tabs_are_one, _two_tabs_watch),
    "a user who loses the role keeps watching": (_permissions_are_checked_once, _a_watcher_loses_their_role),
    "a user who signs out keeps watching": (_sockets_outlive_logins, _a_watcher_signs_out),
    "a mark outlives its taker": (_nothing_is_undone, _the_taker_hangs_up),
}
"""Each bug, how it is planted, and the steps that show it."""

SILENT = {
    "no timer checks when a hold ends",
    "tabs are not told apart",
    "a user who loses the role keeps watching",
    "a user who signs out keeps watching",
    "a mark outlives its taker",
}
"""Bugs that show only by a missing message."""
