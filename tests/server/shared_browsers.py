"""Browsers of the users that all examples share, and an administrator that creates documents and sets roles."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.server.browser import Browser
from tests.server.model import ROLES, TABS, Tab
from tests.server.secrets_check import SecretsCheck

from leasehold.documents.store.lock_store import DocumentLockStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from tests.server.worker_group import WorkerGroup

LASTING, HURRIED, EXPIRING = "lasting", "hurried", "expiring"
"""Workers with long times, with no time for a holder to save, and with a very short ttl."""


class SharedBrowsers:
    """The same users for all examples, at two workers in turn; each watches through the other worker."""

    def __init__(self, worker_group: WorkerGroup) -> None:
        self.worker_group = worker_group
        self.hurried, self.expiring = worker_group.urls[HURRIED], worker_group.urls[EXPIRING]
        here, there = worker_group.urls[LASTING], worker_group.urls[f"{LASTING}_too"]
        secrets = SecretsCheck()

        def browser(tab: Tab, *, rest_url: str, socket_url: str) -> Browser:
            return Browser(tab, rest_url=rest_url, socket_url=socket_url, secrets=secrets)

        self.by_tab = {
            tab: browser(tab, rest_url=(here, there)[place % 2], socket_url=(there, here)[place % 2])
            for place, tab in enumerate(TABS)
        }
        # Never signs out, and has a tab that is not in the model.
        self.admin = browser(Tab("olga", 99), rest_url=here, socket_url=there)

    async def open(self) -> None:
        await asyncio.gather(*(self.by_tab[tab].sign_in(register=True) for tab in TABS if tab.number == 1))
        await asyncio.gather(
            self.admin.sign_in(), *(self.by_tab[tab].sign_in() for tab in TABS if tab.number > 1)
        )

    async def close(self) -> None:
        await asyncio.gather(*(browser.close() for browser in (self.admin, *self.by_tab.values())))

    @property
    def ids(self) -> dict[str, str]:
        return {tab.user: browser.user_id for tab, browser in self.by_tab.items()}

    async def new_document(self) -> tuple[str, str]:
        """Creates an application with every user in the initial role, and a document in it."""
        application_id = (await self._make("/api/applications", name="Team"))["id"]
        for user, role in ROLES.items():
            if user != self.admin.tab.user:
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
            answer = await self.admin.ask("DELETE", member)
            assert answer.status_code == 204, answer.text
        else:
            answer = await self.admin.ask("PATCH", member, json={"role": role})
            assert answer.status_code == 200, answer.text

    async def _make(self, path: str, **members: Any) -> dict[str, Any]:
        answer = await self.admin.ask("POST", path, json=members)
        assert answer.status_code == 201, answer.text
        return answer.json()


class TakeAttempts:
    """Counts the attempts of waiting force-takes, and the cancelled ones: both happen later than what is
    visible from outside, and later steps depend on them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.attempted: dict[str, set[str]] = defaultdict(set)
        self.withdrawn: dict[str, set[str]] = defaultdict(set)
        """The ids of the calls, by document."""
        patch.setattr(DocumentLockStore, "take", _noting(DocumentLockStore.take, self.attempted))
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
    """Waits until the body has caused one more call."""
    before = len(asks)
    yield
    async with asyncio.timeout(within):
        while len(asks) == before:
            await asyncio.sleep(0.002)
