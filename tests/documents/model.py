"""A document's lock as it ought to be, in plain Python. Fences are the numbers of the grants: 1, 2, 3, …

The caller passes the time in milliseconds, read from the clock of the real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leasehold.documents import Editor

ENDED = 2**31 - 1
NO_HOLD = -1
LAPSE_MS = 1000
CLAIM_MS = 5000


@dataclass(frozen=True)
class Mark:
    by: Editor
    ask: str
    until_ms: int


@dataclass(frozen=True)
class Held:
    fence: int
    editor: Editor
    since_ms: int
    until_ms: int
    ask: str | None
    step: int = 0
    idle_ms: int | None = None
    unclaimed: bool = False
    saved: bool | None = None
    taking: Mark | None = None


@dataclass(frozen=True)
class Past:
    fence: int
    person: Any
    since_ms: int
    ended_ms: int | None = None
    reason: str | None = None
    by: Any = None


@dataclass
class Model:
    ttl_ms: int
    save_ms: int
    hold: Held | None = None
    history: list[Past] = field(default_factory=list)
    grants: int = 0
    events: list[tuple[str, tuple[int, int], Any, bool | None]] = field(default_factory=list)
    """Kind, version, causing user, saved."""
    now_ms: int = 0

    @property
    def version(self) -> tuple[int, int] | None:
        """None if nothing is known."""
        if self.hold:
            return self.hold.fence, self.hold.step
        return (self.history[0].fence, ENDED) if self.history else None

    # The verbs, each at a moment

    def acquire(self, now_ms: int, editor: Editor, ask: str, move: bool) -> str:
        hold = self._settle(now_ms)
        if hold and hold.editor == editor:
            self._extend(ask)
            return "granted"
        if hold and not (move and hold.editor.user_id == editor.user_id and not hold.taking):
            return "busy"
        if hold:
            self._end("moved", now_ms, hold.editor)
        self._begin(editor, ask, self.ttl_ms)
        return "granted"

    def heartbeat(self, now_ms: int, editor: Editor, idle_ms: int | None) -> str:
        hold = self._settle(now_ms)
        if not hold or hold.editor != editor:
            return "lost"
        if not hold.unclaimed:
            self._extend(hold.ask, None if idle_ms is None else now_ms - idle_ms)
        return "extended"

    def release(self, now_ms: int, editor: Editor, fence: int | None, reason: str, saved: bool) -> str:
        hold = self._settle(now_ms)
        if not hold or hold.editor != editor or fence not in (None, hold.fence):
            return "lost"
        self._give_back(reason, saved)
        return "released"

    def take(self, now_ms: int, taker: Editor, ask: str, expect: int | None) -> str:
        hold = self._settle(now_ms)
        if hold and hold.unclaimed and hold.ask == ask:
            return "saved" if hold.saved else "unsaved"
        if hold and hold.editor == taker:
            self._extend(ask)
            if expect in (None, hold.fence) or hold.saved is None:
                return "granted"
            return "saved" if hold.saved else "unsaved"
        if hold and expect not in (None, hold.fence):
            return "busy"
        if not hold or (hold.editor.user_id == taker.user_id and not hold.taking):
            if hold:
                self._end("moved", now_ms, hold.editor)
            self._begin(taker, ask, self.ttl_ms)
            return "granted"
        if not hold.taking:
            mark = Mark(taker, ask, now_ms + self.save_ms)
            self.hold = replace(hold, taking=mark, step=hold.step + 1)
            self._tell("document_force_save_requested", taker)
            return "asked"
        if hold.taking.ask == ask and hold.taking.until_ms <= now_ms:
            self._give_back("taken", False)
            return "unsaved"
        return "asked"

    def claim(self, now_ms: int, ask: str) -> str:
        hold = self._settle(now_ms)
        if not hold or hold.ask != ask:
            return "busy"
        self._extend(ask)
        return "granted"

    def withdraw(self, now_ms: int, ask: str) -> str:
        hold = self._settle(now_ms)
        if hold and hold.ask == ask:
            self._give_back("released", False)
            return "withdrawn"
        if not hold or not hold.taking or hold.taking.ask != ask:
            return "gone"
        self.hold = replace(hold, taking=None, step=hold.step + 1)
        self._tell("document_locked", hold.taking.by)
        return "withdrawn"

    def inspect(self, now_ms: int) -> None:
        self._settle(now_ms)

    def forget(self) -> None:
        """FLUSHALL."""
        self.hold = None
        self.history.clear()

    # How it works

    def _settle(self, now_ms: int) -> Held | None:
        self.now_ms = now_ms
        hold = self.hold
        if not hold:
            return None
        has_lapsed = hold.taking is not None and hold.taking.until_ms + LAPSE_MS <= now_ms
        if hold.until_ms > now_ms:
            if has_lapsed:
                self.hold = replace(hold, taking=None, step=hold.step + 1)
        elif hold.taking and not has_lapsed:
            self._end("expired", hold.until_ms, None)
            self._begin(hold.taking.by, hold.taking.ask, CLAIM_MS, saved=False)
        else:
            self._end("expired", hold.until_ms, None)
            self._tell("document_lock_expired", None)
        return self.hold

    def _extend(self, ask: str | None, idle_ms: int | None = None) -> None:
        kept = self.hold.ask if self.hold.ask == ask else None
        until_ms = self.now_ms + self.ttl_ms
        self.hold = replace(self.hold, until_ms=until_ms, idle_ms=idle_ms, unclaimed=False, ask=kept)

    def _begin(self, editor: Editor, ask: str, left_ms: int, saved: bool | None = None) -> None:
        self.grants += 1
        is_handed = saved is not None
        until_ms = self.now_ms + left_ms
        self.hold = Held(self.grants, editor, self.now_ms, until_ms, ask, unclaimed=is_handed, saved=saved)
        self.history.insert(0, Past(self.grants, editor.person, self.now_ms))
        self._tell("document_force_taken" if is_handed else "document_locked", editor, saved)

    def _end(self, reason: str, ended_ms: int, by: Editor | None) -> None:
        self.history[0] = replace(
            self.history[0], ended_ms=ended_ms, reason=reason, by=None if by is None else by.person
        )
        self.hold = None

    def _give_back(self, reason: str, saved: bool) -> None:
        hold = self.hold
        if hold.taking:
            self._end("taken", self.now_ms, hold.taking.by)
            self._begin(hold.taking.by, hold.taking.ask, CLAIM_MS, saved=saved)
        else:
            self._end(reason, self.now_ms, hold.editor)
            self._tell("document_unlocked", hold.editor)

    def _tell(self, kind: str, by: Editor | None, saved: bool | None = None) -> None:
        self.events.append((kind, self.version, None if by is None else by.person, saved))
