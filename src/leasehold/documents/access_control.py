"""Decides what a user may do with a document; the only place that does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.documents import audit
from leasehold.documents.state import Person
from leasehold.errors import NotAllowed, NotFound

if TYPE_CHECKING:
    from leasehold.documents.ports import Access, AccessPolicy, Role

_RANK: dict[Role | None, int] = {None: 0, "viewer": 1, "editor": 2, "owner": 3}


class PermissionCheck:
    """Asks the host application's policy at every call: nothing is cached."""

    def __init__(self, access: AccessPolicy) -> None:
        self._policy = access

    async def check(self, user_id: str, document_id: str, needs: Role, *, to_take: bool = False) -> Access:
        """The user's access, whose role is at least ``needs``. ``to_take`` refuses personal documents.

        Raises `NotFound` if the document does not exist and `NotAllowed` if the user may not do that.
        """
        access = await self._policy.access(user_id, document_id)
        if access is None:
            self._note(user_id, document_id, needs, "no such document")
            raise document_not_found()
        if not may(access, needs):
            self._note(user_id, document_id, needs, f"role {access.role}")
            raise NotAllowed(f"this needs the role {needs} for this document")
        if to_take and access.is_personal:
            self._note(user_id, document_id, needs, "personal document")
            raise NotAllowed("a personal document cannot be taken by force")
        return access

    def _note(self, user_id: str, document_id: str, needs: Role, why: str) -> None:
        audit.note(
            "access_refused", document_id=document_id, person=Person(user_id, ""), needs=needs, why=why
        )


def document_not_found() -> NotFound:
    """The error for an unknown document."""
    return NotFound("document not found")


def may(access: Access, needs: Role) -> bool:
    """The access is at least that of the role ``needs``."""
    return _RANK[access.role] >= _RANK[needs]
