"""An application with a user of each role, and an outsider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leasehold.documents.timings import Times
from leasehold.server import Settings

if TYPE_CHECKING:
    import httpx
    import pytest
    from tests.server.api import Api, Person


@dataclass(frozen=True)
class Team:
    olga: Person
    ana: Person
    ben: Person
    vera: Person
    otto: Person
    application_id: str

    def with_role(self, role: str | None) -> Person:
        return {"owner": self.olga, "editor": self.ana, "viewer": self.vera, None: self.otto}[role]

    async def document(self, title: str = "Plan") -> str:
        return await self.olga.create_document(title, application_id=self.application_id)


def give_time_to_save(patch: pytest.MonkeyPatch) -> None:
    """Gives a holder much time to save, set before the application starts, so that no test depends on speed."""
    patch.setattr(Settings, "times", property(lambda _: Times(save_within=30)))


async def make_team(api: Api) -> Team:
    """Olga owns, Ana and Ben edit, Vera views, Otto is an outsider. Each has a tab."""
    people = {
        name: await api.register(name, tab=f"tab of {name}")
        for name in ("Olga", "Ana", "Ben", "Vera", "Otto")
    }
    olga = people["Olga"]
    application_id = await olga.create_application("Atlas")
    for name, role in (("Ana", "editor"), ("Ben", "editor"), ("Vera", "viewer")):
        await olga.add_member(application_id, people[name], role)
    return Team(*people.values(), application_id)


async def acquire(person: Person, document_id: str, **body: Any) -> dict[str, Any]:
    """The grant."""
    answer = await person.http.post(f"/api/documents/{document_id}/lock", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def take(person: Person, document_id: str) -> dict[str, Any]:
    """Takes the lock by force, and returns the grant."""
    answer = await person.http.post(f"/api/documents/{document_id}/lock/force-take")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def save(
    person: Person, document_id: str, content: Any, base: int, fence: str, **more: Any
) -> httpx.Response:
    body = {"content": content, "base_version": base, "fence": fence, **more}
    return await person.http.put(f"/api/documents/{document_id}/content", json=body)


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a response that must be a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body = answer.json()
    assert body["type"] == body["code"]
    assert body["status"] == answer.status_code
    assert body["message"]
    return answer.status_code, body["code"]
