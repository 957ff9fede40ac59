"""Runs the example of docs/people.md as it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
from examples.wiki import Page as WikiPage
from examples.wiki import Wiki, signed_in
from fastapi import FastAPI
from tests.support.pages import Page

import leasehold
from leasehold.documents import Editor, Grant

if TYPE_CHECKING:
    from tests.support.pages import Example
    from tests.support.servers import Server

PAGE = Page("docs/people.md")


def test_every_python_block_of_the_page_on_people_is_run() -> None:
    assert PAGE.left_out() == []


@PAGE.runs("lock_router(locks")
async def test_an_application_gets_locks_for_its_own_pages(example: Example, valkey: Server) -> None:
    pages = Wiki(home=WikiPage(Grant("home", Editor("", ""), 0)))
    app = FastAPI()
    async with leasehold.connect(valkey.url) as locks:
        names: dict[str, Any] = {"locks": locks, "app": app, "signed_in": signed_in}
        await example.run(names | {"policy": pages, "pages": pages})
        ana, olga = ({"Authorization": f"Bearer {name}"} for name in ("ana", "olga"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://wiki") as web:
            assert (await web.post("/api/documents/home/lock", headers=ana)).status_code == 200
            busy = await web.post("/api/documents/home/lock", headers=olga)
    assert (busy.status_code, busy.json()["lock_holder"]["user_name"]) == (409, "Ana")
