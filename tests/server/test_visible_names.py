"""Names can be seen: of people, applications and projects, and titles of documents."""

from __future__ import annotations

import sys
import unicodedata
from typing import TYPE_CHECKING

import pytest
from pydantic import TypeAdapter, ValidationError
from tests.server.conftest import ON_SQLITE
from tests.server.pages import ANA, assert_problem
from tests.server.team import problem

from leasehold.server.auth.schemas import DisplayName
from leasehold.server.http.fields import Name

if TYPE_CHECKING:
    import httpx
    from tests.server.api import Api

KINDS = {"display name": TypeAdapter(DisplayName), "name or title": TypeAdapter(Name)}

UNSEEN = {
    "zero width spaces": "\u200b\u200b",
    "joiners": "\u200c\u200d",
    "a word joiner": "\u2060",
    "a byte order mark": "\ufeff",
    "soft hyphens": "\u00ad\u00ad",
    "a Hangul filler": "\u3164",
    "a half-width filler": "\uffa0",
    "Braille blanks": "\u2800\u2800",
    "a grapheme joiner": "\u034f",
    "variation selectors": "\ufe0f\U000e0100",
    "tags": "\U000e0041\U000e007f",
    "no-break spaces": "\u00a0\u2003\u3000",
    "a mixture": " \u200b\u3164\u2800 ",
}

SEEN = ["Ana", "Łukasz", "陳大文", "نیما", "क्‍ष", "می‌خواهم", "葛\U000e0100城", "👩‍💻", "❤️", "ᠮᠣᠩᠭ᠋ᠣᠯ"]

# Visible, although they are of the category of format characters.
SIGNS = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
SHOWS_NOTHING = (
    *("HANGUL FILLER", "CHOSEONG FILLER", "JUNGSEONG FILLER", "SMALL SCRIPT FILLER", "VARIATION SELECTOR"),
    *("PATTERN BLANK", "HIEROGLYPH FULL BLANK", "HIEROGLYPH HALF BLANK", "GRAPHEME JOINER"),
    *("VOWEL INHERENT", "NULL NOTEHEAD"),
)


def is_accepted(kind: str, name: str) -> bool:
    try:
        KINDS[kind].validate_python(name)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNSEEN.values(), ids=UNSEEN)
def test_a_name_that_shows_nothing_is_refused(kind: str, name: str) -> None:
    assert not is_accepted(kind, name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SEEN)
def test_a_name_in_any_writing_is_accepted(kind: str, name: str) -> None:
    assert is_accepted(kind, name)


@pytest.mark.parametrize("kind", KINDS)
def test_no_character_that_shows_nothing_is_a_name_by_itself(kind: str) -> None:
    accepted = [
        f"{code:04X} {unicodedata.name(chr(code), '')}"
        for code in range(sys.maxunicode + 1)
        if _shows_nothing(code) and is_accepted(kind, chr(code) * 2)
    ]
    assert accepted == []


def _shows_nothing(code: int) -> bool:
    name = unicodedata.name(chr(code), "")
    if unicodedata.category(chr(code)) in {"Cc", "Cf", "Cs", "Zs", "Zl", "Zp"}:
        return code not in SIGNS
    return any(words in name for words in SHOWS_NOTHING)


@ON_SQLITE
async def test_the_routes_refuse_them(client: httpx.AsyncClient, api: Api) -> None:
    ana = await api.register()
    for name in UNSEEN.values():
        for path, member in (("/api/applications", "name"), ("/api/documents", "title")):
            assert problem(await ana.http.post(path, json={member: name})) == (422, "invalid_request")
        answer = await client.post("/api/auth/register", json=ANA | {"display_name": name})
        assert_problem(answer, 422, "invalid_request")
