"""Saves over REST: a version under the lock, otherwise a draft, never lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from limits import parse
from tests.server.api import Api
from tests.server.conftest import ON_SQLITE, client_of
from tests.server.team import Team, acquire, give_time_to_save, make_team, problem, save, take
from tests.support.eventually import LIMIT, eventually_async

from leasehold.documents.locks import DocumentLocks
from leasehold.server import Settings
from leasehold.server.db.models import new_id
from leasehold.server.documents.content import MAX_DEPTH
from leasehold.server.http.large_bodies import AT_ONCE

if TYPE_CHECKING:
    from tests.server.conftest import MakeApp, MakeSettings
    from tests.support.servers import Server

    from leasehold.documents.outcomes import SaveAnswer


@pytest.fixture
def _time_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    give_time_to_save(monkeypatch)


@pytest.fixture
async def team(api: Api) -> Team:
    return await make_team(api)


async def content_of(team: Team, document_id: str) -> tuple[int, Any]:
    document = (await team.vera.http.get(f"/api/documents/{document_id}")).json()
    return document["version"], document["content"]


@pytest.mark.both_databases
async def test_a_save_under_the_lock_is_the_next_version(team: Team) -> None:
    document_id = await team.document()
    grant = await acquire(team.ana, document_id)
    assert grant["content_version"] == 0
    answer = await save(team.ana, document_id, "one", 0, grant["fence"])
    assert (answer.status_code, answer.json()) == (200, {"version": 1, "lock_lost": False})
    tiptap = {"type": "doc", "content": [{"type": "paragraph", "content": [{"type": "text", "text": "two"}]}]}
    assert (await save(team.ana, document_id, tiptap, 1, grant["fence"])).json()["version"] == 2
    assert await content_of(team, document_id) == (2, tiptap)
    document = (await team.vera.http.get(f"/api/documents/{document_id}")).json()
    assert document["updated_by"] == team.ana.id
    assert (await acquire(team.ana, document_id))["content_version"] == 2


async def test_saving_and_releasing_are_one_request(team: Team) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    for _ in range(2):
        answer = await save(team.ana, document_id, "one", 0, fence, release=True, reason="idle")
        assert (answer.status_code, answer.json()) == (200, {"version": 1, "lock_lost": False})
        assert not (await team.vera.http.get(f"/api/documents/{document_id}/lock")).json()["locked"]
    holds = (await team.vera.http.get(f"/api/documents/{document_id}/lock/history")).json()["holds"]
    assert [hold["reason"] for hold in holds] == ["idle"]
    await acquire(team.ben, document_id)


async def test_a_save_after_the_lock_ended_is_kept_and_reported(team: Team) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    await team.ana.http.delete(f"/api/documents/{document_id}/lock")
    answer = await save(team.ana, document_id, "one", 0, fence)
    assert (answer.status_code, answer.json()) == (200, {"version": 1, "lock_lost": True})


@pytest.mark.both_databases
async def test_a_save_after_a_grant_to_another_user_is_a_draft(team: Team) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    await team.ana.http.delete(f"/api/documents/{document_id}/lock")
    await acquire(team.ben, document_id)
    answer = await save(team.ana, document_id, "late", 0, fence)
    assert problem(answer) == (409, "save_rescued")
    rescued = answer.json()
    assert (rescued["reason"], rescued["version"]) == ("stale_fence", 0)
    again = (await save(team.ana, document_id, "late", 0, fence)).json()
    assert again | {"request_id": ""} == rescued | {"request_id": ""}
    draft = (await team.ben.http.get(f"/api/documents/{document_id}/drafts/{rescued['draft_id']}")).json()
    assert (draft["content"], draft["author_id"], draft["status"]) == ("late", team.ana.id, "open")
    assert await content_of(team, document_id) == (0, "")


async def test_a_save_from_an_old_version_is_a_draft(team: Team) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    await save(team.ana, document_id, "one", 0, fence)
    answer = await save(team.ana, document_id, "two", 0, fence)
    assert problem(answer) == (409, "save_rescued")
    assert (answer.json()["reason"], answer.json()["version"]) == ("stale_base", 1)
    assert await content_of(team, document_id) == (1, "one")


async def test_a_fence_is_valid_only_for_its_user_and_tab(team: Team, api: Api) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    others = [team.ben, team.olga, await api.at_tab(team.ana, "another tab")]
    for person in others:
        answer = await save(person, document_id, f"of {person.name}", 0, fence)
        assert problem(answer) == (409, "save_rescued")
        assert answer.json()["reason"] == "not_holder"
    above = await save(team.ana, document_id, "guessed", 0, str(int(fence) + 1))
    assert above.json()["reason"] == "not_holder"
    assert (await save(team.ana, document_id, "hers", 0, fence)).json()["version"] == 1


async def test_a_save_repeated_after_a_lost_response_has_the_same_outcome(team: Team) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    for _ in range(3):
        assert (await save(team.ana, document_id, "one", 0, fence)).json() == {
            "version": 1,
            "lock_lost": False,
        }
    await take(team.olga, document_id)
    again = await save(team.ana, document_id, "one", 0, fence)
    assert (again.status_code, again.json()) == (200, {"version": 1, "lock_lost": True})
    versions = (await team.vera.http.get(f"/api/documents/{document_id}/versions")).json()["items"]
    assert [version["version"] for version in versions] == [1]
    assert (await team.ana.http.get(f"/api/documents/{document_id}/drafts")).json()["items"] == []


@pytest.mark.both_databases
async def test_of_twenty_saves_at_once_one_is_a_version(team: Team) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    answers = await asyncio.gather(*(save(team.ana, document_id, f"text {n}", 0, fence) for n in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
    (kept,) = [n for n, answer in enumerate(answers) if answer.status_code == 200]
    assert await content_of(team, document_id) == (1, f"text {kept}")
    page = (await team.ana.http.get(f"/api/documents/{document_id}/drafts?limit=200")).json()
    ids = [answer.json()["draft_id"] for answer in answers if answer.status_code == 409]
    assert {draft["id"] for draft in page["items"]} == set(ids)
    assert len(set(ids)) == 19
    for n, answer in enumerate(answers):
        if answer.status_code == 409:
            path = f"/api/documents/{document_id}/drafts/{answer.json()['draft_id']}"
            assert (await team.ana.http.get(path)).json()["content"] == f"text {n}"


async def test_saving_takes_an_editor(team: Team) -> None:
    document_id = await team.document()
    for person in (team.vera, team.otto):
        assert problem(await save(person, document_id, "text", 0, "1")) == (403, "not_allowed")
    assert problem(await save(team.ana, new_id(), "text", 0, "1")) == (404, "not_found")
    assert (await team.ana.http.get(f"/api/documents/{document_id}/drafts")).json()["items"] == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"fence": None},
        {"fence": ""},
        {"fence": 7},
        {"fence": "-1"},
        {"fence": "1e3"},
        {"fence": "٣"},
        {"fence": "9" * 19},
        {"base_version": -1},
        {"base_version": 2**53},
        {"base_version": 1.5},
        {"base_version": "0"},
        {"base_version": True},
        {"content": None},
        {"content": 7},
        {"content": ["a"]},
        {"release": "yes"},
        {"reason": "taken"},
        {"version": 5},
        {"user_id": "x"},
    ],
    ids=lambda body: ", ".join(f"{name} {value}" for name, value in body.items()) or "no fence",
)
@ON_SQLITE
async def test_a_save_needs_content_base_and_fence_and_nothing_else(team: Team, body: dict[str, Any]) -> None:
    document_id = await team.document()
    asked = {"content": "text", "base_version": 0, **({"fence": "7"} if body else {}), **body}
    answer = await team.ana.http.put(f"/api/documents/{document_id}/content", json=asked)
    assert problem(answer) == (422, "invalid_request")
    assert (await team.ana.http.get(f"/api/documents/{document_id}/drafts")).json()["items"] == []


def written(content: str) -> str:
    return f'{{"content": {content}, "base_version": 0, "fence": "1"}}'


@pytest.mark.parametrize(
    "content",
    [
        '{"n": NaN}',
        '{"n": [1e999]}',
        '"half \\ud800"',
        '{"\\udfff": 1}',
        '{"a":' * MAX_DEPTH + "{}" + "}" * MAX_DEPTH,
        '{"a":' * 100_000 + "{}" + "}" * 100_000,
        '"' + "x" * 1_048_577 + '"',
        '{"x": "' + "ü" * 524_288 + '"}',
    ],
    ids=[
        "nan",
        "infinity",
        "a lone surrogate",
        "a lone surrogate in a key",
        "deep",
        "deeper",
        "large",
        "large object",
    ],
)
@ON_SQLITE
async def test_content_that_cannot_be_read_back_is_refused(team: Team, content: str) -> None:
    document_id = await team.document()
    answer = await team.ana.http.put(
        f"/api/documents/{document_id}/content",
        content=written(content).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code in {400, 413, 422}
    assert problem(answer)[1] == "invalid_request"


@pytest.mark.parametrize(
    "content",
    ["x" * 1_048_576, "ü" * 524_288, "\0\x1f\u2028", {}, {"": {"a": [None, 1, 0.5, 2**70, "é"]}}],
    ids=["the longest allowed", "as many bytes", "controls", "object", "values"],
)
@pytest.mark.both_databases
async def test_content_comes_back_as_it_was(team: Team, content: Any) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    assert (await save(team.ana, document_id, content, 0, fence)).status_code == 200
    assert await content_of(team, document_id) == (1, content)
    version = (await team.vera.http.get(f"/api/documents/{document_id}/versions/1")).json()
    assert version["content"] == content


@pytest.mark.both_databases
async def test_the_deepest_content_comes_back(team: Team) -> None:
    content: dict[str, Any] = {}
    for _ in range(MAX_DEPTH - 1):
        content = {"in": content}
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    assert (await save(team.ana, document_id, content, 0, fence)).status_code == 200
    assert await content_of(team, document_id) == (1, content)
    draft_id = (await save(team.ben, document_id, content, 0, fence)).json()["draft_id"]
    path = f"/api/documents/{document_id}/drafts/{draft_id}/compare"
    assert (await team.ana.http.get(path)).json()["draft"]["content"] == content


@pytest.mark.both_databases
class TestVersions:
    async def test_they_are_listed_newest_first_and_read_by_number(self, team: Team) -> None:
        document_id = await team.document()
        path = f"/api/documents/{document_id}/versions"
        assert (await team.vera.http.get(path)).json() == {"items": [], "next_offset": None}
        fence = (await acquire(team.ana, document_id))["fence"]
        for base in range(3):
            await save(team.ana, document_id, f"text {base + 1}", base, fence)
        page = (await team.vera.http.get(path, params={"limit": 2})).json()
        assert [version["version"] for version in page["items"]] == [3, 2]
        assert page["next_offset"] == 2
        newest = page["items"][0]
        assert (newest["author_id"], newest["author_name"], newest["fence"]) == (team.ana.id, "Ana", fence)
        assert "content" not in newest
        assert (await team.vera.http.get(f"{path}/3")).json() == newest | {"content": "text 3"}
        assert (await team.vera.http.get(f"{path}/1")).json()["content"] == "text 1"

    async def test_missing_versions(self, team: Team) -> None:
        document_id = await team.document()
        for number in (0, 1, 2**53 - 1):
            assert (
                problem(await team.vera.http.get(f"/api/documents/{document_id}/versions/{number}"))[0] == 404
            )
        for number in ("-1", str(2**63), "one", "%00"):
            assert (
                problem(await team.vera.http.get(f"/api/documents/{document_id}/versions/{number}"))[0] == 422
            )
        for person, status in ((team.otto, 403), (team.vera, 200)):
            answer = await person.http.get(f"/api/documents/{document_id}/versions")
            assert answer.status_code == status


@pytest.mark.usefixtures("_time_to_save", "app")
class TestForceTake:
    async def test_the_holders_last_text_is_a_version_before_the_taker_has_the_lock(self, team: Team) -> None:
        document_id = await team.document()
        fence = (await acquire(team.ana, document_id))["fence"]
        taking = asyncio.ensure_future(take(team.olga, document_id))

        async def is_asked() -> bool:
            return bool((await team.ana.http.get(f"/api/documents/{document_id}/lock")).json()["taking"])

        await eventually_async(is_asked)
        assert (await save(team.ana, document_id, "last words", 0, fence, release=True)).status_code == 200
        taken = await asyncio.wait_for(taking, LIMIT)
        assert (taken["content_version"], taken["saved"]) == (1, True)
        late = await save(team.ana, document_id, "later words", 1, fence)
        assert late.json()["reason"] == "stale_fence"
        assert (await save(team.olga, document_id, "hers", 1, taken["fence"])).json()["version"] == 2


@ON_SQLITE
async def test_a_user_over_the_byte_quota_is_refused_and_nothing_is_dropped(
    make_app: MakeApp, make_settings: MakeSettings
) -> None:
    """Versions and drafts together. A save over the quota is refused before it is stored: the page still has the text."""
    app = await make_app(make_settings(max_content_bytes=1024, rate_content_bytes="2000/hour"))
    async with client_of(app) as client, Api(client) as api:
        team = await make_team(api)
        document_id = await team.document()
        fence = (await acquire(team.ana, document_id))["fence"]
        assert (await save(team.ana, document_id, "a" * 800, 0, fence)).status_code == 200
        draft = (await save(team.ana, document_id, "b" * 800, 0, fence)).json()["draft_id"]
        refused = await save(team.ana, document_id, "c" * 800, 1, fence)
        assert problem(refused) == (429, "rate_limited")
        assert 3000 < int(refused.headers["retry-after"]) <= 3600
        assert problem(await save(team.ana, document_id, "d" * 800, 0, fence)) == (429, "rate_limited")

        assert await content_of(team, document_id) == (1, "a" * 800)
        kept = (await team.ben.http.get(f"/api/documents/{document_id}/drafts")).json()["items"]
        assert [each["id"] for each in kept] == [draft]
        # The quota counts bytes for each user, and does not limit renewals and releases.
        assert (await save(team.ana, document_id, "e" * 400, 1, fence)).json()["version"] == 2
        lock = f"/api/documents/{document_id}/lock"
        assert (await team.ana.http.post(f"{lock}/heartbeat")).json()["extended"] is True
        assert (await team.ana.http.delete(lock)).status_code == 200
        grant = await acquire(team.ben, document_id)
        assert (await save(team.ben, document_id, "f" * 800, 2, grant["fence"])).status_code == 200


async def test_only_a_few_large_contents_are_decoded_at_a_time(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    running, most = 0, 0
    keep = DocumentLocks.save

    async def counted(*arguments: Any, **options: Any) -> SaveAnswer:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)  # the others come this far by now
        running -= 1
        return await keep(*arguments, **options)

    monkeypatch.setattr(DocumentLocks, "save", counted)
    text = "x" * 70_000
    saves = (save(team.ana, document_id, f"{text}{number}", 0, fence) for number in range(6))
    answers = await asyncio.gather(*saves)
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 5
    assert most <= AT_ONCE


def test_autosave_of_the_largest_document_stays_below_the_quota() -> None:
    """Every ten seconds, all day, with a second tab that does the same."""
    settings = Settings.load()
    rate = parse(settings.rate_content_bytes)
    assert 2 * settings.max_content_bytes * rate.get_expiry() / 10 < rate.amount


@ON_SQLITE
async def test_a_save_is_kept_while_the_lock_store_is_down(
    make_app: MakeApp, make_settings: MakeSettings, own_server: Any
) -> None:
    server: Server = own_server("valkey9")
    own = await make_app(make_settings(store_url=server.url, store_timeout=3))
    async with client_of(own) as client, Api(client) as api:
        ana = await api.register("Ana")
        document_id = await ana.create_document()
        fence = (await acquire(ana, document_id))["fence"]
        server.kill()
        answer = await save(ana, document_id, "text", 0, fence, release=True)
        assert (answer.status_code, answer.json()) == (200, {"version": 1, "lock_lost": None})
        assert (await ana.http.get(f"/api/documents/{document_id}")).json()["content"] == "text"
