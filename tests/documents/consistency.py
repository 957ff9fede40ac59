"""Compares what concurrent editors saw with what the store and the host kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from leasehold.documents import Saved

if TYPE_CHECKING:
    from tests.documents.host import Document

    from leasehold.documents import Granted, Hold, Save, SaveAnswer


@dataclass(frozen=True)
class Grant:
    """A grant as its editor saw it, between two readings of one clock."""

    granted: Granted
    asked_at: float
    told_at: float


@dataclass
class Record:
    """What the editors of one document saw."""

    grants: list[Grant] = field(default_factory=list)
    saves: list[tuple[Save, SaveAnswer]] = field(default_factory=list)
    yields: list[Save] = field(default_factory=list)
    """Those of the saves that gave the lock back."""


def violations(record: Record, history: list[Hold], document: Document) -> set[str]:
    """Which promises were broken."""
    checks = {
        "one holder at a time": _holds_overlap(history),
        "fences grow": _fences_fall(record, history),
        "a fence has one holder": _fences_shared(record, history),
        "no acknowledged save vanishes": _saves_vanish(record, document),
        "an old fence saves nothing": _old_fences_save(record),
        "saved means saved": _saves_claimed(record, history),
    }
    return {promise for promise, is_broken in checks.items() if is_broken}


def _holds_overlap(history: list[Hold]) -> bool:
    """The store's own account: the newest first, and only the newest may still last."""
    return any(
        older.ended_at is None or older.ended_at > newer.acquired_at for newer, older in pairwise(history)
    )


def _fences_fall(record: Record, history: list[Hold]) -> bool:
    if any(newer.fence <= older.fence for newer, older in pairwise(history)):
        return True
    return any(
        one.told_at < other.asked_at and one.granted.fence > other.granted.fence
        for one in record.grants
        for other in record.grants
    )


def _fences_shared(record: Record, history: list[Hold]) -> bool:
    people = {hold.fence: hold.person for hold in history}
    holders: dict[int, object] = {}
    for grant in record.grants:
        editor = grant.granted.state.holder.editor
        if holders.setdefault(grant.granted.fence, editor) != editor:
            return True
        if people.get(grant.granted.fence, editor.person) != editor.person:
            return True
    return False


def _saves_vanish(record: Record, document: Document) -> bool:
    for save, answer in record.saves:
        if isinstance(answer.outcome, Saved):
            if document.versions[answer.outcome.version] != save.content:
                return True
        elif document.drafts[answer.outcome.draft_id].content != save.content:
            return True
    return False


def _old_fences_save(record: Record) -> bool:
    """Each grant reports every version that was made under an older fence."""
    return any(
        save.fence < grant.granted.fence and answer.outcome.version > grant.granted.content_version
        for grant in record.grants
        for save, answer in record.saves
        if isinstance(answer.outcome, Saved)
    )


def _saves_claimed(record: Record, history: list[Hold]) -> bool:
    """If a taker's grant says saved, the previous holder released the lock with a save."""
    before = {newer.fence: older.fence for newer, older in pairwise(history)}
    yielded = {save.fence for save in record.yields}
    return any(
        before[grant.granted.fence] not in yielded
        for grant in record.grants
        if grant.granted.saved and grant.granted.fence in before
    )
