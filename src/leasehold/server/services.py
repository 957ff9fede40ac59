"""The resources that routes use: opened when the application starts, closed when it stops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection  # noqa: TC002 - FastAPI reads it

if TYPE_CHECKING:
    import asyncio

    from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

    from leasehold.client import Client
    from leasehold.documents.fastapi import LockRouter
    from leasehold.documents.locks import DocumentLocks
    from leasehold.documents.ports import AccessPolicy, DocumentStore
    from leasehold.server.auth.service import AuthService
    from leasehold.server.http.rate_limiter import RateLimiter
    from leasehold.server.settings import Settings


@dataclass(frozen=True, slots=True)
class Services:
    """The connections of one worker, and the services on them. Workers share nothing here.

    ``engine`` is migrated; ``database`` makes SQL sessions on it. ``client`` is connected to the lock store. ``live``
    has the lock routes and sockets, and must be told when permissions change. ``decoding`` bounds how many large contents are
    decoded at a time, because each takes much memory.
    """

    settings: Settings
    engine: AsyncEngine
    database: async_sessionmaker[AsyncSession]
    client: Client
    locks: DocumentLocks
    documents: DocumentStore
    access: AccessPolicy
    live: LockRouter
    auth: AuthService
    rate_limiter: RateLimiter
    decoding: asyncio.Semaphore


async def services_of(connection: HTTPConnection) -> Services:
    """The services of the application: a dependency of requests and sockets."""
    # Asynchronous because FastAPI runs a plain function in a thread, which costs more than most of our responses.
    return connection.app.state.services


UsesServices = Annotated[Services, Depends(services_of)]
"""``async def endpoint(services: UsesServices)``."""
