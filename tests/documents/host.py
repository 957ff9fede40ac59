"""A host application that keeps documents in a dict, as `leasehold.documents.DocumentStore` promises."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from leasehold import NotFound, StaleFence
from leasehold.documents import Content, Grant, Rescued, Save, Saved


@dataclass
class Document:
    """One row: its versions (the number of a version is its index), its drafts, and the newest grant."""

    versions: list[Content] = field(default_factory=lambda: [""])
    drafts: dict[str, Save] = field(default_factory=dict)
    fence: int = 0
    holder: tuple[str, str] | None = None
    answers: list[tuple[Save, Saved | Rescued]] = field(default_factory=list)

    @property
    def version(self) -> int:
        return len(self.versions) - 1


class DictStore:
    """Implements `DocumentStore`. Nothing suspends after the beginning, so every call is one transaction."""

    def __init__(self, *document_ids: str) -> None:
        self.documents = {document_id: Document() for document_id in document_ids}

    def __getitem__(self, document_id: str) -> Document:
        if document_id not in self.documents:
            raise NotFound(f"there is no document {document_id!r}")
        return self.documents[document_id]

    async def register(self, grant: Grant) -> int:
        await asyncio.sleep(0)
        document = self[grant.document_id]
        if grant.fence < document.fence:
            raise StaleFence(seen=document.fence, given=grant.fence)
        document.fence = grant.fence
        document.holder = (grant.editor.user_id, grant.editor.tab)
        return document.version

    async def save(self, save: Save) -> Saved | Rescued:
        await asyncio.sleep(0)
        document = self[save.document_id]
        for before, answer in document.answers:
            if before == save:
                return answer
        answer = self._keep(document, save)
        document.answers.append((save, answer))
        return answer

    def _keep(self, document: Document, save: Save) -> Saved | Rescued:
        if save.fence < document.fence:
            return self._rescue(document, save, "stale_fence")
        if save.fence != document.fence or document.holder != (save.editor.user_id, save.editor.tab):
            return self._rescue(document, save, "not_holder")
        if save.base_version != document.version:
            return self._rescue(document, save, "stale_base")
        if save.content != document.versions[-1]:
            document.versions.append(save.content)
        return Saved(document.version)

    def _rescue(self, document: Document, save: Save, reason: str) -> Rescued:
        draft_id = f"draft-{len(document.drafts) + 1}"
        document.drafts[draft_id] = save
        return Rescued(draft_id, reason, document.version)
