"""A wiki with its own users and pages that shows who is editing: ``python -m examples.wiki [PORT [STORE_URL]]``.

``curl -X POST -H "Authorization: Bearer ana" localhost:8000/api/documents/home/lock``; docs/protocol.md has the rest.
"""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, Header
from pydantic import BaseModel

import leasehold
from leasehold.documents import Access, Editor, Grant, Rescued, Save, Saved
from leasehold.documents.fastapi import install_problems, lock_router
from leasehold.documents.uvicorn import SocketProtocol


@dataclass(frozen=True)
class User:
    id: str
    name: str
    role: Any


USERS = {"ana": User("ana", "Ana", "editor"), "olga": User("olga", "Olga", "owner")}


async def signed_in(authorization: Annotated[str, Header()] = "") -> User:
    try:
        return USERS[authorization.removeprefix("Bearer ")]
    except KeyError:
        raise leasehold.NotSignedIn("Authorization: Bearer ana, or olga") from None


@dataclass
class Page:
    grant: Grant
    content: Any = "Welcome"
    version: int = 0
    answers: dict[Save, Saved | Rescued] = field(default_factory=dict)


class Wiki(dict[str, Page]):
    """The access policy and the page store. It compares fences, so that no work is lost."""

    async def access(self, user_id: str, document_id: str) -> Access | None:
        return Access(USERS[user_id].role) if document_id in self else None

    async def register(self, grant: Grant) -> int:
        page = self[grant.document_id]
        if grant.fence < page.grant.fence:
            raise leasehold.StaleFence(seen=page.grant.fence, given=grant.fence)
        page.grant = grant
        return page.version

    async def save(self, save: Save) -> Saved | Rescued:
        page = self[save.document_id]
        if save in page.answers:  # a retry after a lost response
            return page.answers[save]
        if (
            page.grant == Grant(save.document_id, save.editor, save.fence)
            and save.base_version == page.version
        ):
            page.content, page.version = save.content, page.version + (save.content != page.content)
            page.answers[save] = Saved(page.version)
        else:
            why = "stale_fence" if save.fence < page.grant.fence else "stale_base"
            page.answers[save] = Rescued(f"draft-{len(page.answers)}", why, page.version)
        return page.answers[save]


class Edit(BaseModel):
    content: str
    base_version: int
    fence: int
    release: bool = False


def create_app(store_url: str | None = None) -> FastAPI:
    wiki = Wiki(home=Page(Grant("home", Editor("", ""), 0)))
    locks = leasehold.connect(store_url)
    router = lock_router(locks, current_user=signed_in, access=wiki, store=wiki)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with locks:
            yield

    app = FastAPI(title="A wiki", lifespan=lifespan)
    install_problems(app)
    app.include_router(router)

    @app.put("/pages/home")
    async def write(
        edit: Edit, user: Annotated[User, Depends(signed_in)], leasehold_tab: Annotated[str, Header()] = ""
    ) -> Saved | Rescued:
        editor = Editor.at_tab(user.id, user.name, leasehold_tab)
        save = Save("home", editor, edit.content, edit.base_version, edit.fence)
        return (await router.documents.save(save, release=edit.release)).outcome

    return app


if __name__ == "__main__":
    port, *store_url = sys.argv[1:] or ["8000"]
    uvicorn.run(create_app(*store_url), port=int(port), ws=SocketProtocol, ws_per_message_deflate=False)
