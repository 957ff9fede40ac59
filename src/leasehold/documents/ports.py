"""Ports of the host application: its users, its permissions, and the store of its documents."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from leasehold.documents.state import Editor

Role = Literal["viewer", "editor", "owner"]
"""A viewer sees the lock, an editor may hold it, an owner may take it. Each may do what the one before may."""

Content = str | dict[str, Any]
"""Text, or a JSON object as editors like TipTap produce it."""

RescueReason = Literal["stale_fence", "stale_base", "not_holder"]
"""Why a save became a draft: a newer grant, a newer version, or a fence that was granted to another editor."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A signed-in user. The login is valid until ``expires_at`` (Unix seconds), or until ``session_id`` is ended."""

    user_id: str
    user_name: str
    expires_at: float = math.inf
    session_id: str = ""

    @property
    def id(self) -> str:
        """The user's id."""
        return self.user_id

    @property
    def name(self) -> str:
        """The user's display name."""
        return self.user_name


Authenticate = Callable[[str], Awaitable[Any]]
"""Maps a token to its user: a `Principal`, or anything with ``id`` and ``name``; None if the token is not valid."""


def principal_of(user: Any) -> Principal:
    """The host application's user object, which has an ``id`` and a ``name``, as a principal."""
    if isinstance(user, Principal):
        return user
    return Principal(
        str(user.id),
        str(user.name),
        float(getattr(user, "expires_at", None) or math.inf),
        str(getattr(user, "session_id", None) or ""),
    )


@dataclass(frozen=True, slots=True)
class Access:
    """What a user may do with a document. A personal document belongs to one user and cannot be taken by force."""

    role: Role | None
    is_personal: bool = False


class AccessPolicy(Protocol):
    """The host application's permissions."""

    async def access(self, user_id: str, document_id: str) -> Access | None:
        """What the user may do with the document; None if there is no such document."""
        ...


@dataclass(frozen=True, slots=True)
class Grant:
    """A grant that is not yet reported to the editor."""

    document_id: str
    editor: Editor
    fence: int


@dataclass(frozen=True, slots=True)
class Save:
    """``content`` to save, edited from version ``base_version`` under the grant ``fence``."""

    document_id: str
    editor: Editor
    content: Content
    base_version: int
    fence: int


@dataclass(frozen=True, slots=True)
class Saved:
    """The content is the document's version ``version`` now."""

    version: int


@dataclass(frozen=True, slots=True)
class Rescued:
    """The content is kept as a draft beside the document, which is at ``version``."""

    draft_id: str
    reason: RescueReason
    version: int


class DocumentStore(Protocol):
    """Stores documents and compares fences, which is what makes "no lost work" a promise.

    Each method is one transaction; both are serialised with each other per document.
    """

    async def register(self, grant: Grant) -> int:
        """Write the grant's fence, user and tab to the document's row; return the document's current version.

        From then on no save under an older fence becomes a version. Raises `leasehold.StaleFence` if the row has
        a newer fence already, and `leasehold.NotFound` if the document does not exist; then nothing changes.
        Registering the same grant again changes nothing.
        """
        ...

    async def save(self, save: Save) -> Saved | Rescued:
        """Store the content: as a new version if fence, user and tab are those registered and ``base_version``
        is current; else as a draft, never merged, never dropped.

        Repeating a save (because its reply was lost) returns the same outcome and stores nothing twice. Content that
        equals the current version makes no new one. On return it is durable.
        """
        ...
