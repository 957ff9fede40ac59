"""Dependencies of the lock routes: the calling editor, and the role that a route requires."""

import hashlib
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Header, Path

from leasehold.documents.access_control import PermissionCheck
from leasehold.documents.http import schemas
from leasehold.documents.ports import Access, Role, principal_of
from leasehold.documents.state import Editor

MAX_LENGTH = 128
PATTERN = r"^[\x20-\x7e]*$"
"""Printable ASCII."""

DocumentId = Annotated[str, Path(min_length=1, max_length=schemas.MAX_ID, pattern=schemas.ID_PATTERN)]
UserDependency = Callable[..., Any]
"""The host application's dependency that returns the user."""
Tab = Annotated[str | None, Header(alias="Leasehold-Tab", max_length=MAX_LENGTH, pattern=PATTERN)]


def digest_of(tab: str | None) -> str:
    """The digest that stands for a tab's name, which is kept nowhere; empty for a tab without a name."""
    return hashlib.sha256(tab.encode()).hexdigest()[:32] if tab else ""


def editor_dependency(current_user: UserDependency) -> Callable[..., Any]:
    """A dependency that returns the calling `Editor`: the user and the tab."""

    async def current_editor(user: Annotated[Any, Depends(current_user)], tab: Tab = None) -> Editor:
        principal = principal_of(user)
        return Editor(principal.user_id, principal.user_name, digest_of(tab))

    return current_editor


def role_dependency(permissions: PermissionCheck, current_editor: Any) -> Callable[..., Any]:
    """Returns ``require``: ``require("editor")`` is a dependency that refuses lesser roles and returns the `Access`."""

    class RequiredRole:
        def __init__(self, role: Role, **conditions: bool) -> None:
            self.role: Role = role
            self._conditions = conditions

        async def __call__(
            self, document_id: DocumentId, editor: Annotated[Editor, current_editor]
        ) -> Access:
            return await permissions.check(editor.user_id, document_id, self.role, **self._conditions)

    def require(role: Role, **conditions: bool) -> Any:
        return Depends(RequiredRole(role, **conditions))

    return require
