"""People at their tabs, and somebody who makes documents for them and says who may do what."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.server.browser import Browser
from tests.server.model import ROLES, TABS, Tab
from tests.server.secrecy import Secrets

from leasehold.documents.store.lock_store import DocumentLockStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from tests.server.fleet import Fleet

LASTING, HURRIED, FLEETING = "lasting", "hurried", "fleeting"
"""Workers where nothing runs out, where a holder has no time to save, and where a hold ends at once."""


class Office:
    """The same people for all examples, at two workers in turn; each watches through the other one."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.hurried, self.fleeting = fleet.urls[HURRIED], fleet.urls[FLEETING]
        here, there = fleet.urls[LASTING], fleet.urls[f"{LASTING}_too"]
        secrets = Secrets()

        def browser(tab: Tab, *, rest_url: str, socket_url: str) -> Browser:
            return Browser(tab, rest_url=rest_url, socket_url=socket_url, secrets=secrets)

        self.browsers = {
            tab: browser(tab, rest_url=(here, there)[place % 2], socket_url=(there, here)[place % 2])
            for place, tab in enumerate(TABS)
        }
        # Signs out never, and has one tab more than the model knows.
        self.desk = browser(Tab("olga", 99), rest_url=here, socket_url=there)

    async def open(self) -> None:
        await asyncio.gather(*(self.browsers[tab].sign_in(register=True) for tab in TABS if tab.number == 1))
        await asyncio.gather(
            self.desk.sign_in(), *(self.browsers[tab].sign_in() for tab in TABS if tab.number > 1)
        )

    async def close(self) -> None:
        await asyncio.gather(*(browser.close() for browser in (self.desk, *self.browsers.values())))

    @property
    def ids(self) -> dict[str, str]:
        return {tab.user: browser.user_id for tab, browser in self.browsers.items()}

    async def new_document(self) -> tuple[str, str]:
        """An application with everybody in their first role, and a document in it."""
        application_id = (await self._make("/api/applications", name="Team"))["id"]
        for user, role in ROLES.items():
            if user != self.desk.tab.user:
                await self.set_role(application_id, user, None, role)
        document = await self._make("/api/documents", title="Document", application_id=application_id)
        return application_id, document["id"]

    async def set_role(self, application_id: str, user: str, before: str | None, role: str | None) -> None:
        members = f"/api/applications/{application_id}/members"
        member = f"{members}/{self.ids[user]}"
        if role == before:
            return
        if before is None:
            await self._make(members, email=f"{user}@example.com", role=role)
        elif role is None:
            answer = await self.desk.ask("DELETE", member)
            assert answer.status_code == 204, answer.text
        else:
            answer = await self.desk.ask("PATCH", member, json={"role": role})
            assert answer.status_code == 200, answer.text

    async def _make(self, path: str, **members: Any) -> dict[str, Any]:
        answer = await self.desk.ask("POST", path, json=members)
        assert answer.status_code == 201, answer.text
        return answer.json()


class Looks:
    """Counts the looks of calls that take by force, and those that were given up: both come later than what can be
    seen from outside, and what happens next depends on them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.looked: dict[str, set[str]] = defaultdict(set)
        self.withdrawn: dict[str, set[str]] = defaultdict(set)
        """The calls, by document."""
        patch.setattr(DocumentLockStore, "take", _noting(DocumentLockStore.take, self.looked))
        patch.setattr(DocumentLockStore, "withdraw", _noting(DocumentLockStore.withdraw, self.withdrawn))


def _noting(verb: Any, asks: dict[str, set[str]]) -> Any:
    async def ask_and_note(
        lock_store: DocumentLockStore, document_id: str, *arguments: Any, ask: str, **options: Any
    ) -> Any:
        answer = await verb(lock_store, document_id, *arguments, ask=ask, **options)
        asks[document_id].add(ask)
        return answer

    return ask_and_note


@asynccontextmanager
async def one_more(asks: set[str], within: float) -> AsyncIterator[None]:
    """What is done inside leads to one more, which is waited for."""
    before = len(asks)
    yield
    async with asyncio.timeout(within):
        while len(asks) == before:
            await asyncio.sleep(0.002)
