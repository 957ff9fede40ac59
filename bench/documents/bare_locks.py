"""`python -m bench.documents.bare_locks STORE_URL DIRECTORY`: document locks in a bare FastAPI application.

The same token check, one database read, one write for acquire, two redis-py calls for each request, and nothing else:
no fence, history, limits, headers or error handling. Uvicorn and SQLite have the settings of the document service.
"""

import asyncio
import json
import os
import secrets
import socket
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import redis.asyncio
import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy import (
    Column,
    Integer,
    MetaData,
    String,
    Table,
    bindparam,
    event,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import create_async_engine

from leasehold.documents.ports import Principal
from leasehold.server.auth.tokens import Tokens

DOCUMENTS = 64
TTL_MS = 45_000
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


DOCUMENTS_TABLE = Table(
    "documents",
    MetaData(),
    Column("id", String, primary_key=True),
    Column("owner_id", String),
    Column("version", Integer),
    Column("editor_id", String),
)
IS_DOCUMENT = DOCUMENTS_TABLE.c.id == bindparam("document")
READ = select(DOCUMENTS_TABLE.c.owner_id, DOCUMENTS_TABLE.c.version).where(IS_DOCUMENT)
WRITE = update(DOCUMENTS_TABLE).where(IS_DOCUMENT).values(editor_id=bindparam("editor"))


class Bare:
    def __init__(self, store_url: str, directory: str) -> None:
        self.tokens = Tokens(secrets.token_bytes(32), seconds=86_400)
        self.store = redis.asyncio.Redis.from_url(store_url)
        self.release = self.store.register_script(RELEASE)
        self.engine = create_async_engine(f"sqlite+aiosqlite:///{directory}/bare.sqlite", pool_size=16)
        event.listen(self.engine.sync_engine, "connect", _prepare)
        # Without it the writers would poll, which would dominate the measurement.
        self.turn = asyncio.Lock()

    async def fill(self) -> dict[str, Any]:
        """Create the documents of one user, and return the facts for a client."""
        ids = [str(number) for number in range(DOCUMENTS)]
        async with self.engine.begin() as connection:
            await connection.run_sync(DOCUMENTS_TABLE.metadata.create_all)
            rows = [{"id": each, "owner_id": "ana", "version": 0} for each in ids]
            await connection.execute(insert(DOCUMENTS_TABLE), rows)
        token = self.tokens.issue(user_id="ana", user_name="Ana", login_id="1", at=time.time())
        return {"token": token.text, "documents": ids}


def make_app(bare: Bare) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        yield
        await bare.store.aclose()
        await bare.engine.dispose()

    app = FastAPI(lifespan=lifespan)
    bearer = HTTPBearer()

    async def current_user(
        authorization: Annotated[HTTPAuthorizationCredentials, Depends(bearer)],
    ) -> Principal:
        return bare.tokens.verify(authorization.credentials)

    user_dependency = Depends(current_user)

    @app.post("/api/documents/{document_id}/lock")
    async def acquire(document_id: str, user: Annotated[Principal, user_dependency]) -> dict[str, Any]:
        document = await read(document_id, user)
        if not await bare.store.set(f"lock:{document_id}", user.user_id, nx=True, px=TTL_MS):
            raise HTTPException(409)
        async with bare.turn, bare.engine.begin() as connection:
            await connection.execute(WRITE, {"document": document_id, "editor": user.user_id})
        await bare.store.publish("locks", json.dumps({"document_id": document_id, "user_id": user.user_id}))
        return {"document_id": document_id, "locked": True, "version": document.version}

    @app.delete("/api/documents/{document_id}/lock")
    async def release(document_id: str, user: Annotated[Principal, user_dependency]) -> dict[str, Any]:
        await read(document_id, user)
        await bare.release(keys=[f"lock:{document_id}"], args=[user.user_id])
        await bare.store.publish("locks", json.dumps({"document_id": document_id, "user_id": None}))
        return {"document_id": document_id, "locked": False}

    async def read(document_id: str, user: Principal) -> Any:
        async with bare.engine.connect() as connection:
            document = (await connection.execute(READ, {"document": document_id})).one_or_none()
        if document is None:
            raise HTTPException(404)
        if document.owner_id != user.user_id:
            raise HTTPException(403)
        return document

    return app


def _prepare(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


async def main(store_url: str, directory: str) -> None:
    bare = Bare(store_url, directory)
    facts = await bare.fill()
    config = uvicorn.Config(
        make_app(bare), http="httptools", access_log=False, log_config=None, server_header=False
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # Connections queue from here on, so the server need not run yet.
        facts |= {"port": listener.getsockname()[1], "pid": os.getpid()}
        print(json.dumps(facts), flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


if __name__ == "__main__":
    import uvloop

    uvloop.run(main(*sys.argv[1:]))
