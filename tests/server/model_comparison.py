"""Compares the service with the model: locks, responses, messages, the history, and the rows in the database."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tests.server.model import NO_HOLD, Answer, Model, Tab

from leasehold.documents.state import Editor

if TYPE_CHECKING:
    import httpx
    from tests.server.browser import WatchingSocket

STATUS = {
    "ok": 200,
    "not_signed_in": 401,
    "not_allowed": 403,
    "lock_busy": 409,
    "lease_lost": 409,
    "save_rescued": 409,
}
# The service and the test round the same clock differently.
_ROUNDING = 0.05


class ModelComparison:
    """Compares one example's model with the service's responses. ``ids`` maps a user's name to the id."""

    def __init__(self, model: Model, document_id: str, ids: dict[str, str]) -> None:
        self._model = model
        self._document_id = document_id
        self._ids = ids
        self._began_at = time.time()

    def check_answer(self, tab: Tab, expected: Answer, answer: httpx.Response) -> dict[str, Any]:
        """Checks status and code of a response to any verb, and returns its body."""
        seen = (
            f"{answer.request.method} {answer.request.url.path} by {tab}: {answer.status_code} {answer.text}"
        )
        assert answer.status_code == STATUS[expected.code], f"{seen}\nnot {expected}"
        body = answer.json()
        if expected.code != "ok":
            assert answer.headers["content-type"] == "application/problem+json", seen
            assert body["code"] == body["type"] == expected.code, seen
        if expected.code in {"lock_busy", "lease_lost"}:
            self.check_holder(tab, body.get("lock_holder"))
        return body

    def check_grant(self, tab: Tab, expected: Answer, body: dict[str, Any]) -> None:
        """Checks the grant of a lock that the caller now holds."""
        self._model.set_fence(int(body["fence"]))
        assert body["fence"] == body["version"]["fence"], body
        assert body["content_version"] == self._model.row.version, body
        assert body.get("saved") is expected.saved, body
        self.check_lock(tab, body)

    def check_lock(self, tab: Tab, lock: dict[str, Any]) -> None:
        """Checks a lock state that this tab received."""
        model, hold = self._model, self._model.hold
        assert lock["document_id"] == self._document_id, lock
        assert lock["locked"] == (hold is not None), (lock, hold)
        self.check_holder(tab, lock["lock_holder"])
        fence, step = int(lock["version"]["fence"]), lock["version"]["step"]
        assert (fence, step) == (model.version or (fence, NO_HOLD)), (lock, model.version)
        assert (lock["expires_in"] is None) == (hold is None), lock
        if not model.takes:
            assert lock["taking"] is None, lock
            return
        taker = model.takes[0].tab.user
        actual = lock["taking"] or {}
        assert (actual.get("user_id"), actual.get("user_name")) == (self._ids[taker], taker.title()), lock

    def check_holder(self, tab: Tab, holder: dict[str, Any] | None) -> None:
        """Checks the lock holder that this tab received."""
        hold = self._model.hold
        if hold is None:
            assert holder is None, holder
            return
        assert holder is not None, f"held by {hold.tab}, but the response to {tab} names no holder"
        user = hold.tab.user
        assert (holder["user_id"], holder["user_name"]) == (self._ids[user], user.title()), (holder, hold)
        assert holder["same_user"] == (tab.user == user), (tab, holder, hold)
        assert holder["tab_is_mine"] == (tab == hold.tab), (tab, holder, hold)

    def check_idleness(self, holder: dict[str, Any] | None) -> None:
        """Checks since when the holder is idle: only responses contain it, messages do not."""
        hold = self._model.hold
        if hold is None or holder is None:
            return
        idle_since = holder.get("idle_since")
        assert (idle_since is None) == (hold.idle_for is None), (holder, hold)
        if hold.idle_for is not None:
            began_at, now = self._began_at - hold.idle_for, time.time() - hold.idle_for
            assert began_at - _ROUNDING <= idle_since <= now + _ROUNDING, (holder, hold)

    def check_history(self, holds: list[dict[str, Any]]) -> None:
        """Checks every hold, and the reason for its end."""
        actual = [
            (
                hold["user_id"],
                hold["user_name"],
                int(hold["fence"]),
                hold["reason"],
                (hold["ended_by"] or {}).get("user_id"),
            )
            for hold in holds
        ]
        expected = [
            (
                self._ids[past.user],
                past.user.title(),
                past.fence,
                past.reason,
                past.ended_by and self._ids[past.ended_by],
            )
            for past in self._model.history
        ]
        assert actual == expected, f"\n{actual}\n{expected}"
        for hold in holds:
            assert (hold["ended_at"] is None) == (hold["reason"] is None), hold
            assert (
                self._began_at - _ROUNDING
                <= hold["acquired_at"]
                <= (hold["ended_at"] or time.time()) + _ROUNDING
            )

    def check_socket(self, tab: Tab, watching: WatchingSocket) -> None:
        """Checks the state that a page of this tab shows, and its last message."""
        self.check_lock(tab, watching.lock)
        change, event = watching.change, self._model.event
        if change is None:
            return
        assert event is not None, change
        assert change["type"] == event.kind, (change, event)
        assert (change["triggered_by"] or {}).get("user_id") == (event.by and self._ids[event.by]), (
            change,
            event,
        )
        if event.kind == "document_force_taken":
            # Null from a worker that derived the take from a later state.
            assert change["saved"] in {event.saved, None}, (change, event)

    def check_rows(
        self, document: tuple[Any, ...], versions: list[tuple[Any, ...]], drafts: list[tuple[Any, ...]]
    ) -> None:
        """Checks that every acknowledged text is there, once, and nothing else."""
        row, ids = self._model.row, self._ids
        number, content, fence, user_id, tab = document
        editor = row.tab and Editor.at_tab(ids[row.tab.user], "", row.tab.name)
        holder = (None, None) if editor is None else (editor.user_id, editor.tab)
        actual: Any = (number, json.loads(content), fence, user_id, tab)
        expected: Any = (row.version, row.content, row.fence, *holder)
        assert actual == expected, f"\n{actual}\n{expected}"

        actual = [(number, json.loads(text), author, fence) for number, text, author, fence in versions]
        expected = [
            (number, save.content, ids[save.tab.user], save.fence)
            for number, save in enumerate(row.versions, start=1)
        ]
        assert actual == expected, f"versions\n{actual}\n{expected}"

        actual = {(author, fence, base, json.loads(text), why) for author, fence, base, text, why in drafts}
        expected = {
            (ids[user], fence, base, text, outcome.reason)
            for (user, fence, base, text), outcome in row.drafts.items()
        }
        assert actual == expected, f"drafts\n{actual}\n{expected}"
        assert len(drafts) == len(expected), f"a draft is there twice: {drafts}"
