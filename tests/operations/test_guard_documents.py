"""What the page on guarantees shows of guards is run as written."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import redis.asyncio
from fastapi import FastAPI
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import leasehold

if TYPE_CHECKING:
    from tests.support.servers import Server

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"


async def run(code: str, names: dict[str, Any]) -> None:
    """Run ``code``, which may await at the top, as the page shows it."""
    ready = eval(compile(code, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(ready):
        await ready


async def test_the_guards_on_the_page_about_guarantees_work_as_shown(valkey: Server, tmp_path: Path) -> None:
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## Guards")
    section, _, _ = section.partition("\n## ")
    rows, keys, http = re.findall(r"```python\n(.*?)```", section, re.DOTALL)

    class Base(DeclarativeBase):
        pass

    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/deals.db")
    sessions = async_sessionmaker(engine)
    app = FastAPI()
    names: dict[str, Any] = {
        "__name__": __name__,
        "Base": Base,
        "Mapped": Mapped,
        "mapped_column": mapped_column,
        "sessions": sessions,
        "app": app,
    }
    async with (
        leasehold.connect(valkey.url) as names["locks"],
        redis.asyncio.Redis.from_url(valkey.url) as names["client"],
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://deals") as names["web"],
    ):
        declaration, _, use = rows.partition("\nasync with")
        await run(declaration, names)
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        async with sessions.begin() as session:
            session.add(names["Deal"](id=42, amount=100))

        async def amount() -> int:
            async with sessions() as session:
                return (await session.get_one(names["Deal"], 42)).amount

        await run(f"async with{use}", names)
        assert await amount() == 85
        with pytest.raises(leasehold.LeaseLost):
            await run("await guarded_update(session, Deal, 42, lease, {'amount': 1})", names)

        await run(keys, names)
        assert await names["client"].get("balance") == b"10"

        await run(http, names)
        assert await amount() == 70
        refused = await names["web"].put("/deals/42?amount=1", headers={"Leasehold-Fence": "1"})
        assert (refused.status_code, refused.json()["code"]) == (409, "stale_fence")
    await engine.dispose()
