"""Dependencies of the lock routes: the calling editor, and the role that a route requires."""

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


def editor_dependency(current_user: UserDependency) -> Callable[..., Any]:
    """A dependency that returns the calling `Editor`: the user and the tab."""

    async def current_editor(user: Annotated[Any, Depends(current_user)], tab: Tab = None) -> Editor:
        principal = principal_of(user)
        return Editor.at_tab(principal.user_id, principal.user_name, tab)

    return current_editor


def role_dependency(permissions: PermissionCheck, current_editor: Any) -> Callable[..., Any]:
    """Returns ``require``: ``require("editor")`` is a dependency that refuses lesser roles and returns the `Access`."""

    def require(role: Role, **conditions: bool) -> Any:
        async def check_role(document_id: DocumentId, editor: Annotated[Editor, current_editor]) -> Access:
            return await permissions.check(editor.user_id, document_id, role, **conditions)

        return declare_permission(role, check_role)

    return require


def declare_permission(needs: str, dependency: Callable[..., Any]) -> Any:
    """Mark a dependency with the permission that it checks, so that a test can find routes without one."""
    dependency.needs = needs  # pyright: ignore[reportFunctionMemberAccess] - see above
    return Depends(dependency)
