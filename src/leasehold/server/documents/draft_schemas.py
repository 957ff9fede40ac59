"""JSON schemas of drafts."""

from typing import Any, Literal

from leasehold.documents.http.schemas import Asked, Fence, Instant, Told
from leasehold.documents.ports import RescueReason
from leasehold.server.documents.schemas import AskedFence, KeptContent, Number, members_of


class DraftSummary(Told):
    """A draft without its content. It is open until it is restored or discarded."""

    id: str
    document_id: str
    author_id: str
    author_name: str
    base_version: int
    fence: Fence
    reason: RescueReason
    status: Literal["open", "restored", "discarded"]
    created_at: Instant
    settled_at: Instant | None
    settled_by: str | None


class Draft(DraftSummary):
    """A draft."""

    content: KeptContent


class VersionNumber(Told):
    """The number of a version."""

    version: int


class ContentAt(VersionNumber):
    """The content of a document at a version."""

    content: KeptContent


class Comparison(Told):
    """A draft, its base version and the current document.

    ``base`` is null if that version never existed. ``diff`` has the lines of a unified diff from ``current`` to the
    draft: what restoring it would change. JSON is compared indented. It is null if it would be too long: above 4 Mi
    characters, as it or an indented content.
    """

    draft: Draft
    base: ContentAt | None
    current: ContentAt
    diff: list[str] | None


class Restoring(Asked):
    """The grant under which the draft becomes a version, and the version that it follows."""

    base_version: Number
    fence: AskedFence


def show_draft(row: Any) -> DraftSummary:
    """The draft of a row."""
    return DraftSummary(**members_of(row))
