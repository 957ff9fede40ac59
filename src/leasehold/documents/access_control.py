"""The one place where it is decided who may do what with a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.documents import audit
from leasehold.documents.state import Person
from leasehold.errors import NotAllowed, NotFound

if TYPE_CHECKING:
    from leasehold.documents.ports import Access, AccessPolicy, Role

_RANK: dict[Role | None, int] = {None: 0, "viewer": 1, "editor": 2, "owner": 3}


class Gate:
    """Asks the host application's policy, every time: nothing is remembered."""

    def __init__(self, access: AccessPolicy) -> None:
        self._policy = access

    async def check(self, user_id: str, document_id: str, needs: Role) -> Access:
        """What the user may do, which is at least what ``needs`` may.

        Raises `NotFound` if there is no such document and `NotAllowed` if the user's role is too little.
        """
        access = await self._policy.access(user_id, document_id)
        if access is None:
            self._note(user_id, document_id, needs, "no such document")
            raise document_not_found()
        if not may(access, needs):
            self._note(user_id, document_id, needs, f"role {access.role}")
            raise NotAllowed(f"this needs the role {needs} of this document")
        return access

    async def check_take(self, user_id: str, document_id: str) -> Access:
        """As `check` for owners; a personal document cannot be taken at all, not even by its owner."""
        access = await self.check(user_id, document_id, "owner")
        if access.is_personal:
            self._note(user_id, document_id, "owner", "personal document")
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
    """Whether that is at least what ``needs`` may."""
    return _RANK[access.role] >= _RANK[needs]
