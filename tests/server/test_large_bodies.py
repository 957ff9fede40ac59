"""Large bodies: those with too many values are refused before they are decoded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.team import Team, acquire, make_team, problem

from leasehold.errors import InvalidRequest
from leasehold.server.http import large_bodies
from leasehold.server.http.large_bodies import check_values

if TYPE_CHECKING:
    import httpx
    from tests.server.api import Api

MIB = 1 << 20
JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,[{"\\\n', max_size=5),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a,{"\\', max_size=3), inner),
)


def is_refused(body: bytes, max_content: int = MIB) -> bool:
    try:
        check_values(body, max_content=max_content)
    except InvalidRequest:
        return True
    return False


def marks_in(value: Any) -> int:
    """Commas, brackets and braces that JSON needs for it, outside strings."""
    if not isinstance(value, dict | list):
        return 0
    inside = value.values() if isinstance(value, dict) else value
    return 1 + max(0, len(value) - 1) + sum(marks_in(each) for each in inside)


@given(value=JSON)
def test_what_stands_in_strings_is_no_value(value: Any) -> None:
    body, marks = json.dumps(value).encode(), marks_in(value)
    assert not large_bodies._has_more(body, b",[{", marks)
    if marks:
        assert large_bodies._has_more(body, b",[{", marks - 1)


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        (b"[" + b"1," * 131_071 + b"1]", False),
        (b"[" + b"1," * 131_072 + b"1]", True),
        (b"[" + b'{"a":1},' * 65_534 + b"{}]", False),
        (b"[" + b'{"a":1},' * 65_535 + b"{}]", True),
        (b"[" * 300_000, True),
        (b'"' + b"1,[{" * 1_000_000 + b'"', False),
        (b'["a,b","' + b'\\",' * 1_000_000 + b'"]', False),
    ],
    ids=["values", "a value more", "objects", "an object more", "no ends", "a text", "quotes in a text"],
)
def test_a_content_has_so_many_values(body: bytes, refused: bool) -> None:
    assert is_refused(body) == refused


@pytest.mark.parametrize(
    "body",
    [
        b'\\"' * 2_000_000 + b"," * 300_000,
        b'"\\' * 2_000_000 + b"," * 300_000,
        b'"' * 3_999_999 + b"," * 300_000,
    ],
)
def test_a_body_that_is_no_json_is_looked_at_once(body: bytes) -> None:
    is_refused(body)  # it would hang


def test_a_small_limit_on_content_leaves_room_for_small_bodies() -> None:
    assert not is_refused(b"[" + b"1," * 65_000 + b"1]", max_content=1024)


async def test_they_are_refused_before_they_are_decoded(
    client: httpx.AsyncClient, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    del client
    team: Team = await make_team(api)
    document_id = await team.document()
    fence = (await acquire(team.ana, document_id))["fence"]
    decoded: list[int] = []
    loads = json.loads

    def recorded(text: Any, *arguments: Any, **options: Any) -> Any:
        decoded.append(len(text))
        return loads(text, *arguments, **options)

    monkeypatch.setattr(json, "loads", recorded)
    head = b'{"fence":"%b","base_version":0,"content":{"a":[' % fence.encode()
    for many in (b"[],", b'{"a":1},', b'"",'):
        body = head + many * 400_000 + b"1]}}"
        answer = await team.ana.http.put(
            f"/api/documents/{document_id}/content",
            content=body,
            headers={"Content-Type": "application/json"},
        )
        assert problem(answer) == (422, "invalid_request")
        assert "must not have more than" in answer.json()["message"]
    assert max(decoded) < 65_536
