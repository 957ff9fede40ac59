"""The document's row decides which save is a version, and nothing that was saved is lost."""

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


class Shelf:
    """One document and two people who want to write it."""

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
async def shelf(sessions: Database) -> Shelf:
    ana, ben = await add_user(sessions, "Ana", "a1"), await add_user(sessions, "Ben", "b1")
    return Shelf(sessions, ana, ben, await add_document(sessions, ana))


async def test_a_save_under_the_registered_grant_is_the_next_version(shelf: Shelf) -> None:
    assert await shelf.register(shelf.ana, 7) == 0
    assert await shelf.save(shelf.ana, "one", base=0, fence=7) == Saved(1)
    assert await shelf.save(shelf.ana, {"type": "doc", "content": []}, base=1, fence=7) == Saved(2)
    assert await shelf.texts() == ["one", {"type": "doc", "content": []}]
    row = await document_of(shelf.sessions, shelf.id)
    assert (row.version, decode_content(row.content)) == (2, {"type": "doc", "content": []})
    assert row.updated_by == shelf.ana.user_id
    assert row.updated_at > row.created_at
    assert [(v.author_id, v.fence) for v in await versions_of(shelf.sessions, shelf.id)] == [
        (shelf.ana.user_id, 7)
    ] * 2
    assert await shelf.drafts() == []


async def test_registering_tells_the_version_and_changes_nothing_else(shelf: Shelf) -> None:
    await shelf.register(shelf.ana, 7)
    await shelf.save(shelf.ana, "one", base=0, fence=7)
    before = await document_of(shelf.sessions, shelf.id)
    assert await shelf.register(shelf.ben, 8) == 1
    assert await shelf.register(shelf.ben, 8) == 1, "the same grant again"
    after = await document_of(shelf.sessions, shelf.id)
    assert (after.fence, after.fence_user_id, after.fence_tab) == (8, shelf.ben.user_id, "b1")
    assert (after.updated_at, after.updated_by) == (before.updated_at, before.updated_by)


@pytest.mark.parametrize("fence", [6, 7], ids=["an older fence", "the same fence of somebody else"])
async def test_a_grant_that_was_overtaken_is_not_registered(shelf: Shelf, fence: int) -> None:
    await shelf.register(shelf.ana, 7)
    with pytest.raises(StaleFence) as refused:
        await shelf.register(shelf.ben, fence)
    assert (refused.value.seen, refused.value.given) == (7, fence)
    row = await document_of(shelf.sessions, shelf.id)
    assert (row.fence, row.fence_user_id, row.fence_tab) == (7, shelf.ana.user_id, "a1")


async def test_the_same_fence_is_not_registered_for_another_tab(shelf: Shelf) -> None:
    await shelf.register(shelf.ana, 7)
    with pytest.raises(StaleFence):
        await shelf.register(Editor(shelf.ana.user_id, "Ana", "a2"), 7)


@pytest.mark.parametrize("document_id", [new_id(), "nothing", "", "\0", "A" * 10_000], ids=range(5))
async def test_there_is_no_such_document(shelf: Shelf, document_id: str) -> None:
    with pytest.raises(NotFound):
        await shelf.store.register(Grant(document_id, shelf.ana, 7))
    with pytest.raises(NotFound):
        await shelf.store.save(Save(document_id, shelf.ana, "text", 0, 7))
    assert await count_of(shelf.sessions, DraftRow) == 0


async def test_a_save_after_a_newer_grant_is_a_draft(shelf: Shelf) -> None:
    await shelf.register(shelf.ana, 7)
    await shelf.register(shelf.ben, 8)
    outcome = await shelf.save(shelf.ana, "late", base=0, fence=7)
    (draft,) = await shelf.drafts()
    assert outcome == Rescued(draft.id, "stale_fence", 0)
    assert decode_content(draft.content) == "late"
    assert (draft.author_id, draft.fence, draft.base_version) == (shelf.ana.user_id, 7, 0)
    assert (draft.status, draft.settled_at, draft.settled_by) == ("open", None, None)
    assert await shelf.texts() == []


@pytest.mark.parametrize("base", [0, 5], ids=["an old base", "a base that is still to come"])
async def test_a_save_made_from_another_version_is_a_draft(shelf: Shelf, base: int) -> None:
    await shelf.register(shelf.ana, 7)
    await shelf.save(shelf.ana, "one", base=0, fence=7)
    outcome = await shelf.save(shelf.ana, "other", base=base, fence=7)
    (draft,) = await shelf.drafts()
    assert outcome == Rescued(draft.id, "stale_base", 1)
    assert await shelf.texts() == ["one"]


async def test_a_save_with_the_fence_of_somebody_else_is_a_draft(shelf: Shelf) -> None:
    await shelf.register(shelf.ana, 7)
    assert await shelf.save(shelf.ana, "one", base=0, fence=7) == Saved(1)
    other_tab = Editor(shelf.ana.user_id, "Ana", "a2")
    for editor, text in ((shelf.ben, "ben's"), (other_tab, "of the other tab"), (other_tab, "one")):
        outcome = await shelf.save(editor, text, base=1, fence=7)
        assert isinstance(outcome, Rescued)
        assert outcome.reason == "not_holder"
    assert await shelf.texts() == ["one"]
    assert len(await shelf.drafts()) == 3


async def test_a_fence_that_was_never_registered_is_a_draft(shelf: Shelf) -> None:
    for fence in (1, 9):
        outcome = await shelf.save(shelf.ana, "text", base=0, fence=fence)
        assert isinstance(outcome, Rescued)
        assert outcome.reason == "not_holder"
    await shelf.register(shelf.ana, 10)
    outcome = await shelf.save(shelf.ana, "text", base=0, fence=11)
    assert isinstance(outcome, Rescued)
    assert outcome.reason == "not_holder"
    assert await shelf.texts() == []


async def test_content_that_changes_nothing_makes_no_version(shelf: Shelf) -> None:
    await shelf.register(shelf.ana, 7)
    assert await shelf.save(shelf.ana, "", base=0, fence=7) == Saved(0)
    await shelf.save(shelf.ana, {"a": 1, "b": [2.5]}, base=0, fence=7)
    before = await document_of(shelf.sessions, shelf.id)
    assert await shelf.save(shelf.ana, {"b": [2.5], "a": 1}, base=1, fence=7) == Saved(1), "in another order"
    after = await document_of(shelf.sessions, shelf.id)
    assert after.updated_at == before.updated_at
    assert await shelf.save(shelf.ana, {"a": True, "b": [2.5]}, base=1, fence=7) == Saved(2), "true is not 1"
    assert await shelf.save(shelf.ana, '{"a":true,"b":[2.5]}', base=2, fence=7) == Saved(3), (
        "text is not JSON"
    )


async def test_going_back_to_an_older_text_is_a_new_version(shelf: Shelf) -> None:
    await shelf.register(shelf.ana, 7)
    for base, text in enumerate(["one", "two", "one", "two", ""]):
        assert await shelf.save(shelf.ana, text, base=base, fence=7) == Saved(base + 1)
    assert await shelf.texts() == ["one", "two", "one", "two", ""]


class TestAskingAgain:
    """Its reply was lost, so the client asks again: at once, or after others went on."""

    async def test_a_version_is_not_made_twice(self, shelf: Shelf) -> None:
        await shelf.register(shelf.ana, 7)
        for _ in range(3):
            assert await shelf.save(shelf.ana, "one", base=0, fence=7) == Saved(1)
        await shelf.save(shelf.ana, "two", base=1, fence=7)
        assert await shelf.save(shelf.ana, "one", base=0, fence=7) == Saved(1), "later ones change nothing"
        await shelf.register(shelf.ben, 8)
        await shelf.save(shelf.ben, "three", base=2, fence=8)
        assert await shelf.save(shelf.ana, "one", base=0, fence=7) == Saved(1), "nor does a newer grant"
        assert await shelf.save(shelf.ana, "two", base=1, fence=7) == Saved(2)
        assert await shelf.texts() == ["one", "two", "three"]
        assert await shelf.drafts() == []

    async def test_a_draft_is_not_made_twice(self, shelf: Shelf) -> None:
        await shelf.register(shelf.ana, 7)
        await shelf.register(shelf.ben, 8)
        first = await shelf.save(shelf.ana, "late", base=0, fence=7)
        assert await shelf.save(shelf.ana, "late", base=0, fence=7) == first
        await shelf.register(shelf.ana, 9)
        assert await shelf.save(shelf.ana, "late", base=0, fence=7) == first
        assert len(await shelf.drafts()) == 1
        assert await shelf.save(shelf.ana, "later", base=0, fence=7) != first
        assert await shelf.save(shelf.ben, "late", base=0, fence=7) != first
        assert len(await shelf.drafts()) == 3

    async def test_what_changed_nothing_is_told_so_after_the_next_grant_too(self, shelf: Shelf) -> None:
        await shelf.register(shelf.ana, 7)
        await shelf.save(shelf.ana, "one", base=0, fence=7)
        assert await shelf.save(shelf.ana, "one", base=1, fence=7) == Saved(1)
        await shelf.register(shelf.ben, 8)
        assert await shelf.save(shelf.ana, "one", base=1, fence=7) == Saved(1)
        await shelf.save(shelf.ben, "two", base=1, fence=8)
        assert await shelf.save(shelf.ana, "one", base=1, fence=7) == Saved(1)
        assert await shelf.drafts() == []

    async def test_the_words_of_somebody_else_are_not_taken_for_ones_own(self, shelf: Shelf) -> None:
        await shelf.register(shelf.ana, 7)
        await shelf.save(shelf.ana, "one", base=0, fence=7)
        await shelf.register(shelf.ben, 8)
        assert isinstance(await shelf.save(shelf.ben, "one", base=0, fence=7), Rescued), "not his fence"
        assert isinstance(await shelf.save(shelf.ben, "one", base=0, fence=8), Rescued), "not his version"
        assert isinstance(await shelf.save(shelf.ana, "one", base=1, fence=7), Rescued), "never asked before"
        assert len(await shelf.drafts()) == 3


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
async def test_content_comes_back_as_it_was(shelf: Shelf, content: Content) -> None:
    await shelf.register(shelf.ana, 7)
    await shelf.save(shelf.ana, "before", base=0, fence=7)
    assert await shelf.save(shelf.ana, content, base=1, fence=7) == Saved(2)
    await shelf.save(shelf.ben, content, base=1, fence=7)
    assert (await shelf.texts())[-1] == content
    assert [decode_content(draft.content) for draft in await shelf.drafts()] == [content]


def nested(depth: int) -> Content:
    content: dict[str, object] = {}
    for _ in range(depth - 1):
        content = {"in": content}
    return content


@pytest.mark.parametrize(
    "content",
    [{"n": float("nan")}, {"n": [float("inf")]}, "half \ud800", {"\udfff": 1}, nested(MAX_DEPTH + 1)],
    ids=["nan", "infinity", "half a character", "half a character in a key", "too deep"],
)
async def test_content_that_could_not_be_sent_again_is_refused(shelf: Shelf, content: Content) -> None:
    await shelf.register(shelf.ana, 7)
    with pytest.raises(InvalidRequest):
        await shelf.save(shelf.ana, content, base=0, fence=7)
    assert await count_of(shelf.sessions, VersionRow) == 0


async def test_the_deepest_content_is_kept(shelf: Shelf) -> None:
    await shelf.register(shelf.ana, 7)
    assert await shelf.save(shelf.ana, nested(MAX_DEPTH), base=0, fence=7) == Saved(1)


async def test_documents_do_not_know_each_other(shelf: Shelf) -> None:
    other = await add_document(shelf.sessions, shelf.ben)
    await shelf.register(shelf.ana, 7)
    await shelf.store.register(Grant(other, shelf.ben, 3))
    assert await shelf.store.save(Save(other, shelf.ben, "his", 0, 3)) == Saved(1)
    assert await shelf.save(shelf.ana, "hers", base=0, fence=7) == Saved(1)
    assert isinstance(await shelf.store.save(Save(other, shelf.ana, "hers", 0, 7)), Rescued)
    assert await shelf.texts() == ["hers"]
