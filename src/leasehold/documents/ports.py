"""What a host application gives: where documents are kept, and who may do what with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from leasehold.documents.state import Editor

Role = Literal["viewer", "editor", "owner"]
"""A viewer sees the lock, an editor may hold it, an owner may take it. Each may do what the one before may."""

Content = str | dict[str, Any]
"""Text, or a JSON object as editors like TipTap have it."""

RescueReason = Literal["stale_fence", "stale_base", "not_holder"]
"""Why a save became a draft: a newer grant, a newer version, or a fence that was granted to somebody else."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a user may do with a document. A personal document belongs to one user and cannot be taken by force."""

    role: Role | None
    is_personal: bool = False


class AccessPolicy(Protocol):
    """Who may do what."""

    async def access(self, user_id: str, document_id: str) -> Access | None:
        """What the user may do with the document; None if there is no such document."""
        ...


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant that is about to be reported."""

    document_id: str
    editor: Editor
    fence: int


@dataclass(frozen=True, slots=True)
class Save:
    """What an editor wants kept: ``content``, made from version ``base_version``, under the grant ``fence``."""

    document_id: str
    editor: Editor
    content: Content
    base_version: int
    fence: int


@dataclass(frozen=True, slots=True)
class Saved:
    """It is the document's version ``version`` now."""

    version: int


@dataclass(frozen=True, slots=True)
class Rescued:
    """It is kept as a draft beside the document, which is at ``version``."""

    draft_id: str
    reason: RescueReason
    version: int


class DocumentStore(Protocol):
    """Where documents are kept. It compares fences, and that is what makes "no lost work" a promise.

    Both methods are one transaction each, and serialise with each other per document.
    """

    async def register(self, grant: Grant) -> int:
        """Note the grant's fence, user and tab in the document's row; the document's current version.

        From then on no save under an older fence becomes a version. Raises `leasehold.StaleFence` if the row has
        a newer fence already, and `leasehold.NotFound` if there is no such document; nothing is changed then.
        Registering the same grant again changes nothing.
        """
        ...

    async def save(self, save: Save) -> Saved | Rescued:
        """Keep the content: as a new version if fence, user and tab are those registered and ``base_version``
        is current; else as a draft, never merged, never dropped.

        The same save asked again (its reply was lost) gets the same answer and leaves nothing twice. Content that
        equals the current version makes no new one. On return it is durable.
        """
        ...
