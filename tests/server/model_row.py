"""The rows that the database must have for one document: every acknowledged text, once, as a version or a draft."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tests.server.model import Tab


class Save(NamedTuple):
    """A requested save."""

    tab: Tab
    fence: int
    base: int
    content: str


class Outcome(NamedTuple):
    """The outcome of a save: version ``number``, or a draft because of ``reason``."""

    number: int | None
    reason: str | None = None


@dataclass
class Row:
    """The newest grant, and the texts. The number of a version is its place, beginning with 1."""

    fence: int = 0
    tab: Tab | None = None
    content: str = ""
    versions: list[Save] = field(default_factory=list)
    drafts: dict[tuple[str, int, int, str], Outcome] = field(default_factory=dict)
    """Drafts by author, fence, base and content."""
    unchanged: Save | None = None
    """The newest save that changed nothing: a repetition is recognized by it."""
    answers: dict[Save, Outcome] = field(default_factory=dict)

    answer: Outcome = field(default_factory=lambda: Outcome(None))
    """The outcome of the last save."""

    @property
    def version(self) -> int:
        return len(self.versions)

    def register(self, fence: int, tab: Tab) -> None:
        self.fence, self.tab = fence, tab

    def save(self, save: Save) -> None:
        self.answer = self.answers[save] = self._save(save)

    def can_repeat(self, save: Save) -> bool:
        """Whether a repetition must have the same outcome: of saves that changed nothing, only the newest is remembered."""
        return self.answers[save].number is None or save in self.versions or save == self.unchanged

    def _save(self, save: Save) -> Outcome:
        reason = self._reason_to_rescue(save)
        if reason is None and save.content == self.content:
            self.unchanged = save
            return Outcome(self.version)
        if reason is None:
            self.versions.append(save)
            self.content = save.content
            return Outcome(self.version)
        key = _key(save)
        if reason != "not_holder":
            if save == self.unchanged:
                return Outcome(save.base)
            if save.base < self.version and _key(self.versions[save.base]) == key:
                return Outcome(save.base + 1)
        return self.drafts.setdefault(key, Outcome(None, reason))

    def _reason_to_rescue(self, save: Save) -> str | None:
        if save.fence < self.fence:
            return "stale_fence"
        if (save.fence, save.tab) != (self.fence, self.tab):
            return "not_holder"
        return None if save.base == self.version else "stale_base"


def _key(save: Save) -> tuple[str, int, int, str]:
    """What identifies a save, at any tab."""
    return save.tab.user, save.fence, save.base, save.content
