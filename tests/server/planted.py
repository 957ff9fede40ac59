"""Bugs, planted one at a time to see that somebody notices."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leasehold.documents import scripts
from leasehold.documents.live import news
from leasehold.documents.live.deadlines import Deadlines
from leasehold.documents.live.hub import Hub
from leasehold.documents.live.rights import Rights
from leasehold.documents.registrar import Registrar
from leasehold.server import document_store, saving
from leasehold.server.sign_outs import SignOuts

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def _rewrite(patch: pytest.MonkeyPatch, name: str, before: str, after: str) -> None:
    script = getattr(scripts, name)
    source = script.source.decode()
    assert before in source, f"{name} does not say {before!r} any more"
    source = source.replace(before, after).encode()
    sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
    patch.setattr(scripts, name, replace(script, source=source, sha=sha))


def move_takes_from_anybody(patch: pytest.MonkeyPatch) -> None:
    _rewrite(patch, "ACQUIRE", "(not is_own or move == '0' or hold.taking)", "(move == '0' or hold.taking)")


def release_gives_back_other_tabs(patch: pytest.MonkeyPatch) -> None:
    _rewrite(patch, "RELEASE", "hold.user == user and hold.tab == tab", "hold.user == user")


def a_mark_stops_nobody(patch: pytest.MonkeyPatch) -> None:
    _rewrite(patch, "ACQUIRE", "or move == '0' or hold.taking)", "or move == '0')")


def a_move_keeps_the_fence(patch: pytest.MonkeyPatch) -> None:
    _rewrite(
        patch, "ACQUIRE", "local count = mint(floor)", "local count = hold and hold.fence or mint(floor)"
    )


def an_expiry_is_called_a_release(patch: pytest.MonkeyPatch) -> None:
    for name in ("INSPECT", "TAKE", "ACQUIRE", "HISTORY", "HEARTBEAT", "RELEASE"):
        _rewrite(patch, name, "'expired'", "'released'")


def an_old_fence_saves(patch: pytest.MonkeyPatch) -> None:
    honest = saving.reason_to_rescue

    def reason(row: Any, save: Any) -> Any:
        why = honest(row, save)
        return None if why == "stale_fence" and save.base_version == row.version else why

    for module in (saving, document_store):
        if hasattr(module, "reason_to_rescue"):
            patch.setattr(module, "reason_to_rescue", reason)


def a_draft_is_dropped(patch: pytest.MonkeyPatch) -> None:
    honest = saving.rescue

    async def rescue(session: Any, *arguments: Any) -> Any:
        async with session.begin_nested() as nested:
            kept = await honest(session, *arguments)
            await nested.rollback()
        return kept

    for module in (saving, document_store):
        if hasattr(module, "rescue"):
            patch.setattr(module, "rescue", rescue)


def sockets_are_told_what_they_know(patch: pytest.MonkeyPatch) -> None:
    def learn(hub: Hub, state: Any, event: Any = None) -> None:
        room = hub._rooms.get(state.document_id)
        if room is None:
            return
        known, room.state = room.state, state
        hub._deadlines.set(state)
        event = event or (known and news.between(known, state))
        if event is not None:
            room.tell(news.News(event))

    patch.setattr(Hub, "learn", learn)


def nobody_looks_when_a_hold_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deadlines, "_fire", lambda deadlines, document_id: deadlines._timers.pop(document_id))


def every_tab_of_the_holder_is_told_it_holds(patch: pytest.MonkeyPatch) -> None:
    honest = news.News.for_holder

    def for_holder(told: Any, editor: Any) -> str:
        return honest(told, replace(editor, tab=told.tab))

    patch.setattr(news.News, "for_holder", for_holder)


def rights_are_asked_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Rights, "change", lambda *_: None)


def signing_out_leaves_the_socket(patch: pytest.MonkeyPatch) -> None:
    async def end(*_: Any) -> None: ...

    patch.setattr(SignOuts, "_end", end)


def a_mark_stays_when_the_taker_goes(patch: pytest.MonkeyPatch) -> None:
    async def undo(registrar: Registrar, document_id: str, ask: str) -> None:
        await registrar._ledger.withdraw(document_id, ask=f"not {ask}")

    patch.setattr(Registrar, "undo", undo)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    plant.__name__.replace("_", " "): plant
    for plant in (
        move_takes_from_anybody,
        release_gives_back_other_tabs,
        a_mark_stops_nobody,
        a_move_keeps_the_fence,
        an_expiry_is_called_a_release,
        an_old_fence_saves,
        a_draft_is_dropped,
        sockets_are_told_what_they_know,
        nobody_looks_when_a_hold_ends,
        every_tab_of_the_holder_is_told_it_holds,
        rights_are_asked_once,
        signing_out_leaves_the_socket,
        a_mark_stays_when_the_taker_goes,
    )
}
