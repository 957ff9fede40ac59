"""Who is asking, at which tab: the dependency of routes that touch a lock."""

from typing import Annotated

from fastapi import Depends

from leasehold.documents.http.dependencies import editor_dependency
from leasehold.documents.state import Editor
from leasehold.server.auth.dependencies import current_user

CurrentEditor = Annotated[Editor, Depends(editor_dependency(current_user))]
"""``async def endpoint(editor: CurrentEditor)``."""
