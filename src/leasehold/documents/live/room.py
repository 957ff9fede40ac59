"""One document that is watched in this worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasehold.documents.live.rendering import News
    from leasehold.documents.live.socket import Socket
    from leasehold.documents.state import LockState


class Room:
    """Who watches, and the newest that is known. ``joining`` counts those who do not know it yet; ``lesson`` is the
    number of what was learnt last, in the order in which the hub learns."""

    __slots__ = ("document_id", "joining", "lesson", "members", "state")

    def __init__(self, document_id: str) -> None:
        self.document_id = document_id
        self.state: LockState | None = None
        self.joining = 0
        self.lesson = 0
        self.members: set[Socket] = set()

    @property
    def is_empty(self) -> bool:
        """Whether nobody watches, nor is about to."""
        return not self.members and not self.joining

    def tell(self, news: News) -> None:
        """Tell everybody who watches."""
        what, others, holder_id = self.document_id, news.for_others(), news.user_id
        # A copy: a socket that turns out to be gone leaves while we go through them.
        for socket in tuple(self.members):
            mine = socket.editor.user_id == holder_id
            socket.outbox.tell(what, news.for_holder(socket.editor) if mine else others)
