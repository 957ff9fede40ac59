"""The errors that a request can cause are bounded, however many members it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError
from tests.server.team import problem

import leasehold.server  # noqa: F401 - defines all requests
from leasehold.documents.http.schemas import Asked
from leasehold.documents.live.messages import FROM_CLIENT
from leasehold.server.documents.schemas import NewContent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx
    from tests.server.api import Api


def _all_requests(kind: type[Asked] = Asked) -> Iterator[type[Asked]]:
    for each in kind.__subclasses__():
        yield each
        yield from _all_requests(each)


UNKNOWN = {f"unknown {n}": 1 for n in range(1000)}


def test_the_requests_of_routes_and_sockets_are_found() -> None:
    assert {"NewContent", "Registration", "Ping", "AcquireRequest"} <= {
        kind.__name__ for kind in _all_requests()
    }


@pytest.mark.parametrize("kind", [*_all_requests()], ids=lambda kind: kind.__name__)
def test_unknown_members_cause_one_error(kind: type[Asked]) -> None:
    with pytest.raises(ValidationError) as caught:
        kind.model_validate(UNKNOWN)
    unknown = [error for error in caught.value.errors() if error["type"] == "extra_forbidden"]
    assert [error["loc"] for error in unknown] == [("unknown 0",)]
    assert caught.value.error_count() <= 1 + len(kind.model_fields)


def test_known_members_are_still_read() -> None:
    asked = {"content": "text", "base_version": 0, "fence": "1"}
    assert NewContent.model_validate(asked).content == "text"
    with pytest.raises(ValidationError) as caught:
        NewContent.model_validate(asked | UNKNOWN)
    assert caught.value.error_count() == 1


def test_a_message_with_unknown_members_causes_one_error() -> None:
    with pytest.raises(ValidationError) as caught:
        FROM_CLIENT.validate_python({"type": "ping", "data": UNKNOWN, **UNKNOWN})
    assert caught.value.error_count() == 2  # one for each object


async def test_the_response_names_the_first_one(client: httpx.AsyncClient, api: Api) -> None:
    ana = await api.register()
    answer = await ana.http.post("/api/applications", json={"name": "Atlas", **UNKNOWN})
    assert problem(answer) == (422, "invalid_request")
    assert answer.json()["message"].startswith("body.unknown 0: ")
