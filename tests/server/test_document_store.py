"""The document's row decides which save becomes a version; no saved text is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.server.rows import (
    Database,
    add_document,
    add_user,
    count_of,
    document_of,
    drafts_of,
    opened,
    texts_of,
    versions_of,
)

from leasehold.documents.ports import Content, Grant, Rescued, Save, Saved
from leasehold.documents.state import Editor
from leasehold.errors import InvalidRequest, NotFound, StaleFence
from leasehold.server.db.models import DraftRow, VersionRow, new_id
from leasehold.server.documents.content import MAX_DEPTH, decode_content
from leasehold.server.documents.document_store import SqlDocumentStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.both_databases


class TwoWriters:
    """One document and two users who write it."""

    def __init__(self, sessions: Database, ana: Editor, ben: Editor, document_id: str) -> None:
        self.sessions, self.ana, self.ben, self.id = sessions, ana, ben, document_id
        self.store = SqlDocumentStore(sessions)

    async def register(self, editor: Editor, fence: int) -> int:
        return await self.store.register(Grant(self.id, editor, fence))

    async def save(self, editor: Editor, content: Content, *, base: int, fence: int) -> Saved | Rescued:
        return await self.store.save(Save(self.id, editor, content, base, fence))

    async def texts(self) -> list[object]:
        return await texts_of(self.sessions, self.id)

    async def drafts(self) -> list[DraftRow]:
        return await drafts_of(self.sessions, self.id)


@pytest.fixture
async def sessions(database_url: str) -> AsyncIterator[Database]:
    async with opened(database_url) as sessions:
        yield sessions


@pytest.fixture
async def writers(sessions: Database) -> TwoWriters:
    ana, ben = await add_user(sessions, "Ana", "a1"), await add_user(sessions, "Ben", "b1")
    return TwoWriters(sessions, ana, ben, await add_document(sessions, ana))


async def test_a_save_under_the_registered_grant_is_the_next_version(writers: TwoWriters) -> None:
    assert await writers.register(writers.ana, 7) == 0
    assert await writers.save(writers.ana, "one", base=0, fence=7) == Saved(1)
    assert await writers.save(writers.ana, {"type": "doc", "content": []}, base=1, fence=7) == Saved(2)
    assert await writers.texts() == ["one", {"type": "doc", "content": []}]
    row = await document_of(writers.sessions, writers.id)
    assert (row.version, decode_content(row.content)) == (2, {"type": "doc", "content": []})
    assert row.updated_by == writers.ana.user_id
    assert row.updated_at > row.created_at
    assert [(v.author_id, v.fence) for v in await versions_of(writers.sessions, writers.id)] == [
        (writers.ana.user_id, 7)
    ] * 2
    assert await writers.drafts() == []


async def test_registering_returns_the_version_and_changes_nothing_else(writers: TwoWriters) -> None:
    await writers.register(writers.ana, 7)
    await writers.save(writers.ana, "one", base=0, fence=7)
    before = await document_of(writers.sessions, writers.id)
    assert await writers.register(writers.ben, 8) == 1
    assert await writers.register(writers.ben, 8) == 1, "the same grant again"
    after = await document_of(writers.sessions, writers.id)
    assert (after.fence, after.fence_user_id, after.fence_tab) == (8, writers.ben.user_id, "b1")
    assert (after.updated_at, after.updated_by) == (before.updated_at, before.updated_by)


@pytest.mark.parametrize("fence", [6, 7], ids=["an older fence", "the same fence of another user"])
async def test_a_grant_that_was_overtaken_is_not_registered(writers: TwoWriters, fence: int) -> None:
    await writers.register(writers.ana, 7)
    with pytest.raises(StaleFence) as refused:
        await writers.register(writers.ben, fence)
    assert (refused.value.seen, refused.value.given) == (7, fence)
    row = await document_of(writers.sessions, writers.id)
    assert (row.fence, row.fence_user_id, row.fence_tab) == (7, writers.ana.user_id, "a1")


async def test_the_same_fence_is_not_registered_for_another_tab(writers: TwoWriters) -> None:
    await writers.register(writers.ana, 7)
    with pytest.raises(StaleFence):
        await writers.register(Editor(writers.ana.user_id, "Ana", "a2"), 7)


@pytest.mark.parametrize("document_id", [new_id(), "nothing", "", "\0", "A" * 10_000], ids=range(5))
async def test_a_missing_document_is_not_found(writers: TwoWriters, document_id: str) -> None:
    with pytest.raises(NotFound):
        await writers.store.register(Grant(document_id, writers.ana, 7))
    with pytest.raises(NotFound):
        await writers.store.save(Save(document_id, writers.ana, "text", 0, 7))
    assert await count_of(writers.sessions, DraftRow) == 0


async def test_a_save_after_a_newer_grant_is_a_draft(writers: TwoWriters) -> None:
    await writers.register(writers.ana, 7)
    await writers.register(writers.ben, 8)
    outcome = await writers.save(writers.ana, "late", base=0, fence=7)
    (draft,) = await writers.drafts()
    assert outcome == Rescued(draft.id, "stale_fence", 0)
    assert decode_content(draft.content) == "late"
    assert (draft.author_id, draft.fence, draft.base_version) == (writers.ana.user_id, 7, 0)
    assert (draft.status, draft.settled_at, draft.settled_by) == ("open", None, None)
    assert await writers.texts() == []


@pytest.mark.parametrize("base", [0, 5], ids=["an old base", "a base in the future"])
async def test_a_save_made_from_another_version_is_a_draft(writers: TwoWriters, base: int) -> None:
    await writers.register(writers.ana, 7)
    await writers.save(writers.ana, "one", base=0, fence=7)
    outcome = await writers.save(writers.ana, "other", base=base, fence=7)
    (draft,) = await writers.drafts()
    assert outcome == Rescued(draft.id, "stale_base", 1)
    assert await writers.texts() == ["one"]


async def test_a_save_with_the_fence_of_another_user_is_a_draft(writers: TwoWriters) -> None:
    await writers.register(writers.ana, 7)
    assert await writers.save(writers.ana, "one", base=0, fence=7) == Saved(1)
    other_tab = Editor(writers.ana.user_id, "Ana", "a2")
    for editor, text in ((writers.ben, "ben's"), (other_tab, "of the other tab"), (other_tab, "one")):
        outcome = await writers.save(editor, text, base=1, fence=7)
        assert isinstance(outcome, Rescued)
        assert outcome.reason == "not_holder"
    assert await writers.texts() == ["one"]
    assert len(await writers.drafts()) == 3


async def test_a_fence_that_was_never_registered_is_a_draft(writers: TwoWriters) -> None:
    for fence in (1, 9):
        outcome = await writers.save(writers.ana, "text", base=0, fence=fence)
        assert isinstance(outcome, Rescued)
        assert outcome.reason == "not_holder"
    await writers.register(writers.ana, 10)
    outcome = await writers.save(writers.ana, "text", base=0, fence=11)
    assert isinstance(outcome, Rescued)
    assert outcome.reason == "not_holder"
    assert await writers.texts() == []


async def test_content_that_changes_nothing_makes_no_version(writers: TwoWriters) -> None:
    await writers.register(writers.ana, 7)
    assert await writers.save(writers.ana, "", base=0, fence=7) == Saved(0)
    await writers.save(writers.ana, {"a": 1, "b": [2.5]}, base=0, fence=7)
    before = await document_of(writers.sessions, writers.id)
    assert await writers.save(writers.ana, {"b": [2.5], "a": 1}, base=1, fence=7) == Saved(1), (
        "in another order"
    )
    after = await document_of(writers.sessions, writers.id)
    assert after.updated_at == before.updated_at
    assert await writers.save(writers.ana, {"a": True, "b": [2.5]}, base=1, fence=7) == Saved(2), (
        "true is not 1"
    )
    assert await writers.save(writers.ana, '{"a":true,"b":[2.5]}', base=2, fence=7) == Saved(3), (
        "text is not JSON"
    )


async def test_going_back_to_an_older_text_is_a_new_version(writers: TwoWriters) -> None:
    await writers.register(writers.ana, 7)
    for base, text in enumerate(["one", "two", "one", "two", ""]):
        assert await writers.save(writers.ana, text, base=base, fence=7) == Saved(base + 1)
    assert await writers.texts() == ["one", "two", "one", "two", ""]


class TestRepeatedSave:
    """The response was lost, so the client repeats the save: at once, or after other saves."""

    async def test_a_version_is_not_made_twice(self, writers: TwoWriters) -> None:
        await writers.register(writers.ana, 7)
        for _ in range(3):
            assert await writers.save(writers.ana, "one", base=0, fence=7) == Saved(1)
        await writers.save(writers.ana, "two", base=1, fence=7)
        assert await writers.save(writers.ana, "one", base=0, fence=7) == Saved(1), (
            "later ones change nothing"
        )
        await writers.register(writers.ben, 8)
        await writers.save(writers.ben, "three", base=2, fence=8)
        assert await writers.save(writers.ana, "one", base=0, fence=7) == Saved(1), "nor does a newer grant"
        assert await writers.save(writers.ana, "two", base=1, fence=7) == Saved(2)
        assert await writers.texts() == ["one", "two", "three"]
        assert await writers.drafts() == []

    async def test_a_draft_is_not_made_twice(self, writers: TwoWriters) -> None:
        await writers.register(writers.ana, 7)
        await writers.register(writers.ben, 8)
        first = await writers.save(writers.ana, "late", base=0, fence=7)
        assert await writers.save(writers.ana, "late", base=0, fence=7) == first
        await writers.register(writers.ana, 9)
        assert await writers.save(writers.ana, "late", base=0, fence=7) == first
        assert len(await writers.drafts()) == 1
        assert await writers.save(writers.ana, "later", base=0, fence=7) != first
        assert await writers.save(writers.ben, "late", base=0, fence=7) != first
        assert len(await writers.drafts()) == 3

    async def test_a_save_without_changes_has_the_same_outcome_after_the_next_grant(
        self, writers: TwoWriters
    ) -> None:
        await writers.register(writers.ana, 7)
        await writers.save(writers.ana, "one", base=0, fence=7)
        assert await writers.save(writers.ana, "one", base=1, fence=7) == Saved(1)
        await writers.register(writers.ben, 8)
        assert await writers.save(writers.ana, "one", base=1, fence=7) == Saved(1)
        await writers.save(writers.ben, "two", base=1, fence=8)
        assert await writers.save(writers.ana, "one", base=1, fence=7) == Saved(1)
        assert await writers.drafts() == []

    async def test_a_save_of_another_user_is_not_a_repetition(self, writers: TwoWriters) -> None:
        await writers.register(writers.ana, 7)
        await writers.save(writers.ana, "one", base=0, fence=7)
        await writers.register(writers.ben, 8)
        assert isinstance(await writers.save(writers.ben, "one", base=0, fence=7), Rescued), "not his fence"
        assert isinstance(await writers.save(writers.ben, "one", base=0, fence=8), Rescued), "not his version"
        assert isinstance(await writers.save(writers.ana, "one", base=1, fence=7), Rescued), (
            "never requested before"
        )
        assert len(await writers.drafts()) == 3


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\0 \x1f \x7f",
        "Ünï¢ødé 🖋 \u2028 \ufeff",
        {},
        {"text": "\0", "": [None, True, 1, -1, 0.1, 1e300, 2**80, "x"]},
        {"a": {"b": {"c": [[[]]]}}},
        "line\r\nline\n" * 20_000,
    ],
    ids=["empty", "controls", "unicode", "object", "values", "nested", "long"],
)
async def test_content_comes_back_as_it_was(writers: TwoWriters, content: Content) -> None:
    await writers.register(writers.ana, 7)
    await writers.save(writers.ana, "before", base=0, fence=7)
    assert await writers.save(writers.ana, content, base=1, fence=7) == Saved(2)
    await writers.save(writers.ben, content, base=1, fence=7)
    assert (await writers.texts())[-1] == content
    assert [decode_content(draft.content) for draft in await writers.drafts()] == [content]


def nested(depth: int) -> Content:
    content: dict[str, object] = {}
    for _ in range(depth - 1):
        content = {"in": content}
    return content


@pytest.mark.parametrize(
    "content",
    [{"n": float("nan")}, {"n": [float("inf")]}, "half \ud800", {"\udfff": 1}, nested(MAX_DEPTH + 1)],
    ids=["nan", "infinity", "a lone surrogate", "a lone surrogate in a key", "too deep"],
)
async def test_content_that_cannot_be_encoded_is_refused(writers: TwoWriters, content: Content) -> None:
    await writers.register(writers.ana, 7)
    with pytest.raises(InvalidRequest):
        await writers.save(writers.ana, content, base=0, fence=7)
    assert await count_of(writers.sessions, VersionRow) == 0


async def test_the_deepest_content_is_kept(writers: TwoWriters) -> None:
    await writers.register(writers.ana, 7)
    assert await writers.save(writers.ana, nested(MAX_DEPTH), base=0, fence=7) == Saved(1)


async def test_documents_are_independent(writers: TwoWriters) -> None:
    other = await add_document(writers.sessions, writers.ben)
    await writers.register(writers.ana, 7)
    await writers.store.register(Grant(other, writers.ben, 3))
    assert await writers.store.save(Save(other, writers.ben, "his", 0, 3)) == Saved(1)
    assert await writers.save(writers.ana, "hers", base=0, fence=7) == Saved(1)
    assert isinstance(await writers.store.save(Save(other, writers.ana, "hers", 0, 7)), Rescued)
    assert await writers.texts() == ["hers"]
