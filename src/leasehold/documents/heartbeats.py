"""A heartbeat, by whichever way it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leasehold.documents.access_control import may

if TYPE_CHECKING:
    from leasehold.documents.access_control import Gate
    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.state import Editor, LockState


async def beat(
    documents: DocumentLocks, gate: Gate, document_id: str, editor: Editor, *, idle_for: float | None
) -> tuple[bool, LockState]:
    """Extend the editor's hold; whether there was one, and the state.

    A viewer is told how it stands. One who was an editor keeps nothing alive any more: the hold runs out.
    """
    access = await gate.check(editor.user_id, document_id, "viewer")
    if may(access, "editor"):
        return await documents.heartbeat(document_id, editor, idle_for=idle_for)
    return False, await documents.state(document_id)
